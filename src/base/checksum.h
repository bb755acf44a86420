// Cryptographic digests of files, as the Hugging Face hub and git name them, through libcrypto. To recognise settings and models
// quickly there is base/digest.h.
#pragma once
#include "base/error.h"

enum { CHECKSUM_SHA256_HEX = 65, CHECKSUM_SHA1_HEX = 41 }; // digits and a 0 byte

bool checksum_sha256(char hex[CHECKSUM_SHA256_HEX], const char *path, Error *error);
// SHA-1 of git's blob object: of "blob ", the size in decimal, a 0 byte and the content.
bool checksum_git_blob(char hex[CHECKSUM_SHA1_HEX], const char *path, Error *error);
