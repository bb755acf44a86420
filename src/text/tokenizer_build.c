#include "text/tokenizer_build.h"

#include <string.h>

Tokenizer *tokenizer_build(int32_t size, bool byte_level) {
    Arena arena = {0};
    Tokenizer *tokenizer = arena_alloc(&arena, sizeof *tokenizer);
    vocabulary_open(&tokenizer->vocabulary, &arena, size, byte_level);
    tokenizer->bos_id = tokenizer->eos_id = tokenizer->pad_id = -1;
    tokenizer->arena = arena;
    return tokenizer;
}

void tokenizer_close(Tokenizer *tokenizer) {
    if (!tokenizer) return;
    for (int i = 0; i < tokenizer->normalizer_count; i++) pattern_close(tokenizer->normalizers[i].pattern);
    for (int i = 0; i < tokenizer->step_count; i++) pattern_close(tokenizer->steps[i].pattern);
    bpe_list_close(&tokenizer->prefix);
    bpe_list_close(&tokenizer->suffix);
    Arena arena = tokenizer->arena; // it holds the tokenizer itself
    arena_close(&arena);
}

bool tokenizer_build_normalizer(Tokenizer *tokenizer, NormalizeStep step, Error *error) {
    if (tokenizer->normalizer_count == TOKENIZER_STEPS) {
        pattern_close(step.pattern);
        return error_set(error, "normalizer: more than %d steps", TOKENIZER_STEPS);
    }
    tokenizer->normalizers[tokenizer->normalizer_count++] = step;
    return true;
}

bool tokenizer_build_step(Tokenizer *tokenizer, PretokenizeStep step, Error *error) {
    if (tokenizer->step_count == TOKENIZER_STEPS) {
        pattern_close(step.pattern);
        return error_set(error, "pre_tokenizer: more than %d steps", TOKENIZER_STEPS);
    }
    tokenizer->steps[tokenizer->step_count++] = step;
    return true;
}

bool tokenizer_build_decoder(Tokenizer *tokenizer, DetokenizeStep step, Error *error) {
    if (tokenizer->decoder_count == DETOKENIZE_STEPS)
        return error_set(error, "decoder: more than %d steps", DETOKENIZE_STEPS);
    tokenizer->decoders[tokenizer->decoder_count++] = step;
    return true;
}

const char tokenizer_build_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

bool tokenizer_build_split(Tokenizer *tokenizer, const char *regex, PatternDialect dialect,
                           PretokenizeBehavior behavior, Error *error) {
    PretokenizeStep step = {.behavior = behavior};
    return pattern_open(&step.pattern, regex, strlen(regex), dialect, error) &&
           tokenizer_build_step(tokenizer, step, error);
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

static uint8_t added_flags(uint32_t flags) {
    return (uint8_t)((flags & VOCABULARY_SINGLE_WORD ? ADDED_SINGLE_WORD : 0) |
                     (flags & VOCABULARY_LSTRIP ? ADDED_LSTRIP : 0) | (flags & VOCABULARY_RSTRIP ? ADDED_RSTRIP : 0));
}

// A token that is looked for in normalized text is normalized itself, and decodes to that.
static bool add_normalized(Tokenizer *tokenizer, const StrBuf *text, int32_t id, Error *error) {
    if (text->length > ADDED_LONGEST)
        return error_set(error, "the added token %d has %zu bytes when normalized, %d is the most", id, text->length,
                         ADDED_LONGEST);
    if (!text->length) return error_set(error, "the added token %d is empty when normalized", id);
    vocabulary_set_bytes(&tokenizer->vocabulary, &tokenizer->arena, id, text->text, text->length);
    added_insert(&tokenizer->normalized, text->text, text->length, id,
                 added_flags(tokenizer->vocabulary.tokens[id].flags));
    return true;
}

static bool normalize_token(const Tokenizer *tokenizer, StrBuf *text, int32_t id, Error *error) {
    const VocabularyToken *token = tokenizer->vocabulary.tokens + id;
    strbuf_clear(text);
    return normalize_text(tokenizer->normalizers, tokenizer->normalizer_count, text, token->text, token->text_size,
                          ADDED_MOST, error);
}

// The added tokens with or without VOCABULARY_NORMALIZED.
static bool gather(Tokenizer *tokenizer, Added *added, bool normalized, Error *error) {
    const Vocabulary *vocabulary = &tokenizer->vocabulary;
    StrBuf text = {0};
    size_t bytes = 0;
    bool good = true;
    for (int pass = 0; good && pass < 2; pass++) { // counted first, then inserted
        if (pass) added_open(added, &tokenizer->arena, bytes);
        if (pass) added->word = tokenizer->word.count ? &tokenizer->word : NULL;
        for (int32_t id = 0; good && id < vocabulary->size; id++) {
            const VocabularyToken *token = vocabulary->tokens + id;
            if (!(token->flags & VOCABULARY_ADDED) || normalized != !!(token->flags & VOCABULARY_NORMALIZED)) continue;
            if (token->text_size > ADDED_LONGEST)
                good = error_set(error, "the added token %d has %u bytes, %d is the most", id, token->text_size,
                                 ADDED_LONGEST);
            else if (normalized)
                good = normalize_token(tokenizer, &text, id, error) &&
                       (!pass || add_normalized(tokenizer, &text, id, error));
            else if (pass)
                added_insert(added, token->text, token->text_size, id, added_flags(token->flags));
            bytes += normalized ? text.length : token->text_size;
            if (good && bytes > ADDED_MOST && !pass)
                good = error_set(error, "the added tokens have more than %d bytes together", ADDED_MOST);
        }
    }
    strbuf_close(&text);
    return good;
}

static bool gather_added(Tokenizer *tokenizer, Error *error) {
    for (int32_t id = 0; id < tokenizer->vocabulary.size && !tokenizer->word.count; id++)
        if (tokenizer->vocabulary.tokens[id].flags & VOCABULARY_SINGLE_WORD) {
            charset_add_word(&tokenizer->word, &tokenizer->arena);
            charset_tidy(&tokenizer->word);
        }
    return gather(tokenizer, &tokenizer->raw, false, error) && gather(tokenizer, &tokenizer->normalized, true, error);
}

static bool check_id(const Tokenizer *tokenizer, const char *what, int32_t id, Error *error) {
    if (id == -1 || (id >= 0 && id < tokenizer->vocabulary.size && tokenizer->vocabulary.tokens[id].text)) return true;
    return error_set(error, "%s is %d, but no token has this id (there are %d ids)", what, id,
                     tokenizer->vocabulary.size);
}

// Decoders that look at one token at a time are run ahead.
static void set_plain(Tokenizer *tokenizer) {
    const Vocabulary *vocabulary = &tokenizer->vocabulary;
    if (vocabulary->byte_level && tokenizer->decoder_count == 1) return;
    size_t *end = arena_array(&tokenizer->arena, size_t, vocabulary->size + 1);
    StrBuf bytes = {0};
    strbuf_clear(&bytes);
    for (int32_t id = 0; id < vocabulary->size; id++) {
        if (vocabulary->tokens[id].text) detokenize_token(tokenizer, &bytes, id);
        end[id + 1] = bytes.length;
    }
    const char *all = arena_bytes(&tokenizer->arena, bytes.text, bytes.length);
    tokenizer->plain = arena_array(&tokenizer->arena, VocabularyToken, vocabulary->size);
    for (int32_t id = 0; id < vocabulary->size; id++)
        tokenizer->plain[id] =
            (VocabularyToken){.bytes = all + end[id], .byte_size = (uint32_t)(end[id + 1] - end[id])};
    strbuf_close(&bytes);
}

bool tokenizer_build_finish(Tokenizer *tokenizer, bool add_bos, bool add_eos, Error *error) {
    if (!check_id(tokenizer, "the BOS id", tokenizer->bos_id, error)) return false;
    if (!check_id(tokenizer, "the EOS id", tokenizer->eos_id, error)) return false;
    if (!check_id(tokenizer, "the padding id", tokenizer->pad_id, error)) return false;
    if (add_bos && tokenizer->bos_id < 0) return error_set(error, "a BOS token is to be added, but none is named");
    if (add_eos && tokenizer->eos_id < 0) return error_set(error, "an EOS token is to be added, but none is named");
    if (add_bos && !tokenizer->prefix.count) bpe_list_append(&tokenizer->prefix, tokenizer->bos_id);
    if (add_eos && !tokenizer->suffix.count) bpe_list_append(&tokenizer->suffix, tokenizer->eos_id);
    if (!gather_added(tokenizer, error)) return false;
    set_plain(tokenizer);
    return true;
}
