#include "base/file.h"

#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(Error *error, const char *path, const char *action) {
    return error_set(error, "%s: cannot %s: %s", path, action, strerror(errno));
}

static bool open_regular(int *descriptor, size_t *size, const char *path, Error *error) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // else a named pipe without a writer would wait for ever
    if (fd < 0) return fail(error, path, "open");
    if (fstat(fd, &info)) {
        fail(error, path, "stat");
        close(fd);
        return false;
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return error_set(error, "%s: not a regular file", path);
    }
    *descriptor = fd;
    *size = (size_t)info.st_size;
    return true;
}

bool file_map(FileMap *map, const char *path, Error *error) {
    *map = (FileMap){0};
    int fd = -1;
    size_t size = 0;
    if (!open_regular(&fd, &size, path, error)) return false;
    void *data = NULL;
    if (size) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            fail(error, path, "map");
            close(fd);
            return false;
        }
    }
    close(fd);
    *map = (FileMap){.data = data, .size = size};
    return true;
}

void file_unmap(FileMap *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (FileMap){0};
}

void file_map_leave(const void *data, size_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + size) / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_DONTNEED); // a hint: may fail
}

// --- a map that lost its file; nothing but async-signal-safe calls

static bool hex(uintptr_t *out, const char **at) {
    const char *begin = *at;
    *out = 0;
    for (; (**at >= '0' && **at <= '9') || (**at >= 'a' && **at <= 'f'); (*at)++)
        *out = *out << 4 | (uintptr_t)(**at <= '9' ? **at - '0' : **at - 'a' + 10);
    return *at > begin;
}

// Whether a line of /proc/self/maps ("7f00-7f10 r--p 0 08:01 42   /path") is about the address.
static bool holds(const char *line, uintptr_t address) {
    uintptr_t first, end;
    return hex(&first, &line) && *line++ == '-' && hex(&end, &line) && address >= first && address < end;
}

// The name of the file behind the address, with a blank before it; "" when there is none.
static const char *file_behind(char line[4352], uintptr_t address) {
    size_t length = 0;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (char byte; maps >= 0 && read(maps, &byte, 1) == 1;) {
        if (byte != '\n') {
            if (length < 4351) line[length++] = byte;
            continue;
        }
        line[length] = 0;
        length = 0;
        const char *slash = strchr(line, '/');
        if (holds(line, address)) return slash && slash > line ? slash - 1 : "";
    }
    return "";
}

static void map_lost(int number, siginfo_t *info, void *context) {
    static atomic_flag told = ATOMIC_FLAG_INIT; // by another thread: it ends the program
    (void)context;
    char line[4352];
    while (atomic_flag_test_and_set(&told)) pause();
    const char *name = file_behind(line, (uintptr_t)info->si_addr);
    if (!*name) { // no file: a fault of the program or the machine
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    static const char before[] = "whet:",
                      behind[] = ": was cut short or cannot be read any more, while it was in use\n";
    char text[sizeof line + sizeof before + sizeof behind]; // one line, one write
    size_t length = strlen(name), at = sizeof before - 1;
    memcpy(text, before, at);
    memcpy(text + at, name, length);
    memcpy(text + at + length, behind, sizeof behind - 1);
    _exit(write(STDERR_FILENO, text, at + length + sizeof behind - 1) < 0 ? 2 : 1);
}

void file_guard_maps(void) {
    struct sigaction action = {.sa_sigaction = map_lost, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
}

bool file_read(char **text, size_t *size, Arena *arena, const char *path, Error *error) {
    FileMap map;
    if (!file_map(&map, path, error)) return false;
    *text = arena_bytes(arena, map.data, map.size);
    if (size) *size = map.size;
    file_unmap(&map);
    return true;
}

bool file_read_stream(char **text, size_t *size, Arena *arena, const char *path, Error *error) {
    bool standard = !strcmp(path, "-");
    StrBuf all = {0};
    char part[1 << 14];
    ssize_t count = 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(error, path, "open");
    while (all.length <= FILE_MAX_STREAM &&
           ((count = read(fd, part, sizeof part)) > 0 || (count < 0 && errno == EINTR)))
        if (count > 0) strbuf_append(&all, part, (size_t)count);
    const char *name = standard ? "standard input" : path;
    bool good = all.length > FILE_MAX_STREAM ? error_set(error, "%s: more than %d bytes", name, FILE_MAX_STREAM)
                                             : count == 0 || fail(error, name, "read");
    if (!standard) close(fd);
    if (good) {
        *text = arena_bytes(arena, all.text, all.length);
        if (size) *size = all.length;
    }
    strbuf_close(&all);
    return good;
}

bool file_stamp(FileStamp *stamp, const char *path, Error *error) {
    struct stat info;
    if (stat(path, &info)) return fail(error, path, "read");
    *stamp = (FileStamp){.device = (uint64_t)info.st_dev,
                         .inode = (uint64_t)info.st_ino,
                         .size = (uint64_t)info.st_size,
                         .nanoseconds = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec};
    return true;
}

bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool file_is_listed(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

bool file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool file_same(const char *one, const char *other) {
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool file_put(int descriptor, const void *data, size_t size, int64_t at) {
    for (size_t done = 0; done < size;) {
        const char *from = (const char *)data + done;
        ssize_t n = at < 0 ? write(descriptor, from, size - done)
                           : pwrite(descriptor, from, size - done, (off_t)at + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static bool sync_parent(const char *path, Error *error) {
    char parent[4096];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash == parent)
        slash[1] = 0;
    else if (slash)
        *slash = 0;
    else
        snprintf(parent, sizeof parent, ".");
    return file_sync(parent, error);
}

bool file_write(const char *path, const void *data, size_t size, Error *error) {
    char aside[4096];
    int length = snprintf(aside, sizeof aside, "%s.tmp", path);
    if (length < 0 || (size_t)length >= sizeof aside) return error_set(error, "%s: path too long", path);
    int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return fail(error, path, "write");
    bool good = file_put(fd, data, size, -1) && fsync(fd) == 0;
    if (!good) fail(error, path, "write");
    if (close(fd) && good) good = fail(error, path, "write");
    if (good && rename(aside, path)) good = fail(error, path, "write");
    if (!good) {
        unlink(aside);
        return false;
    }
    return sync_parent(path, error);
}

bool file_parts_open(FileParts *parts, const char *path, Error *error) {
    *parts = (FileParts){.descriptor = open(path, O_WRONLY | O_CLOEXEC), .path = path};
    return parts->descriptor >= 0 || fail(error, path, "open");
}

bool file_parts_put(FileParts *parts, const void *data, size_t size, int64_t at, Error *error) {
    return file_put(parts->descriptor, data, size, at) || fail(error, parts->path, "write");
}

bool file_parts_close(FileParts *parts, Error *error) {
    bool good = fsync(parts->descriptor) == 0 || fail(error, parts->path, "write");
    if (close(parts->descriptor) && good) good = fail(error, parts->path, "write");
    parts->descriptor = -1;
    return good;
}

bool file_lock(int *descriptor, const char *path, Error *error) {
    *descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*descriptor < 0) return fail(error, path, "open");
    if (flock(*descriptor, LOCK_EX | LOCK_NB) == 0) return true;
    file_unlock(descriptor);
    return error_set(error, "%s: another run is using this folder", path);
}

bool file_locked(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

void file_unlock(int *descriptor) {
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

bool file_append_line(const char *path, const char *line, Error *error) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return fail(error, path, "append");
    size_t length = strlen(line);
    char *copy = malloc(length + 2);
    OBTAINED(copy, "%zu bytes of host memory", length);
    memcpy(copy, line, length);
    memcpy(copy + length, "\n", 2);
    bool good = file_put(fd, copy, length + 1, -1);
    if (!good) fail(error, path, "append");
    free(copy);
    if (close(fd) && good) good = fail(error, path, "append");
    return good;
}

bool file_make_folders(const char *path, Error *error) {
    char part[4096];
    int length = snprintf(part, sizeof part, "%s", path);
    if (length <= 0 || (size_t)length >= sizeof part) return error_set(error, "%s: not a usable folder name", path);
    for (char *at = part + 1;; at++) {
        char here = *at;
        if (here && here != '/') continue;
        *at = 0;
        if (mkdir(part, 0777) && errno != EEXIST) return fail(error, path, "make the folder");
        *at = here;
        if (!here) break;
    }
    return file_is_folder(path) || error_set(error, "%s: exists and is not a folder", path);
}

bool file_sync(const char *path, Error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(error, path, "open");
    bool good = fsync(fd) == 0 || errno == EINVAL; // EINVAL: a file system that cannot sync folders
    if (!good) fail(error, path, "sync");
    close(fd);
    return good;
}

bool file_rename(const char *from, const char *to, Error *error) {
    if (rename(from, to)) return fail(error, to, "rename into place");
    return sync_parent(to, error);
}

bool file_exchange(const char *one, const char *other, Error *error) {
    if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)) return fail(error, other, "exchange");
    return sync_parent(other, error);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

bool file_remove_tree(const char *path, Error *error) {
    struct stat info;
    char bare[4096]; // without slashes at the end: "link/" would name what the link points to
    int length = snprintf(bare, sizeof bare, "%s", path);
    if (length < 0 || (size_t)length >= sizeof bare) return error_set(error, "%s: path too long", path);
    while (length > 1 && bare[length - 1] == '/') bare[--length] = 0;
    if (lstat(bare, &info)) return errno == ENOENT || fail(error, path, "remove");
    return nftw(bare, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || fail(error, path, "remove");
}
