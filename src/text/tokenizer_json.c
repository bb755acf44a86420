#include "text/tokenizer_build.h"

#include "base/file.h"
#include "base/log.h"
#include "text/tokenizer_keys.h"
#include "text/tokenizer_parts.h"

#include <string.h>

// ---- model and added tokens

static bool check_model(const json_t *model, Error *error) {
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type || strcmp(type, "BPE"))
        return error_set(error, "model %.200s is not supported (known: BPE)", type ? type : "without a type");
    if (!TOKENIZER_KEYS(model, "model", error, "type", "dropout", "unk_token", "continuing_subword_prefix",
                        "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"))
        return false;
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return error_set(error, "model: dropout is not supported");
    if (!json_is_object(json_object_get(model, "vocab"))) return error_set(error, "model: vocab must be an object");
    if (!json_is_array(json_object_get(model, "merges"))) return error_set(error, "model: merges must be an array");
    if (json_array_size(json_object_get(model, "merges")) > VOCABULARY_LARGEST)
        return error_set(error, "model: more than %d merges", VOCABULARY_LARGEST);
    return tokenizer_keys_refuse_text(model, "model", "continuing_subword_prefix", error) &&
           tokenizer_keys_refuse_text(model, "model", "end_of_word_suffix", error);
}

static bool check_id(const json_t *value, const char *text, json_int_t *largest, Error *error) {
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id >= VOCABULARY_LARGEST)
        return error_set(error, "token \"%.200s\": expected an id from 0 to %d", text, VOCABULARY_LARGEST - 1);
    if (id > *largest) *largest = id;
    return true;
}

// One more than the largest id in vocab and added_tokens, all of which are checked.
static bool count_ids(int32_t *count, const json_t *vocab, const json_t *added, Error *error) {
    json_int_t largest = -1;
    const char *text;
    json_t *value;
    json_object_foreach((json_t *)vocab, text, value) {
        if (!check_id(value, text, &largest, error)) return false;
    }
    size_t i;
    json_array_foreach(added, i, value) {
        const char *content = json_string_value(json_object_get(value, "content"));
        if (!content) return error_set(error, "added_tokens: entry %zu has no content", i);
        if (!check_id(json_object_get(value, "id"), content, &largest, error)) return false;
    }
    *count = (int32_t)(largest + 1);
    return *count > 0 || error_set(error, "model: vocab is empty");
}

static bool add_added_token(Tokenizer *tokenizer, const json_t *entry, Error *error) {
    const json_t *content = json_object_get(entry, "content");
    char what[300];
    snprintf(what, sizeof what, "added token \"%.200s\"", json_string_value(content));
    if (!TOKENIZER_KEYS(entry, what, error, "id", "content", "single_word", "lstrip", "rstrip", "normalized",
                        "special"))
        return false;
    static const struct {
        const char *key;
        uint32_t flag;
    } strips[] = {{"single_word", VOCABULARY_SINGLE_WORD},
                  {"lstrip", VOCABULARY_LSTRIP},
                  {"rstrip", VOCABULARY_RSTRIP}};
    bool normalized, special, given;
    if (!tokenizer_keys_flag(&special, entry, what, "special", false, error)) return false;
    if (!tokenizer_keys_flag(&normalized, entry, what, "normalized", !special, error)) return false;
    uint32_t flags = VOCABULARY_ADDED | (special ? VOCABULARY_SPECIAL : 0) | (normalized ? VOCABULARY_NORMALIZED : 0);
    for (size_t i = 0; i < sizeof strips / sizeof *strips; i++) {
        if (!tokenizer_keys_flag(&given, entry, what, strips[i].key, false, error)) return false;
        if (given) flags |= strips[i].flag;
    }
    return vocabulary_add(&tokenizer->vocabulary, &tokenizer->arena,
                          (int32_t)json_integer_value(json_object_get(entry, "id")), json_string_value(content),
                          json_string_length(content), flags, error);
}

static bool add_tokens(Tokenizer *tokenizer, const json_t *vocab, const json_t *added, Error *error) {
    const char *text;
    json_t *value;
    json_object_foreach((json_t *)vocab, text, value) {
        if (!vocabulary_add(&tokenizer->vocabulary, &tokenizer->arena, (int32_t)json_integer_value(value), text,
                            strlen(text), VOCABULARY_MODEL, error))
            return false;
    }
    size_t i;
    json_array_foreach(added, i, value) {
        if (!add_added_token(tokenizer, value, error)) return false;
    }
    return true;
}

static bool add_merges(Tokenizer *tokenizer, const json_t *merges, Error *error) {
    tokenizer_build_merges(tokenizer, (int32_t)json_array_size(merges));
    size_t i;
    json_t *merge;
    json_array_foreach(merges, i, merge) {
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        bool good;
        if (json_is_string(merge))
            good = tokenizer_build_merge_line(tokenizer, (int32_t)i, json_string_value(merge), error);
        else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right))
            good = tokenizer_build_merge(tokenizer, (int32_t)i, json_string_value(left), json_string_length(left),
                                         json_string_value(right), json_string_length(right), error);
        else
            good = error_set(error, "merge %zu: expected \"left right\" or [left, right]", i);
        if (!good) return false;
    }
    return true;
}

static bool read_unknown(Tokenizer *tokenizer, const json_t *model, Error *error) {
    if (!tokenizer_keys_flag(&tokenizer->bpe.fuse_unknown, model, "model", "fuse_unk", false, error)) return false;
    const json_t *unknown = json_object_get(model, "unk_token");
    if (!unknown || json_is_null(unknown)) return true;
    if (!json_is_string(unknown)) return error_set(error, "model: unk_token must be a string");
    int32_t id = vocabulary_find(&tokenizer->vocabulary, json_string_value(unknown), json_string_length(unknown));
    if (id < 0)
        return error_set(error, "model: unk_token \"%.200s\" is not in the vocabulary", json_string_value(unknown));
    tokenizer->bpe.unknown_id = id;
    return true;
}

// ---- the whole

// The text under key in tokenizer_config.json: a string or an object with content; NULL for null and missing.
static bool read_config_text(const char **text, const json_t *config, const char *key, Error *error) {
    const json_t *value = json_object_get(config, key);
    bool there = value && !json_is_null(value);
    *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    return !there || *text || error_set(error, "tokenizer_config.json: %s must be a string", key);
}

// The token of that text; without one *id is left alone.
static bool read_config_token(const Tokenizer *tokenizer, int32_t *id, const json_t *config, const char *key,
                              Error *error) {
    const char *text;
    if (!read_config_text(&text, config, key, error)) return false;
    if (!text) return true;
    *id = tokenizer_id(tokenizer, text);
    return *id >= 0 ||
           error_set(error, "tokenizer_config.json: %s \"%.200s\" is no token of tokenizer.json", key, text);
}

// Those that only chat templates see need not be tokens.
static bool read_named(Tokenizer *tokenizer, const json_t *config, Error *error) {
    for (int i = TOKENIZER_WITH_ID; i < TOKENIZER_NAMES; i++) {
        const char *text;
        if (!read_config_text(&text, config, tokenizer_names[i], error)) return false;
        if (text) tokenizer->named[i] = arena_string(&tokenizer->arena, text);
    }
    return true;
}

// What transformers makes of tokenizer_config.json beside a tokenizer.json: the post-processor alone says what is added to a
// text, and texts of BPE are not cleaned up.
static bool read_config(Tokenizer *tokenizer, const json_t *config, Error *error) {
    const char *what = "tokenizer_config.json";
    static const char *const corrupt = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output";
    bool add_bos, add_eos, clean_up, forced, prefixed = tokenizer->prefix.count, suffixed = tokenizer->suffix.count;
    if (!read_config_token(tokenizer, &tokenizer->bos_id, config, "bos_token", error) ||
        !read_config_token(tokenizer, &tokenizer->eos_id, config, "eos_token", error) ||
        !read_config_token(tokenizer, &tokenizer->pad_id, config, "pad_token", error) ||
        !read_named(tokenizer, config, error) ||
        !tokenizer_keys_flag(&add_bos, config, what, "add_bos_token", prefixed, error) ||
        !tokenizer_keys_flag(&add_eos, config, what, "add_eos_token", suffixed, error) ||
        !tokenizer_keys_flag(&clean_up, config, what, "clean_up_tokenization_spaces", false, error) ||
        !tokenizer_keys_flag(&forced, config, what, corrupt, false, error))
        return false;
    if (clean_up && forced) return error_set(error, "%s: %s = true is not supported", what, corrupt);
    if (clean_up) log_verbose("%s: clean_up_tokenization_spaces is for WordPiece and not applied to BPE", what);
    if (add_bos != prefixed || add_eos != suffixed)
        log_verbose("%s: add_bos_token and add_eos_token are not applied: the post_processor of tokenizer.json counts",
                    what);
    return true;
}

static bool fill(Tokenizer *tokenizer, const json_t *root, const json_t *config, Error *error) {
    const json_t *model = json_object_get(root, "model");
    if (!tokenizer_parts_normalizer(tokenizer, json_object_get(root, "normalizer"), error)) return false;
    if (!tokenizer_parts_pre_tokenizer(tokenizer, json_object_get(root, "pre_tokenizer"), error)) return false;
    if (!tokenizer_parts_decoder(tokenizer, json_object_get(root, "decoder"), error)) return false;
    if (!add_tokens(tokenizer, json_object_get(model, "vocab"), json_object_get(root, "added_tokens"), error))
        return false;
    if (!add_merges(tokenizer, json_object_get(model, "merges"), error)) return false;
    if (!read_unknown(tokenizer, model, error)) return false;
    if (!tokenizer_keys_flag(&tokenizer->bpe.byte_fallback, model, "model", "byte_fallback", false, error))
        return false;
    if (!tokenizer_keys_flag(&tokenizer->whole_pieces, model, "model", "ignore_merges", false, error)) return false;
    if (!tokenizer_parts_post_processor(tokenizer, json_object_get(root, "post_processor"), error)) return false;
    return read_config(tokenizer, config, error) && tokenizer_build_finish(tokenizer, false, false, error);
}

static bool build(Tokenizer **tokenizer, const json_t *root, const json_t *config, Error *error) {
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    int32_t count = 0;
    if (!TOKENIZER_KEYS(root, "top level", error, "version", "truncation", "padding", "added_tokens", "normalizer",
                        "pre_tokenizer", "post_processor", "decoder", "model"))
        return false;
    if (!check_model(model, error)) return false;
    if (added && !json_is_array(added)) return error_set(error, "added_tokens must be an array");
    if (!count_ids(&count, json_object_get(model, "vocab"), added, error)) return false;
    Tokenizer *built = tokenizer_build(count, tokenizer_parts_byte_level(json_object_get(root, "pre_tokenizer")));
    if (!fill(built, root, config, error)) {
        tokenizer_close(built);
        return false;
    }
    *tokenizer = built;
    return true;
}

// Truncation and padding are what a caller of the library may wish; transformers takes them off before it encodes.
static void say_ignored(const json_t *root, const char *path) {
    static const char *const keys[] = {"truncation", "padding"};
    for (int i = 0; i < 2; i++)
        if (json_is_object(json_object_get(root, keys[i])))
            log_verbose("%s: %s is not applied, texts are encoded as they are", path, keys[i]);
}

bool tokenizer_open_file(Tokenizer **tokenizer, const char *path, Error *error) {
    Arena arena = {0};
    *tokenizer = NULL;
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    const char *config_path = arena_format(&arena, "%.*stokenizer_config.json", folder, path);
    json_t *root = NULL, *config = NULL;
    bool good = jsonio_read_object(&root, path, error) &&
                (!file_is_listed(config_path) || jsonio_read_object(&config, config_path, error));
    if (good && !build(tokenizer, root, config, error)) good = error_prefix(error, "%s: ", path);
    if (good) say_ignored(root, path);
    json_decref(root);
    json_decref(config);
    arena_close(&arena);
    return good;
}

bool tokenizer_open_folder(Tokenizer **tokenizer, const char *folder, Error *error) {
    Arena arena = {0};
    bool good = tokenizer_open_file(tokenizer, arena_format(&arena, "%s/tokenizer.json", folder), error);
    arena_close(&arena);
    return good;
}
