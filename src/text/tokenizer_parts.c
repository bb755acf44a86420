#include "text/tokenizer_parts.h"

#include "text/tokenizer_keys.h"

#include <string.h>

// The text under key, which must be there; copied.
static bool read_text(Tokenizer *tokenizer, const char **text, size_t *size, const json_t *part, const char *what,
                      const char *key, Error *error) {
    const json_t *value = json_object_get(part, key);
    if (!json_is_string(value)) return error_set(error, "%s: %s must be a string", what, key);
    *size = json_string_length(value);
    *text = arena_bytes(&tokenizer->arena, json_string_value(value), *size);
    return true;
}

// A pattern is {"String": …} or {"Regex": …}.
static const json_t *pattern_of(const json_t *part, bool *regex) {
    const json_t *pattern = json_object_get(part, "pattern"), *text = json_object_get(pattern, "Regex");
    *regex = text != NULL;
    if (!text) text = json_object_get(pattern, "String");
    return json_string_length(text) ? text : NULL;
}

// ---- normalizer

static bool read_replace(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "normalizer Replace";
    NormalizeStep step = {.kind = NORMALIZE_REPLACE};
    bool regex;
    if (!TOKENIZER_KEYS(part, what, error, "type", "pattern", "content")) return false;
    if (!read_text(tokenizer, &step.to, &step.to_size, part, what, "content", error)) return false;
    const json_t *pattern = pattern_of(part, &regex);
    if (!pattern) return error_set(error, "%s: expected a pattern of kind String or Regex that is not empty", what);
    step.from_size = json_string_length(pattern);
    step.from = arena_bytes(&tokenizer->arena, json_string_value(pattern), step.from_size);
    if (regex) {
        step.kind = NORMALIZE_REPLACE_REGEX;
        if (!pattern_open(&step.pattern, step.from, step.from_size, PATTERN_ONIGURUMA, error))
            return error_prefix(error, "%s: ", what);
    }
    return tokenizer_build_normalizer(tokenizer, step, error);
}

static bool read_prepend(Tokenizer *tokenizer, const json_t *part, Error *error) {
    NormalizeStep step = {.kind = NORMALIZE_PREPEND};
    return TOKENIZER_KEYS(part, "normalizer Prepend", error, "type", "prepend") &&
           read_text(tokenizer, &step.to, &step.to_size, part, "normalizer Prepend", "prepend", error) &&
           tokenizer_build_normalizer(tokenizer, step, error);
}

static bool read_strip(Tokenizer *tokenizer, const json_t *part, Error *error) {
    NormalizeStep step = {.kind = NORMALIZE_STRIP};
    const char *what = "normalizer Strip";
    return TOKENIZER_KEYS(part, what, error, "type", "strip_left", "strip_right") &&
           tokenizer_keys_flag(&step.left, part, what, "strip_left", true, error) &&
           tokenizer_keys_flag(&step.right, part, what, "strip_right", true, error) &&
           tokenizer_build_normalizer(tokenizer, step, error);
}

bool tokenizer_parts_normalizer(Tokenizer *tokenizer, const json_t *part, Error *error) {
    if (!part || json_is_null(part)) return true;
    const char *type = tokenizer_keys_type(part);
    bool nfc = !strcmp(type, "NFC");
    if (nfc || !strcmp(type, "NFD"))
        return TOKENIZER_KEYS(part, nfc ? "normalizer NFC" : "normalizer NFD", error, "type") &&
               tokenizer_build_normalizer(tokenizer, (NormalizeStep){.kind = nfc ? NORMALIZE_NFC : NORMALIZE_NFD},
                                          error);
    if (!strcmp(type, "Prepend")) return read_prepend(tokenizer, part, error);
    if (!strcmp(type, "Replace")) return read_replace(tokenizer, part, error);
    if (!strcmp(type, "Strip")) return read_strip(tokenizer, part, error);
    if (strcmp(type, "Sequence"))
        return error_set(
            error, "normalizer %.200s is not supported (known: NFC, NFD, Prepend, Replace, Strip, Sequence)", type);
    if (!TOKENIZER_KEYS(part, "normalizer Sequence", error, "type", "normalizers")) return false;
    size_t i;
    json_t *inner;
    json_array_foreach(json_object_get(part, "normalizers"), i, inner) {
        if (!tokenizer_parts_normalizer(tokenizer, inner, error)) return false;
    }
    return true;
}

// ---- pre_tokenizer

static bool read_behavior(PretokenizeBehavior *behavior, const char *what, const json_t *part, Error *error) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = json_string_value(json_object_get(part, "behavior"));
    for (int i = 0; name && i < 5; i++)
        if (!strcmp(name, names[i])) {
            *behavior = (PretokenizeBehavior)i;
            return true;
        }
    return error_set(error,
                     "%s: behavior %.200s is not known (known: Isolated, Removed, MergedWithPrevious, MergedWithNext, "
                     "Contiguous)",
                     what, name ? name : "(none)");
}

static bool read_split(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "pre_tokenizer Split";
    PretokenizeStep step = {0};
    bool regex;
    if (!TOKENIZER_KEYS(part, what, error, "type", "pattern", "behavior", "invert")) return false;
    if (!tokenizer_keys_flag(&step.inverted, part, what, "invert", false, error)) return false;
    if (!read_behavior(&step.behavior, what, part, error)) return false;
    const json_t *pattern = pattern_of(part, &regex);
    if (!pattern) return error_set(error, "%s: expected a pattern of kind String or Regex that is not empty", what);
    const char *text = json_string_value(pattern);
    size_t size = json_string_length(pattern);
    bool good = regex ? pattern_open(&step.pattern, text, size, PATTERN_ONIGURUMA, error)
                      : pattern_open_literal(&step.pattern, text, size, error);
    return good ? tokenizer_build_step(tokenizer, step, error) : error_prefix(error, "%s: ", what);
}

static bool read_byte_level(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "pre_tokenizer ByteLevel";
    PretokenizeStep step = {.prefix = " "};
    bool prefix, regex, ignored;
    if (!TOKENIZER_KEYS(part, what, error, "type", "add_prefix_space", "trim_offsets", "use_regex")) return false;
    if (!tokenizer_keys_flag(&prefix, part, what, "add_prefix_space", true, error) ||
        !tokenizer_keys_flag(&regex, part, what, "use_regex", true, error) ||
        !tokenizer_keys_flag(&ignored, part, what, "trim_offsets", true, error)) // moves offsets only
        return false;
    if (!prefix && !regex) return true;
    if (prefix) step.when_prefix = PRETOKENIZE_ALWAYS;
    if (regex &&
        !pattern_open(&step.pattern, tokenizer_build_gpt2, strlen(tokenizer_build_gpt2), PATTERN_ONIGURUMA, error))
        return false;
    return tokenizer_build_step(tokenizer, step, error);
}

static bool read_digits(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "pre_tokenizer Digits";
    bool individual;
    return TOKENIZER_KEYS(part, what, error, "type", "individual_digits") &&
           tokenizer_keys_flag(&individual, part, what, "individual_digits", false, error) &&
           tokenizer_build_split(tokenizer, "\\p{N}", PATTERN_RUST,
                                 individual ? PRETOKENIZE_ISOLATED : PRETOKENIZE_CONTIGUOUS, error);
}

// Of a pre-tokenizer or decoder. Files from before prepend_scheme have add_prefix_space alone.
static bool read_scheme(PretokenizeWhen *when, const json_t *part, const char *what, Error *error) {
    static const char *const names[] = {"never", "first", "always"};
    const json_t *scheme = json_object_get(part, "prepend_scheme");
    bool prefix;
    if (!tokenizer_keys_flag(&prefix, part, what, "add_prefix_space", true, error)) return false;
    *when = prefix ? PRETOKENIZE_ALWAYS : PRETOKENIZE_NEVER;
    if (!scheme || json_is_null(scheme)) return true;
    const char *name = json_string_value(scheme);
    int found = 0;
    while (found < 3 && !(name && !strcmp(name, names[found]))) found++;
    if (found == 3)
        return error_set(error, "%s: prepend_scheme %.200s is not known (known: never, first, always)", what,
                         name ? name : "(no text)");
    if (!prefix && found) return error_set(error, "%s: add_prefix_space = false and prepend_scheme disagree", what);
    *when = (PretokenizeWhen)found;
    return true;
}

static bool read_metaspace(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "pre_tokenizer Metaspace";
    PretokenizeStep step = {.behavior = PRETOKENIZE_MERGED_WITH_NEXT};
    bool split;
    size_t size;
    if (!TOKENIZER_KEYS(part, what, error, "type", "replacement", "prepend_scheme", "add_prefix_space", "split",
                        "str_rep"))
        return false;
    if (!read_scheme(&step.when_prefix, part, what, error) ||
        !read_text(tokenizer, &step.blank, &size, part, what, "replacement", error) ||
        !tokenizer_keys_flag(&split, part, what, "split", true, error))
        return false;
    if (!size) return error_set(error, "%s: the replacement is empty", what);
    step.prefix = step.blank;
    if (split && !pattern_open_literal(&step.pattern, step.blank, size, error)) return false;
    return tokenizer_build_step(tokenizer, step, error);
}

static bool read_whitespace(Tokenizer *tokenizer, const json_t *part, Error *error) {
    PretokenizeStep step = {.behavior = PRETOKENIZE_REMOVED, .inverted = true};
    static const char regex[] = "\\w+|[^\\w\\s]+";
    return TOKENIZER_KEYS(part, "pre_tokenizer Whitespace", error, "type") &&
           pattern_open(&step.pattern, regex, strlen(regex), PATTERN_RUST, error) &&
           tokenizer_build_step(tokenizer, step, error);
}

// after_bytes: ByteLevel has been seen; it must come last, as what follows would split byte characters.
static bool read_pre_tokenizer(Tokenizer *tokenizer, const json_t *part, bool *after_bytes, Error *error) {
    const char *type = tokenizer_keys_type(part);
    if (!strcmp(type, "Sequence")) {
        if (!TOKENIZER_KEYS(part, "pre_tokenizer Sequence", error, "type", "pretokenizers")) return false;
        size_t i;
        json_t *inner;
        json_array_foreach(json_object_get(part, "pretokenizers"), i, inner) {
            if (!read_pre_tokenizer(tokenizer, inner, after_bytes, error)) return false;
        }
        return true;
    }
    if (*after_bytes) return error_set(error, "pre_tokenizer %.200s after ByteLevel is not supported", type);
    *after_bytes = !strcmp(type, "ByteLevel");
    if (*after_bytes) return read_byte_level(tokenizer, part, error);
    if (!strcmp(type, "Digits")) return read_digits(tokenizer, part, error);
    if (!strcmp(type, "Split")) return read_split(tokenizer, part, error);
    if (!strcmp(type, "Metaspace")) return read_metaspace(tokenizer, part, error);
    if (!strcmp(type, "Whitespace")) return read_whitespace(tokenizer, part, error);
    if (!strcmp(type, "WhitespaceSplit"))
        return TOKENIZER_KEYS(part, "pre_tokenizer WhitespaceSplit", error, "type") &&
               tokenizer_build_split(tokenizer, "\\s", PATTERN_RUST, PRETOKENIZE_REMOVED, error);
    return error_set(error,
                     "pre_tokenizer %.200s is not supported (known: Sequence, Split, ByteLevel, Digits, Metaspace, "
                     "Whitespace, WhitespaceSplit)",
                     type);
}

bool tokenizer_parts_pre_tokenizer(Tokenizer *tokenizer, const json_t *part, Error *error) {
    bool after_bytes = false;
    return !part || json_is_null(part) || read_pre_tokenizer(tokenizer, part, &after_bytes, error);
}

bool tokenizer_parts_byte_level(const json_t *pre_tokenizer) {
    size_t i;
    json_t *inner;
    json_array_foreach(json_object_get(pre_tokenizer, "pretokenizers"), i, inner) {
        if (tokenizer_parts_byte_level(inner)) return true;
    }
    return !strcmp(tokenizer_keys_type(pre_tokenizer), "ByteLevel");
}

// ---- decoder

static bool read_decoder_replace(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "decoder Replace";
    DetokenizeStep step = {.kind = DETOKENIZE_REPLACE};
    size_t size;
    bool regex;
    const json_t *pattern = pattern_of(part, &regex);
    if (!TOKENIZER_KEYS(part, what, error, "type", "pattern", "content")) return false;
    if (!pattern || regex) return error_set(error, "%s: expected a pattern of kind String that is not empty", what);
    step.from = arena_string(&tokenizer->arena, json_string_value(pattern));
    return read_text(tokenizer, &step.to, &size, part, what, "content", error) &&
           tokenizer_build_decoder(tokenizer, step, error);
}

static bool read_decoder_strip(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "decoder Strip";
    DetokenizeStep step = {.kind = DETOKENIZE_STRIP};
    size_t size;
    if (!TOKENIZER_KEYS(part, what, error, "type", "content", "start", "stop")) return false;
    const json_t *start = json_object_get(part, "start"), *stop = json_object_get(part, "stop");
    if (!json_is_integer(start) || json_integer_value(start) < 0)
        return error_set(error, "%s: start must be a number", what);
    if (!json_is_integer(stop) || json_integer_value(stop) != 0)
        return error_set(error, "%s: a stop other than 0 is not supported", what);
    step.limit = json_integer_value(start);
    return read_text(tokenizer, &step.from, &size, part, what, "content", error) &&
           (size || error_set(error, "%s: the content is empty", what)) &&
           tokenizer_build_decoder(tokenizer, step, error);
}

static bool read_decoder_metaspace(Tokenizer *tokenizer, const json_t *part, Error *error) {
    const char *what = "decoder Metaspace";
    DetokenizeStep step = {.to = " "};
    PretokenizeWhen when;
    size_t size;
    if (!TOKENIZER_KEYS(part, what, error, "type", "replacement", "prepend_scheme", "add_prefix_space", "split",
                        "str_rep"))
        return false;
    if (!read_scheme(&when, part, what, error) ||
        !read_text(tokenizer, &step.from, &size, part, what, "replacement", error))
        return false;
    if (!size) return error_set(error, "%s: the replacement is empty", what);
    step.kind = when == PRETOKENIZE_NEVER ? DETOKENIZE_METASPACE_ALL : DETOKENIZE_METASPACE;
    return tokenizer_build_decoder(tokenizer, step, error);
}

static bool read_decoder(Tokenizer *tokenizer, const json_t *part, bool *fused, Error *error) {
    const char *type = tokenizer_keys_type(part);
    if (!strcmp(type, "Sequence")) {
        if (!TOKENIZER_KEYS(part, "decoder Sequence", error, "type", "decoders")) return false;
        size_t i;
        json_t *inner;
        json_array_foreach(json_object_get(part, "decoders"), i, inner) {
            if (!read_decoder(tokenizer, inner, fused, error)) return false;
        }
        return true;
    }
    bool bytes = !strcmp(type, "ByteLevel"), fuse = !strcmp(type, "Fuse"), strip = !strcmp(type, "Strip");
    if ((*fused && !strip && !fuse) || (bytes && tokenizer->decoder_count))
        return error_set(error, "decoder %.200s behind another decoder is not supported", type);
    *fused = *fused || bytes || fuse;
    if (bytes) return tokenizer_build_decoder(tokenizer, (DetokenizeStep){.kind = DETOKENIZE_BYTES}, error);
    if (fuse)
        return TOKENIZER_KEYS(part, "decoder Fuse", error, "type") &&
               tokenizer_build_decoder(tokenizer, (DetokenizeStep){.kind = DETOKENIZE_FUSE}, error);
    if (!strcmp(type, "ByteFallback"))
        return TOKENIZER_KEYS(part, "decoder ByteFallback", error, "type") &&
               tokenizer_build_decoder(tokenizer, (DetokenizeStep){.kind = DETOKENIZE_BYTE_FALLBACK}, error);
    if (!strcmp(type, "Replace")) return read_decoder_replace(tokenizer, part, error);
    if (strip) return read_decoder_strip(tokenizer, part, error);
    if (!strcmp(type, "Metaspace")) return read_decoder_metaspace(tokenizer, part, error);
    return error_set(error,
                     "decoder %.200s is not supported (known: Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, "
                     "Metaspace)",
                     type);
}

bool tokenizer_parts_decoder(Tokenizer *tokenizer, const json_t *part, Error *error) {
    bool fused = false, none = !part || json_is_null(part);
    if (!(none ? tokenizer_build_decoder(tokenizer, (DetokenizeStep){.kind = DETOKENIZE_JOIN}, error)
               : read_decoder(tokenizer, part, &fused, error)))
        return false;
    bool bytes = tokenizer->decoder_count && tokenizer->decoders[0].kind == DETOKENIZE_BYTES;
    return bytes == tokenizer->vocabulary.byte_level ||
           error_set(error, "decoder %.200s does not go with a pre_tokenizer %s ByteLevel",
                     none ? "null" : tokenizer_keys_type(part), bytes ? "without" : "with");
}

// ---- post_processor

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
    if (!TOKENIZER_KEYS(part, what, error, "type", "single", "pair", "special_tokens")) return false;
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

bool tokenizer_parts_post_processor(Tokenizer *tokenizer, const json_t *part, Error *error) {
    if (!part || json_is_null(part)) return true;
    const char *type = tokenizer_keys_type(part);
    if (!strcmp(type, "ByteLevel")) return true; // moves offsets only
    if (!strcmp(type, "TemplateProcessing")) return read_template(tokenizer, part, error);
    if (strcmp(type, "Sequence"))
        return error_set(
            error, "post_processor %.200s is not supported (known: ByteLevel, TemplateProcessing, Sequence)", type);
    if (!TOKENIZER_KEYS(part, "post_processor Sequence", error, "type", "processors")) return false;
    size_t i;
    json_t *inner;
    json_array_foreach(json_object_get(part, "processors"), i, inner) {
        if (!tokenizer_parts_post_processor(tokenizer, inner, error)) return false;
    }
    return true;
}
