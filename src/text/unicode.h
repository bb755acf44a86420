// Character sets and NFC exactly as the Hugging Face tokenizers library 0.23 has them. It mixes three versions of
// Unicode (letters and numbers of its regex engine: 16.0; its Digits step: 17.0; its NFC: 9.0), so neither PCRE2 nor
// utf8proc can stand in: their single newer or older version gives other ids. Tables: unicode_tables.h.
#pragma once
#include "base/strbuf.h"

#include <stdint.h>

bool unicode_is_letter(uint32_t code);     // \p{L}, 16.0
bool unicode_is_number(uint32_t code);     // \p{N}, 16.0
bool unicode_is_whitespace(uint32_t code); // \s: White_Space, with U+0085, without U+001C..U+001F
bool unicode_is_numeric(uint32_t code);    // Nd, Nl, No, 17.0: what the Digits step isolates

// Appends the NFC (Unicode 9.0) of text[size]. Bytes that are not UTF-8 are kept as they are and never compose.
// Linear in size, whatever the text.
void unicode_nfc(StrBuf *out, const char *text, size_t size);
