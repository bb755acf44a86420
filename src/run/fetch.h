// One file whose digest is known, fetched to its place: whole and checked, or not there at all.
#pragma once
#include "run/http.h"

typedef struct FetchFile {
    const char *url, *path, *lock; // lock: a file of its own, which the hub's other clients take likewise
    const char *digest;            // hexadecimal: 64 digits SHA-256, 40 digits SHA-1 of git's blob
    int64_t size;                  // -1: not known
    const char *label;             // for people
} FetchFile;

// Whether the file has the digest and the size (-1: any). False with a line that says what differs.
bool fetch_check(const char *path, const char *digest, int64_t size, const char *label, Error *error);

// Fetches unless path is there already and whole; a damaged one is deleted, which is said, and fetched again. What comes is kept in
// path + ".incomplete", from where an interrupted transfer goes on, checked, synced and renamed. Waits while another process
// holds the lock, and says so. The folders must exist.
bool fetch_file(Http *http, HttpReply *reply, const FetchFile *file, Error *error);
