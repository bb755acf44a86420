// The parts of a tokenizer.json around its model. What is not known is refused by name. Used by tokenizer_json.c only.
#pragma once
#include "text/tokenizer_build.h"

#include <jansson.h>

// Each part may be NULL or null. The strings are copied into the tokenizer's arena.
bool tokenizer_parts_normalizer(Tokenizer *tokenizer, const json_t *part, Error *error);
bool tokenizer_parts_pre_tokenizer(Tokenizer *tokenizer, const json_t *part, Error *error);
bool tokenizer_parts_decoder(Tokenizer *tokenizer, const json_t *part, Error *error);

// Once the tokens are there: what add_special puts around a text.
bool tokenizer_parts_post_processor(Tokenizer *tokenizer, const json_t *part, Error *error);

bool tokenizer_parts_byte_level(const json_t *pre_tokenizer); // whether a ByteLevel step is in it
