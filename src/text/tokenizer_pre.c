#include "text/tokenizer_pre.h"

#include "base/strbuf.h"
#include "text/tokenizer_build.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char qwen2_regex[] = CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" REST;
static const char llama3_regex[] = CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" REST;
static const char tekken_regex[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const TokenizerPre pres[] = {
    {"smollm", .digits = true, .regex = tokenizer_build_gpt2},
    {"qwen2", .nfc = true, .regex = qwen2_regex},
    {"deepseek-r1-qwen", .nfc = true, .regex = qwen2_regex},
    {"gpt-2", .regex = tokenizer_build_gpt2},
    {"default", .regex = tokenizer_build_gpt2},
    {"llama-bpe", .whole_pieces = true, .add_bos = true, .regex = llama3_regex},
    {"llama3", .whole_pieces = true, .add_bos = true, .regex = llama3_regex},
    {"llama-v3", .whole_pieces = true, .add_bos = true, .regex = llama3_regex},
    {"smaug-bpe", .regex = llama3_regex},
    {"tekken", .whole_pieces = true, .add_bos = true, .regex = tekken_regex},
};

const TokenizerPre *tokenizer_pre_find(const char *name, Error *error) {
    StrBuf known = {0};
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        if (name && !strcmp(name, pres[i].name)) {
            strbuf_close(&known);
            return pres + i;
        }
        strbuf_format(&known, "%s%s", i ? ", " : "", pres[i].name);
    }
    error_set(error, "tokenizer.ggml.pre is %s%.200s%s, expected one of: %s", name ? "\"" : "", name ? name : "missing",
              name ? "\"" : "", known.text);
    strbuf_close(&known);
    return NULL;
}
