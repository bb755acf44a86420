#include "base/checksum.h"

#include "base/file.h"

#include <openssl/evp.h>
#include <stdio.h>

static bool compute(char *hex, const EVP_MD *kind, const char *path, bool as_blob, Error *error) {
    FileMap map;
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    char header[32];
    if (!file_map(&map, path, error)) return false;
    int header_size = snprintf(header, sizeof header, "blob %zu", map.size) + 1; // with its 0 byte
    EVP_MD_CTX *state = EVP_MD_CTX_new();
    OBTAINED(state, "memory for a digest");
    bool good = EVP_DigestInit_ex(state, kind, NULL) &&
                (!as_blob || EVP_DigestUpdate(state, header, (size_t)header_size)) &&
                (!map.size || EVP_DigestUpdate(state, map.data, map.size)) && EVP_DigestFinal_ex(state, bytes, &size);
    EVP_MD_CTX_free(state);
    file_unmap(&map);
    for (unsigned i = 0; i < size; i++) snprintf(hex + 2 * (size_t)i, 3, "%02x", bytes[i]);
    return good || error_set(error, "%s: libcrypto refuses to compute the digest", path);
}

bool checksum_sha256(char hex[CHECKSUM_SHA256_HEX], const char *path, Error *error) {
    return compute(hex, EVP_sha256(), path, false, error);
}

bool checksum_git_blob(char hex[CHECKSUM_SHA1_HEX], const char *path, Error *error) {
    return compute(hex, EVP_sha1(), path, true, error);
}
