#include "text/tokenizer_build.h"
#include "text/tokenizer_pre.h"

#include <math.h>
#include <string.h>

static bool set_byte_level(Tokenizer *tokenizer, const TokenizerPre *pre, Error *error) {
    tokenizer->whole_pieces = pre->whole_pieces;
    return (!pre->nfc || tokenizer_build_normalizer(tokenizer, (NormalizeStep){.kind = NORMALIZE_NFC}, error)) &&
           (!pre->digits || tokenizer_build_split(tokenizer, "\\p{N}", PATTERN_RUST, PRETOKENIZE_ISOLATED, error)) &&
           tokenizer_build_split(tokenizer, pre->regex, PATTERN_ONIGURUMA, PRETOKENIZE_ISOLATED, error) &&
           tokenizer_build_decoder(tokenizer, (DetokenizeStep){.kind = DETOKENIZE_BYTES}, error);
}

// ---- SentencePiece

static const char blank[] = "\xE2\x96\x81";

static bool set_sentencepiece(Tokenizer *tokenizer, bool prefix, Error *error) {
    const NormalizeStep prepend = {.kind = NORMALIZE_PREPEND, .to = blank, .to_size = 3},
                        replace = {.kind = NORMALIZE_REPLACE, .from = " ", .from_size = 1, .to = blank, .to_size = 3};
    const DetokenizeStep decoders[] = {{.kind = DETOKENIZE_REPLACE, .from = blank, .to = " "},
                                       {.kind = DETOKENIZE_BYTE_FALLBACK},
                                       {.kind = DETOKENIZE_FUSE},
                                       {.kind = DETOKENIZE_STRIP, .from = " ", .limit = 1}};
    if ((prefix && !tokenizer_build_normalizer(tokenizer, prepend, error)) ||
        !tokenizer_build_normalizer(tokenizer, replace, error))
        return false;
    for (int i = 0; i < (prefix ? 4 : 3); i++)
        if (!tokenizer_build_decoder(tokenizer, decoders[i], error)) return false;
    return true;
}

typedef struct Scored {
    float score;
    int32_t id;
} Scored;

static int by_score(const void *a, const void *b) {
    const Scored *one = a, *other = b;
    return (one->score < other->score) - (one->score > other->score);
}

// The higher the score, the earlier a token is made; among equals the leftmost.
static bool set_ranks(Tokenizer *tokenizer, const TokenizerTables *tables, Error *error) {
    Arena scratch = {0};
    Scored *scored = arena_array(&scratch, Scored, tables->token_count);
    int32_t *ranks = arena_array(&tokenizer->arena, int32_t, tables->token_count), rank = 0;
    bool good = tables->scores || error_set(error, "tokenizer.ggml.scores is missing, and model llama needs it");
    for (int32_t id = 0; good && id < tables->token_count; id++) {
        scored[id] = (Scored){tables->scores[id], id};
        good = !isnan(tables->scores[id]) || error_set(error, "tokenizer.ggml.scores: token %d has no number", id);
    }
    if (good) {
        qsort(scored, (size_t)tables->token_count, sizeof *scored, by_score);
        for (int32_t i = 0; i < tables->token_count; i++) {
            if (i && scored[i].score != scored[i - 1].score) rank++;
            ranks[scored[i].id] = rank;
        }
        tokenizer->bpe.ranks = ranks;
    }
    arena_close(&scratch);
    return good;
}

// ---- both

static uint32_t flags_of(int32_t type) {
    enum { UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, BYTE = 6 };
    if (type == CONTROL || type == UNKNOWN) return VOCABULARY_ADDED | VOCABULARY_SPECIAL;
    if (type == BYTE) return VOCABULARY_BYTE;
    return type == USER_DEFINED ? VOCABULARY_ADDED : VOCABULARY_MODEL;
}

static bool add_tokens(Tokenizer *tokenizer, const TokenizerTables *tables, Error *error) {
    enum { NORMAL = 1, UNUSED = 5 };
    for (int32_t id = 0; id < tables->token_count; id++) {
        int32_t type = tables->types ? tables->types[id] : NORMAL;
        const char *text = tables->tokens[id];
        if (type == UNUSED) continue;
        if (!vocabulary_add(&tokenizer->vocabulary, &tokenizer->arena, id, text, strlen(text), flags_of(type), error))
            return false;
    }
    tokenizer_build_merges(tokenizer, tables->merge_count);
    for (int32_t rank = 0; rank < tables->merge_count; rank++)
        if (!tokenizer_build_merge_line(tokenizer, rank, tables->merges[rank], error)) return false;
    return true;
}

static bool fill(Tokenizer *tokenizer, const TokenizerTables *tables, Error *error) {
    bool add_bos = tables->sentencepiece, add_eos = tables->add_eos > 0;
    if (tables->sentencepiece) {
        if (!set_sentencepiece(tokenizer, tables->add_space_prefix, error)) return false;
    } else {
        const TokenizerPre *pre = tokenizer_pre_find(tables->pre, error);
        if (!pre || !set_byte_level(tokenizer, pre, error)) return false;
        add_bos = pre->add_bos;
    }
    if (!add_tokens(tokenizer, tables, error)) return false;
    if (tables->sentencepiece && !set_ranks(tokenizer, tables, error)) return false;
    tokenizer->bos_id = tables->bos_id;
    tokenizer->eos_id = tables->eos_id;
    tokenizer->pad_id = tables->pad_id;
    if (tables->sentencepiece && tables->unknown_id >= 0 && tables->unknown_id < tables->token_count)
        tokenizer->bpe.unknown_id = tables->unknown_id;
    if (tables->add_bos >= 0) add_bos = tables->add_bos > 0;
    return tokenizer_build_finish(tokenizer, add_bos, add_eos, error);
}

bool tokenizer_open_tables(Tokenizer **tokenizer, const TokenizerTables *tables, const char *source_name,
                           Error *error) {
    *tokenizer = NULL;
    if (tables->token_count <= 0 || tables->token_count > VOCABULARY_LARGEST)
        return error_set(error, "%s: %d tokens, expected 1 to %d", source_name, tables->token_count,
                         VOCABULARY_LARGEST);
    if (tables->merge_count < 0 || tables->merge_count > VOCABULARY_LARGEST)
        return error_set(error, "%s: %d merges, expected 0 to %d", source_name, tables->merge_count,
                         VOCABULARY_LARGEST);
    Tokenizer *built = tokenizer_build(tables->token_count, !tables->sentencepiece);
    if (!fill(built, tables, error)) {
        tokenizer_close(built);
        return error_prefix(error, "%s: ", source_name);
    }
    *tokenizer = built;
    return true;
}
