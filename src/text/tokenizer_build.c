#include "text/tokenizer_build.h"

#include "text/unicode.h"

#include <string.h>

Tokenizer *tokenizer_build(int32_t size) {
    Arena arena = {0};
    Tokenizer *tokenizer = arena_alloc(&arena, sizeof *tokenizer);
    vocabulary_open(&tokenizer->vocabulary, &arena, size);
    tokenizer->bos_id = tokenizer->eos_id = tokenizer->pad_id = -1;
    tokenizer->arena = arena;
    return tokenizer;
}

void tokenizer_close(Tokenizer *tokenizer) {
    if (!tokenizer) return;
    bpe_list_close(&tokenizer->prefix);
    bpe_list_close(&tokenizer->suffix);
    Arena arena = tokenizer->arena; // it holds the tokenizer itself
    arena_close(&arena);
}

void tokenizer_build_merges(Tokenizer *tokenizer, int32_t merge_count) {
    bpe_open(&tokenizer->bpe, &tokenizer->arena, &tokenizer->vocabulary, merge_count);
}

static int32_t find_part(const Tokenizer *tokenizer, int32_t rank, const char *text, size_t size, Error *error) {
    int32_t id = vocabulary_find(&tokenizer->vocabulary, text, size);
    if (id < 0)
        error_set(error, "merge %d: the token \"%.*s\" is not in the vocabulary", rank, (int)(size < 200 ? size : 200),
                  text);
    return id;
}

bool tokenizer_build_merge(Tokenizer *tokenizer, int32_t rank, const char *left, size_t left_size, const char *right,
                           size_t right_size, Error *error) {
    char together[4096];
    if (left_size + right_size > sizeof together)
        return error_set(error, "merge %d: a token of %zu bytes, %zu is the most", rank, left_size + right_size,
                         sizeof together);
    memcpy(together, left, left_size);
    memcpy(together + left_size, right, right_size);
    int32_t left_id = find_part(tokenizer, rank, left, left_size, error);
    if (left_id < 0) return false;
    int32_t right_id = find_part(tokenizer, rank, right, right_size, error);
    if (right_id < 0) return false;
    int32_t result = find_part(tokenizer, rank, together, left_size + right_size, error);
    if (result < 0) return false;
    bpe_add_merge(&tokenizer->bpe, left_id, right_id, rank, result);
    return true;
}

bool tokenizer_build_merge_line(Tokenizer *tokenizer, int32_t rank, const char *line, Error *error) {
    const char *blank = strchr(line, ' ');
    if (!blank || strchr(blank + 1, ' '))
        return error_set(error, "merge %d: expected two tokens with one blank between, found \"%.200s\"", rank, line);
    return tokenizer_build_merge(tokenizer, rank, line, (size_t)(blank - line), blank + 1, strlen(blank + 1), error);
}

// A token that is looked for in normalized text is normalized itself, and decodes to that.
static bool add_normalized(Tokenizer *tokenizer, int32_t id, Error *error) {
    const VocabularyToken *token = tokenizer->vocabulary.tokens + id;
    StrBuf text = {0};
    if (tokenizer->nfc)
        unicode_nfc(&text, token->text, token->text_size);
    else
        strbuf_append(&text, token->text, token->text_size);
    bool good = text.length <= ADDED_LONGEST;
    if (good) {
        vocabulary_set_bytes(&tokenizer->vocabulary, &tokenizer->arena, id, text.text, text.length);
        added_insert(&tokenizer->normalized, text.text, text.length, id);
    } else {
        error_set(error, "the added token %d has %zu bytes when normalized, %d is the most", id, text.length,
                  ADDED_LONGEST);
    }
    strbuf_close(&text);
    return good;
}

static bool gather_added(Tokenizer *tokenizer, Error *error) {
    const Vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t raw_bytes = 0, normalized_bytes = 0;
    for (int32_t id = 0; id < vocabulary->size; id++) {
        const VocabularyToken *token = vocabulary->tokens + id;
        if (!(token->flags & VOCABULARY_ADDED)) continue;
        if (token->text_size > ADDED_LONGEST)
            return error_set(error, "the added token %d has %u bytes, %d is the most", id, token->text_size,
                             ADDED_LONGEST);
        *(token->flags & VOCABULARY_NORMALIZED ? &normalized_bytes : &raw_bytes) += token->text_size;
    }
    if (raw_bytes + normalized_bytes > ADDED_MOST)
        return error_set(error, "the added tokens have %zu bytes together, %d is the most",
                         raw_bytes + normalized_bytes, ADDED_MOST);
    added_open(&tokenizer->raw, &tokenizer->arena, raw_bytes);
    // NFC makes a text at most three times as long (Unicode Standard Annex 15, expansion factors).
    added_open(&tokenizer->normalized, &tokenizer->arena, 3 * normalized_bytes);
    for (int32_t id = 0; id < vocabulary->size; id++) {
        const VocabularyToken *token = vocabulary->tokens + id;
        if (!(token->flags & VOCABULARY_ADDED)) continue;
        if (!(token->flags & VOCABULARY_NORMALIZED))
            added_insert(&tokenizer->raw, token->text, token->text_size, id);
        else if (!add_normalized(tokenizer, id, error))
            return false;
    }
    return true;
}

static bool check_id(const Tokenizer *tokenizer, const char *what, int32_t id, Error *error) {
    if (id == -1 || (id >= 0 && id < tokenizer->vocabulary.size && tokenizer->vocabulary.tokens[id].text)) return true;
    return error_set(error, "%s is %d, but no token has this id (there are %d ids)", what, id,
                     tokenizer->vocabulary.size);
}

bool tokenizer_build_finish(Tokenizer *tokenizer, bool add_bos, Error *error) {
    if (!check_id(tokenizer, "the BOS id", tokenizer->bos_id, error)) return false;
    if (!check_id(tokenizer, "the EOS id", tokenizer->eos_id, error)) return false;
    if (!check_id(tokenizer, "the padding id", tokenizer->pad_id, error)) return false;
    if (add_bos && tokenizer->bos_id < 0) return error_set(error, "a BOS token is to be added, but none is named");
    if (add_bos && !tokenizer->prefix.count) bpe_list_append(&tokenizer->prefix, tokenizer->bos_id);
    return gather_added(tokenizer, error);
}

// GGUF's names for ways to split, each with what the model's own tokenizer.json has.
typedef struct Pre {
    const char *name;
    bool nfc, whole_pieces;
    int step_count;
    PretokenizeStep steps[2];
} Pre;

static const Pre pres[] = {
    {"smollm", false, false, 2, {PRETOKENIZE_DIGITS, PRETOKENIZE_GPT2}},
    {"qwen2", true, false, 1, {PRETOKENIZE_QWEN2}},
    {"gpt-2", false, false, 1, {PRETOKENIZE_GPT2}},
    {"default", false, false, 1, {PRETOKENIZE_GPT2}},
    {"llama-bpe", false, true, 1, {PRETOKENIZE_LLAMA3}},
    {"llama3", false, true, 1, {PRETOKENIZE_LLAMA3}},
};

static bool set_pre(Tokenizer *tokenizer, const char *name, Error *error) {
    StrBuf known = {0};
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        if (name && !strcmp(name, pres[i].name)) {
            tokenizer->nfc = pres[i].nfc;
            tokenizer->whole_pieces = pres[i].whole_pieces;
            tokenizer->step_count = pres[i].step_count;
            memcpy(tokenizer->steps, pres[i].steps, sizeof pres[i].steps);
            strbuf_close(&known);
            return true;
        }
        strbuf_format(&known, "%s%s", i ? ", " : "", pres[i].name);
    }
    error_set(error, "tokenizer.ggml.pre is %s%.200s%s, expected one of: %s", name ? "\"" : "", name ? name : "missing",
              name ? "\"" : "", known.text);
    strbuf_close(&known);
    return false;
}

static uint32_t flags_of(int32_t type) {
    enum { CONTROL = 3, USER_DEFINED = 4 };
    if (type == CONTROL) return VOCABULARY_ADDED | VOCABULARY_SPECIAL;
    return type == USER_DEFINED ? VOCABULARY_ADDED : VOCABULARY_MODEL;
}

static bool fill(Tokenizer *tokenizer, const TokenizerTables *tables, Error *error) {
    enum { NORMAL = 1, UNUSED = 5 };
    if (!set_pre(tokenizer, tables->pre, error)) return false;
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
    tokenizer->bos_id = tables->bos_id;
    tokenizer->eos_id = tables->eos_id;
    tokenizer->pad_id = tables->pad_id;
    return tokenizer_build_finish(tokenizer, tables->add_bos, error);
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
    Tokenizer *built = tokenizer_build(tables->token_count);
    if (!fill(built, tables, error)) {
        tokenizer_close(built);
        return error_prefix(error, "%s: ", source_name);
    }
    *tokenizer = built;
    return true;
}
