// XXH3-128 digests, to recognise files and settings. Not against forgery.
#pragma once
#include "base/error.h"

enum { DIGEST_HEX = 33 }; // 32 hexadecimal digits and a 0 byte

uint64_t digest_number(const void *data, size_t size); // XXH3, 64 bits
void digest_bytes(char hex[DIGEST_HEX], const void *data, size_t size);

// What is digested by several: pieces of a file, all but the last of DIGEST_PIECE bytes. The whole has the digest_bytes of their
// digests, one behind the other.
enum { DIGEST_PIECE = 1 << 20, DIGEST_SIZE = 16 };
void digest_piece(uint8_t digest[DIGEST_SIZE], const void *data, size_t size);
bool digest_file(char hex[DIGEST_HEX], const char *path, Error *error);
