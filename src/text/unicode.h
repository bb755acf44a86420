// Normal forms exactly as the Hugging Face tokenizers library 0.23 has them: those of Unicode 9.0, which no library that
// follows a newer version gives. Tables: unicode_tables.h; sets of characters: charset.h.
#pragma once
#include "base/strbuf.h"

typedef enum UnicodeForm { UNICODE_NFC, UNICODE_NFD } UnicodeForm;

// Appends the normal form of text[size], at most three times as long. Bytes that are not UTF-8 are kept as they are and
// never compose. Linear in size, whatever the text.
void unicode_normalize(StrBuf *out, const char *text, size_t size, UnicodeForm form);
