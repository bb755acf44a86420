// Files: whole reads, read-only maps, and writes that a reader sees entirely or not at all.
#pragma once
#include "base/arena.h"
#include "base/error.h"

// A read-only map of a whole file. An empty file has data NULL and size 0.
typedef struct FileMap {
    const uint8_t *data;
    size_t size;
} FileMap;

bool file_map(FileMap *map, const char *path, Error *error);
void file_unmap(FileMap *map); // accepts a zero-initialised map

// Part of a map has been read: its whole pages need no memory of this process any more. They can be read again.
void file_map_leave(const void *data, size_t size);

// From now on a map whose file was cut short or cannot be read any more ends the program, when it is touched, with one line that
// names the file and exit status 1 (instead of SIGBUS). For main, once.
void file_guard_maps(void);

// Reads the file into the arena with a 0 byte behind it; *size (may be NULL) is its length without that byte.
bool file_read(char **text, size_t *size, Arena *arena, const char *path, Error *error);

// The same of what need not be a regular file (a pipe, a terminal): waits for its end. "-" is standard input.
enum { FILE_MAX_STREAM = 1 << 30 }; // bytes: a stream need not have an end
bool file_read_stream(char **text, size_t *size, Arena *arena, const char *path, Error *error);

// By what a file is recognised, and whether it was written to.
typedef struct FileStamp {
    uint64_t device, inode, size;
    int64_t nanoseconds; // of its last change
} FileStamp;
bool file_stamp(FileStamp *stamp, const char *path, Error *error);

bool file_exists(const char *path);
// Also true of a link whose target is gone, which opening it will say.
bool file_is_listed(const char *path);
bool file_is_folder(const char *path);
bool file_same(const char *one, const char *other); // two names of one file or folder; false when one is missing

// Writes beside path, fsyncs, renames over path and fsyncs the folder.
bool file_write(const char *path, const void *data, size_t size, Error *error);
// Bytes to an open file: from byte `at` on, or (below 0) where it stands. False: errno says why not all.
bool file_put(int descriptor, const void *data, size_t size, int64_t at);
bool file_append_line(const char *path, const char *line, Error *error); // one write(2) of line and "\n"

// A file of several writers, each of bytes of its own. It exists; path must outlive it. After file_parts_close what was put is on the disk.
typedef struct FileParts {
    int descriptor;
    const char *path;
} FileParts;
bool file_parts_open(FileParts *parts, const char *path, Error *error);
bool file_parts_put(FileParts *parts, const void *data, size_t size, int64_t at, Error *error); // from byte `at` on
bool file_parts_close(FileParts *parts, Error *error);                                          // frees it in any case

bool file_make_folders(const char *path, Error *error);           // like mkdir -p
bool file_sync(const char *path, Error *error);                   // fsync of a file or folder by name
bool file_rename(const char *from, const char *to, Error *error); // rename, then fsync of to's folder
// Swaps two names at once, then fsync of other's folder; errno is EINVAL, ENOSYS or EOPNOTSUPP where it cannot be done.
bool file_exchange(const char *one, const char *other, Error *error);
// Takes path (made when needed) for this process alone, until file_unlock or its end, however it ends. Refuses when another
// process has it.
bool file_lock(int *descriptor, const char *path, Error *error);
bool file_locked(const char *path);                    // by another process, now
void file_unlock(int *descriptor);                     // accepts -1; leaves -1
bool file_remove_tree(const char *path, Error *error); // a missing path is fine; never follows links
