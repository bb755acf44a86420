#include "run/fetch.h"

#include "base/checksum.h"
#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool fetch_check(const char *path, const char *digest, int64_t size, const char *label, Error *error) {
    struct stat info;
    char found[CHECKSUM_SHA256_HEX];
    bool is_sha256 = strlen(digest) == CHECKSUM_SHA256_HEX - 1;
    if (stat(path, &info)) return error_set(error, "%s: %s", label, strerror(errno));
    if (size >= 0 && info.st_size != size)
        return error_set(error, "%s: damaged: it has %lld bytes, expected %" PRId64, label, (long long)info.st_size,
                         size);
    if (!(is_sha256 ? checksum_sha256 : checksum_git_blob)(found, path, error)) return false;
    return !strcmp(found, digest) || error_set(error, "%s: damaged: its %s is %s, expected %s", label,
                                               is_sha256 ? "sha256" : "git blob sha1", found, digest);
}

// Whoever unlinks a lock file leaves us with one that nobody else sees: then it is taken again.
static bool lock(int *descriptor, const FetchFile *file, Error *error) {
    for (bool said = false;;) {
        struct stat ours, named;
        *descriptor = open(file->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*descriptor < 0) return error_set(error, "%s: cannot open: %s", file->lock, strerror(errno));
        int failed = flock(*descriptor, LOCK_EX | LOCK_NB);
        if (failed && errno == EWOULDBLOCK) {
            if (!said) log_info("  %s: another process is fetching it; waiting", file->label);
            said = true;
            while ((failed = flock(*descriptor, LOCK_EX)) && errno == EINTR) continue;
        }
        if (failed) return error_set(error, "%s: cannot lock: %s", file->lock, strerror(errno));
        if (!fstat(*descriptor, &ours) && !stat(file->lock, &named) && ours.st_ino == named.st_ino) return true;
        file_unlock(descriptor);
    }
}

static bool remove_damaged(const char *path, const Error *why, Error *error) {
    log_warn("%s: deleted, and fetched again", why->text);
    return unlink(path) == 0 || error_set(error, "%s: cannot remove: %s", path, strerror(errno));
}

static void say_done(const FetchFile *file, int64_t before, double started) {
    Arena arena = {0};
    struct stat info;
    double seconds = log_seconds() - started;
    if (!stat(file->path, &info))
        log_info("  %s: %s in %.1f s%s", file->label, http_bytes(info.st_size - before, &arena), seconds,
                 before ? " (the rest)" : "");
    arena_close(&arena);
}

// Twice, since a part that an earlier transfer left may be what is damaged.
static bool transfer(Http *http, HttpReply *reply, const FetchFile *file, const char *part, Error *error) {
    Error damage;
    double started = log_seconds();
    for (int attempt = 1;; attempt++) {
        struct stat info;
        int64_t before = stat(part, &info) || info.st_size > file->size ? 0 : info.st_size;
        if (!http_file(http, reply, part, file->size, file->label, file->url, error)) return false;
        if (fetch_check(part, file->digest, file->size, file->label, &damage)) {
            if (!file_rename(part, file->path, error)) return false;
            // 200: all of the file, although the rest was asked for.
            say_done(file, reply->status == 200 ? 0 : before, started);
            return true;
        }
        if (attempt == 2) {
            unlink(part);
            return error_set(error, "%.900s; deleted", damage.text);
        }
        if (!remove_damaged(part, &damage, error)) return false;
    }
}

bool fetch_file(Http *http, HttpReply *reply, const FetchFile *file, Error *error) {
    Arena arena = {0};
    Error damage;
    int descriptor = -1;
    const char *part = arena_format(&arena, "%s.incomplete", file->path);
    *reply = (HttpReply){0};
    bool good = lock(&descriptor, file, error), there = good && file_exists(file->path);
    if (there && !fetch_check(file->path, file->digest, file->size, file->label, &damage)) {
        good = remove_damaged(file->path, &damage, error);
        there = false;
    }
    if (good && !there) good = transfer(http, reply, file, part, error);
    file_unlock(&descriptor);
    arena_close(&arena);
    return good;
}
