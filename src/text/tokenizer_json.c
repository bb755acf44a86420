#include "text/tokenizer_build.h"

#include "base/file.h"
#include "base/jsonio.h"

#include <string.h>

static const char *type_of(const json_t *part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "without a type";
}

// Every key that is not listed could change ids: better refused than passed over.
static bool known_keys(const json_t *part, const char *what, const char *const *keys, size_t count, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)part, key, value) {
        size_t i = 0;
        while (i < count && strcmp(keys[i], key)) i++;
        if (i < count) continue;
        const char *nearest = strbuf_nearest(key, keys, count);
        return error_set(error, "%s: unknown key \"%.200s\"%s%s%s", what, key, nearest ? ", did you mean \"" : "",
                         nearest ? nearest : "", nearest ? "\"?" : "");
    }
    return true;
}

#define KNOWN_KEYS(part, what, error, ...)                                                                             \
    known_keys((part), (what), (const char *const[]){__VA_ARGS__},                                                     \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), (error))

// A flag that may be missing or null; anything else but true and false is an error.
static bool read_flag(bool *flag, const json_t *part, const char *what, const char *key, bool missing, Error *error) {
    const json_t *value = json_object_get(part, key);
    *flag = json_is_boolean(value) ? json_is_true(value) : missing;
    return !value || json_is_null(value) || json_is_boolean(value) ||
           error_set(error, "%s: %s must be true or false", what, key);
}

// A flag that must not be set.
static bool refuse_flag(const json_t *part, const char *what, const char *key, Error *error) {
    bool flag;
    if (!read_flag(&flag, part, what, key, false, error)) return false;
    return !flag || error_set(error, "%s: %s = true is not supported", what, key);
}

static bool refuse_text(const json_t *part, const char *what, const char *key, Error *error) {
    const json_t *value = json_object_get(part, key);
    if (!value || json_is_null(value) || (json_is_string(value) && !json_string_length(value))) return true;
    return error_set(error, "%s: %s is not supported", what, key);
}

// ---- normalizer, pre_tokenizer, post_processor, decoder

static bool read_normalizer(Tokenizer *tokenizer, const json_t *part, Error *error) {
    if (!part || json_is_null(part)) return true;
    const char *type = type_of(part);
    if (!strcmp(type, "NFC")) {
        tokenizer->nfc = true;
        return KNOWN_KEYS(part, "normalizer NFC", error, "type");
    }
    if (strcmp(type, "Sequence"))
        return error_set(error, "normalizer %.200s is not supported (known: NFC, Sequence)", type);
    if (!KNOWN_KEYS(part, "normalizer Sequence", error, "type", "normalizers")) return false;
    size_t i;
    json_t *inner;
    json_array_foreach(json_object_get(part, "normalizers"), i, inner) {
        if (!read_normalizer(tokenizer, inner, error)) return false;
    }
    return true;
}

static bool add_step(Tokenizer *tokenizer, PretokenizeStep step, Error *error) {
    if (tokenizer->step_count == TOKENIZER_STEPS)
        return error_set(error, "pre_tokenizer: more than %d steps", TOKENIZER_STEPS);
    tokenizer->steps[tokenizer->step_count++] = step;
    return true;
}

static bool read_split(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "pre_tokenizer Split";
    if (!KNOWN_KEYS(part, what, error, "type", "pattern", "behavior", "invert")) return false;
    if (!refuse_flag(part, what, "invert", error)) return false;
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    if (!behavior || strcmp(behavior, "Isolated"))
        return error_set(error, "%s: behavior %.200s is not supported (known: Isolated)", what,
                         behavior ? behavior : "(none)");
    const char *regex = json_string_value(json_object_get(json_object_get(part, "pattern"), "Regex"));
    if (!regex) return error_set(error, "%s: expected a pattern of kind Regex", what);
    PretokenizeStep step;
    if (!pretokenize_known(&step, regex))
        return error_set(error, "%s: the regex is none of the known ones (GPT-2, Qwen 2, Llama 3): %.600s", what,
                         regex);
    return add_step(tokenizer, step, error);
}

static bool read_byte_level(Tokenizer *tokenizer, const json_t *part, bool *bytes, Error *error) {
    const char *what = "pre_tokenizer ByteLevel";
    if (!KNOWN_KEYS(part, what, error, "type", "add_prefix_space", "trim_offsets", "use_regex")) return false;
    const json_t *prefix = json_object_get(part, "add_prefix_space");
    if (!json_is_false(prefix)) return error_set(error, "%s: expected add_prefix_space = false", what);
    bool regex;
    if (!read_flag(&regex, part, what, "use_regex", true, error)) return false;
    *bytes = true;
    return !regex || add_step(tokenizer, PRETOKENIZE_GPT2, error);
}

static bool read_digits(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "pre_tokenizer Digits";
    bool individual;
    if (!KNOWN_KEYS(part, what, error, "type", "individual_digits")) return false;
    if (!read_flag(&individual, part, what, "individual_digits", false, error)) return false;
    return add_step(tokenizer, individual ? PRETOKENIZE_DIGITS : PRETOKENIZE_DIGIT_RUNS, error);
}

// bytes: whether ByteLevel has been seen; it must come once, and last, as what follows would split byte characters.
static bool read_pre_tokenizer(Tokenizer *tokenizer, const json_t *part, bool *bytes, Error *error) {
    const char *type = type_of(part);
    if (!strcmp(type, "Sequence")) {
        if (!KNOWN_KEYS(part, "pre_tokenizer Sequence", error, "type", "pretokenizers")) return false;
        size_t i;
        json_t *inner;
        json_array_foreach(json_object_get(part, "pretokenizers"), i, inner) {
            if (!read_pre_tokenizer(tokenizer, inner, bytes, error)) return false;
        }
        return true;
    }
    if (*bytes) return error_set(error, "pre_tokenizer %.200s after ByteLevel is not supported", type);
    if (!strcmp(type, "Digits")) return read_digits(tokenizer, part, error);
    if (!strcmp(type, "Split")) return read_split(tokenizer, part, error);
    if (!strcmp(type, "ByteLevel")) return read_byte_level(tokenizer, part, bytes, error);
    return error_set(error, "pre_tokenizer %.200s is not supported (known: Sequence, Digits, Split, ByteLevel)", type);
}

// The ids of one special token of a template.
static bool append_special(const Tokenizer *tokenizer, TokenList *list, const json_t *part, const char *name,
                           Error *error) {
    const json_t *ids = json_object_get(json_object_get(json_object_get(part, "special_tokens"), name), "ids");
    if (!json_array_size(ids))
        return error_set(error, "post_processor: special_tokens has no ids for \"%.200s\"", name);
    size_t i;
    json_t *value;
    json_array_foreach(ids, i, value) {
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= tokenizer->vocabulary.size)
            return error_set(error, "post_processor: \"%.200s\" has an id outside the vocabulary", name);
        bpe_list_append(list, (int32_t)id);
    }
    return true;
}

static bool read_template(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "post_processor TemplateProcessing";
    if (!KNOWN_KEYS(part, what, error, "type", "single", "pair", "special_tokens")) return false;
    if (tokenizer->prefix.count || tokenizer->suffix.count)
        return error_set(error, "%s: a second one is not supported", what);
    int texts = 0;
    size_t i;
    json_t *piece;
    json_array_foreach(json_object_get(part, "single"), i, piece) {
        const char *text = json_string_value(json_object_get(json_object_get(piece, "Sequence"), "id"));
        const char *special = json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
        if (text && !strcmp(text, "A"))
            texts++;
        else if (!special)
            return error_set(error, "%s: piece %zu of single is neither a SpecialToken nor Sequence A", what, i);
        else if (!append_special(tokenizer, texts ? &tokenizer->suffix : &tokenizer->prefix, part, special, error))
            return false;
    }
    return texts == 1 || error_set(error, "%s: expected Sequence A once in single, found it %d times", what, texts);
}

static bool read_post_processor(Tokenizer *tokenizer, const json_t *part, Error *error) {
    if (!part || json_is_null(part)) return true;
    const char *type = type_of(part);
    if (!strcmp(type, "ByteLevel")) return true; // moves offsets only
    if (!strcmp(type, "TemplateProcessing")) return read_template(tokenizer, part, error);
    if (strcmp(type, "Sequence"))
        return error_set(
            error, "post_processor %.200s is not supported (known: ByteLevel, TemplateProcessing, Sequence)", type);
    if (!KNOWN_KEYS(part, "post_processor Sequence", error, "type", "processors")) return false;
    size_t i;
    json_t *inner;
    json_array_foreach(json_object_get(part, "processors"), i, inner) {
        if (!read_post_processor(tokenizer, inner, error)) return false;
    }
    return true;
}

static bool check_decoder(const json_t *part, Error *error) {
    const char *type = json_is_null(part) || !part ? "null" : type_of(part);
    return !strcmp(type, "ByteLevel") || error_set(error, "decoder %.200s is not supported (known: ByteLevel)", type);
}

// ---- model and added tokens

static bool check_model(const json_t *model, Error *error) {
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type || strcmp(type, "BPE"))
        return error_set(error, "model %.200s is not supported (known: BPE)", type ? type : "without a type");
    if (!KNOWN_KEYS(model, "model", error, "type", "dropout", "unk_token", "continuing_subword_prefix",
                    "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"))
        return false;
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return error_set(error, "model: dropout is not supported");
    if (!json_is_object(json_object_get(model, "vocab"))) return error_set(error, "model: vocab must be an object");
    if (!json_is_array(json_object_get(model, "merges"))) return error_set(error, "model: merges must be an array");
    if (json_array_size(json_object_get(model, "merges")) > VOCABULARY_LARGEST)
        return error_set(error, "model: more than %d merges", VOCABULARY_LARGEST);
    return refuse_text(model, "model", "continuing_subword_prefix", error) &&
           refuse_text(model, "model", "end_of_word_suffix", error) &&
           refuse_flag(model, "model", "byte_fallback", error);
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
    if (!KNOWN_KEYS(entry, what, error, "id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"))
        return false;
    if (!refuse_flag(entry, what, "single_word", error) || !refuse_flag(entry, what, "lstrip", error) ||
        !refuse_flag(entry, what, "rstrip", error))
        return false;
    bool normalized, special;
    if (!read_flag(&special, entry, what, "special", false, error)) return false;
    if (!read_flag(&normalized, entry, what, "normalized", !special, error)) return false;
    uint32_t flags = VOCABULARY_ADDED | (special ? VOCABULARY_SPECIAL : 0) | (normalized ? VOCABULARY_NORMALIZED : 0);
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
    if (!read_flag(&tokenizer->bpe.fuse_unknown, model, "model", "fuse_unk", false, error)) return false;
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

// The token under key in tokenizer_config.json: a string or an object with content; null and missing leave *id alone.
static bool read_config_token(const Tokenizer *tokenizer, int32_t *id, const json_t *config, const char *key,
                              Error *error) {
    const json_t *value = json_object_get(config, key);
    if (!value || json_is_null(value)) return true;
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    if (!text) return error_set(error, "tokenizer_config.json: %s must be a string", key);
    *id = tokenizer_id(tokenizer, text);
    return *id >= 0 ||
           error_set(error, "tokenizer_config.json: %s \"%.200s\" is no token of tokenizer.json", key, text);
}

static bool fill(Tokenizer *tokenizer, const json_t *root, const json_t *config, Error *error) {
    const json_t *model = json_object_get(root, "model"), *pre_tokenizer = json_object_get(root, "pre_tokenizer");
    bool bytes = false, add_bos = false;
    if (!read_normalizer(tokenizer, json_object_get(root, "normalizer"), error)) return false;
    if (!read_pre_tokenizer(tokenizer, pre_tokenizer, &bytes, error)) return false;
    if (!bytes) return error_set(error, "pre_tokenizer: expected ByteLevel as its last step");
    if (!check_decoder(json_object_get(root, "decoder"), error)) return false;
    if (!add_tokens(tokenizer, json_object_get(model, "vocab"), json_object_get(root, "added_tokens"), error))
        return false;
    if (!add_merges(tokenizer, json_object_get(model, "merges"), error)) return false;
    if (!read_unknown(tokenizer, model, error)) return false;
    if (!read_flag(&tokenizer->whole_pieces, model, "model", "ignore_merges", false, error)) return false;
    if (!read_post_processor(tokenizer, json_object_get(root, "post_processor"), error)) return false;
    if (!read_config_token(tokenizer, &tokenizer->bos_id, config, "bos_token", error)) return false;
    if (!read_config_token(tokenizer, &tokenizer->eos_id, config, "eos_token", error)) return false;
    if (!read_config_token(tokenizer, &tokenizer->pad_id, config, "pad_token", error)) return false;
    if (!read_flag(&add_bos, config, "tokenizer_config.json", "add_bos_token", false, error)) return false;
    return tokenizer_build_finish(tokenizer, add_bos, error);
}

static bool build(Tokenizer **tokenizer, const json_t *root, const json_t *config, Error *error) {
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    int32_t count = 0;
    if (!json_is_object(root)) return error_set(error, "expected an object");
    if (!KNOWN_KEYS(root, "top level", error, "version", "truncation", "padding", "added_tokens", "normalizer",
                    "pre_tokenizer", "post_processor", "decoder", "model"))
        return false;
    if (!check_model(model, error)) return false;
    if (added && !json_is_array(added)) return error_set(error, "added_tokens must be an array");
    if (!count_ids(&count, json_object_get(model, "vocab"), added, error)) return false;
    Tokenizer *built = tokenizer_build(count);
    if (!fill(built, root, config, error)) {
        tokenizer_close(built);
        return false;
    }
    *tokenizer = built;
    return true;
}

bool tokenizer_open_folder(Tokenizer **tokenizer, const char *folder, Error *error) {
    *tokenizer = NULL;
    char path[4096], config_path[4096];
    int length = snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    int config_length = snprintf(config_path, sizeof config_path, "%s/tokenizer_config.json", folder);
    if (length >= (int)sizeof path || config_length >= (int)sizeof config_path)
        return error_set(error, "the folder name is too long: %.200s", folder);
    json_t *root = NULL, *config = NULL;
    bool good =
        jsonio_read(&root, path, error) && (!file_exists(config_path) || jsonio_read(&config, config_path, error));
    if (good && !build(tokenizer, root, config, error)) good = error_prefix(error, "%s: ", path);
    json_decref(root);
    json_decref(config);
    return good;
}
