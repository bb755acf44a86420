// A tokenizer out of GGUF's tables as the two files that Transformers reads.
#pragma once
#include "text/tokenizer.h"

#include <jansson.h>

// tokenizer.json and tokenizer_config.json (new references) with the ids and texts of tokenizer_open_tables. False where there
// is no such file: SentencePiece tables have scores in the place of merges.
bool tokenizer_export(json_t **tokenizer, json_t **config, const TokenizerTables *tables, Error *error);
