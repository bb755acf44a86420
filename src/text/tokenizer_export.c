#include "text/tokenizer_export.h"

#include "text/tokenizer_build.h"
#include "text/tokenizer_pre.h"

#include <string.h>

static bool is_added(int32_t type) {
    return type >= 2 && type <= 4; // unknown, control, user-defined
}

static int32_t type_of(const TokenizerTables *tables, int32_t id) {
    return tables->types ? tables->types[id] : 1;
}

static json_t *added_tokens(const TokenizerTables *tables) {
    json_t *list = json_array();
    for (int32_t id = 0; id < tables->token_count; id++)
        if (is_added(type_of(tables, id)))
            json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content",
                                                  tables->tokens[id], "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                  "normalized", 0, "special", type_of(tables, id) != 4));
    return list;
}

static json_t *byte_level(bool use_regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     use_regex);
}

static json_t *pre_tokenizer(const TokenizerPre *pre) {
    json_t *steps = json_array();
    bool plain = !strcmp(pre->regex, tokenizer_build_gpt2);
    if (pre->digits) json_array_append_new(steps, json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1));
    if (!plain)
        json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                               pre->regex, "behavior", "Isolated", "invert", 0));
    json_array_append_new(steps, byte_level(plain));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
}

static json_t *model(const TokenizerTables *tables, const TokenizerPre *pre) {
    json_t *vocabulary = json_object(), *merges = json_array();
    for (int32_t id = 0; id < tables->token_count; id++)
        if (type_of(tables, id) != 5) // unused
            json_object_set_new(vocabulary, tables->tokens[id], json_integer(id));
    for (int32_t rank = 0; rank < tables->merge_count; rank++)
        json_array_append_new(merges, json_string(tables->merges[rank]));
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                     "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                     "ignore_merges", pre->whole_pieces, "vocab", vocabulary, "merges", merges);
}

static const char *token(const TokenizerTables *tables, int32_t id) {
    return id < 0 ? NULL : tables->tokens[id];
}

// BOS before a text, EOS behind it, where the tables ask for them.
static json_t *post_processor(const TokenizerTables *tables, bool add_bos, bool add_eos) {
    const char *bos = add_bos ? token(tables, tables->bos_id) : NULL,
               *eos = add_eos ? token(tables, tables->eos_id) : NULL;
    if (!bos && !eos) return byte_level(true);
    json_t *single = json_array(), *both = json_array(), *special = json_object();
    const char *const names[] = {bos, NULL, eos};
    const int32_t ids[] = {tables->bos_id, -1, tables->eos_id};
    for (int sequence = 0; sequence < 2; sequence++)
        for (int i = 0; i < 3; i++) {
            json_t *piece =
                i == 1     ? json_pack("{s:{s:s, s:i}}", "Sequence", "id", sequence ? "B" : "A", "type_id", sequence)
                : names[i] ? json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", names[i], "type_id", sequence)
                           : NULL;
            if (!piece) continue;
            if (!sequence) json_array_append(single, piece);
            json_array_append_new(both, piece);
        }
    for (int i = 0; i < 3; i += 2)
        if (names[i])
            json_object_set_new(special, names[i],
                                json_pack("{s:s, s:[i], s:[s]}", "id", names[i], "ids", ids[i], "tokens", names[i]));
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", both,
                     "special_tokens", special);
}

static json_t *config_of(const TokenizerTables *tables) {
    json_t *config =
        json_pack("{s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0);
    const char *const keys[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    const int32_t ids[] = {tables->bos_id, tables->eos_id, tables->pad_id, tables->unknown_id};
    for (int i = 0; i < 4; i++)
        if (token(tables, ids[i])) json_object_set_new(config, keys[i], json_string(token(tables, ids[i])));
    return config;
}

bool tokenizer_export(json_t **tokenizer, json_t **config, const TokenizerTables *tables, Error *error) {
    if (tables->sentencepiece)
        return error_set(error, "SentencePiece tables have no merges that tokenizer.json could hold");
    const TokenizerPre *pre = tokenizer_pre_find(tables->pre, error);
    if (!pre) return false;
    bool add_bos = tables->add_bos >= 0 ? tables->add_bos > 0 : pre->add_bos;
    *tokenizer = json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                           "added_tokens", added_tokens(tables), "normalizer",
                           pre->nfc ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
                           pre_tokenizer(pre), "post_processor", post_processor(tables, add_bos, tables->add_eos > 0),
                           "decoder", byte_level(true), "model", model(tables, pre));
    *config = config_of(tables);
    return *tokenizer || error_set(error, "a token is no UTF-8");
}
