#include "base/digest.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

uint64_t digest_number(const void *data, size_t size) {
    return XXH3_64bits(data, size);
}

void digest_bytes(char hex[DIGEST_HEX], const void *data, size_t size) {
    XXH128_hash_t hash = XXH3_128bits(data, size);
    snprintf(hex, DIGEST_HEX, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

void digest_piece(uint8_t digest[DIGEST_SIZE], const void *data, size_t size) {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits(data, size));
    memcpy(digest, bytes.digest, sizeof bytes.digest);
}

bool digest_file(char hex[DIGEST_HEX], const char *path, Error *error) {
    FileMap map;
    if (!file_map(&map, path, error)) return false;
    digest_bytes(hex, map.data, map.size);
    file_unmap(&map);
    return true;
}
