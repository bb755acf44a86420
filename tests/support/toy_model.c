#include "support/toy_model.h"

#include "base/file.h"
#include "base/jsonio.h"
#include "model/random_model.h"
#include "support/family.h"

#include <string.h>

// GPT-2's byte characters: printable Latin-1 bytes stand for themselves, the others for code points from 256 on.
static int byte_character(int byte) {
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    if (printable) return byte;
    int before = byte < 33 ? byte : byte < 161 ? 33 + byte - 127 : 33 + 34;
    return 256 + before;
}

static void utf8(char *out, int point) {
    if (point < 128) {
        out[0] = (char)point, out[1] = 0;
    } else {
        out[0] = (char)(0xc0 | point >> 6), out[1] = (char)(0x80 | (point & 63)), out[2] = 0;
    }
}

static bool write_tokenizer(const char *folder, Arena *arena, Error *error) {
    json_t *vocabulary = json_object(), *added = json_array();
    for (int byte = 0; byte < 256; byte++) {
        char name[3];
        utf8(name, byte_character(byte));
        json_object_set_new(vocabulary, name, json_integer(byte));
    }
    const char *specials[] = {"<|im_start|>", "<|im_end|>"};
    for (int i = 0; i < 2; i++)
        json_array_append_new(added,
                              json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", 256 + i, "content", specials[i],
                                        "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
    json_t *tokenizer =
        json_pack("{s:s, s:n, s:n, s:o, s:n, s:{s:s, s:b, s:b, s:b}, s:n, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:n, s:n, "
                  "s:n, s:n, s:b, s:b, "
                  "s:o, s:[]}}",
                  "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer", "pre_tokenizer",
                  "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "post_processor",
                  "decoder", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model",
                  "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                  0, "byte_fallback", 0, "vocab", vocabulary, "merges");
    json_t *config = json_pack("{s:s}", "eos_token", "<|im_end|>");
    static const char chat[] =
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{% endif %}";
    bool good = jsonio_write(tokenizer, arena_format(arena, "%s/tokenizer.json", folder), error) &&
                jsonio_write(config, arena_format(arena, "%s/tokenizer_config.json", folder), error) &&
                file_write(arena_format(arena, "%s/chat_template.jinja", folder), chat, strlen(chat), error);
    json_decref(tokenizer);
    json_decref(config);
    return good;
}

bool toy_model_write(const char *folder, ModelFamily family, uint64_t seed, Error *error) {
    Architecture architecture = {.vocab_size = 272,
                                 .hidden_size = 48,
                                 .intermediate_size = 96,
                                 .layer_count = 3,
                                 .query_heads = 6,
                                 .kv_heads = 2,
                                 .head_dim = 8,
                                 .max_positions = 512,
                                 .rms_norm_eps = 1e-5f,
                                 .tied_head = family != MODEL_QWEN2,
                                 .bos_id = -1,
                                 .eos_ids = {257},
                                 .eos_count = 1};
    family_apply(&architecture, family);
    Arena arena = {0};
    bool good = random_model_write(folder, &architecture, seed, 0.1, error) && write_tokenizer(folder, &arena, error);
    arena_close(&arena);
    return good;
}
