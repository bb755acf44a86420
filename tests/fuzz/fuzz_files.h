// What every fuzz target stands on: files that exist in memory only, and what must hold when a reader refuses.
//
// The targets are linked so that the readers' calls of file_map, file_read, file_read_stream, file_stamp, file_exists,
// file_is_folder, file_same and realpath (see FUZZ_WRAPPED in the Makefile) arrive here. A path below "fuzz/" is one of the files given below,
// each map a block of its own of exactly the file's size, so that the address sanitizer sees every byte read beside it; other
// paths are real.
#pragma once
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_MAX_FILES = 16 };

void fuzz_files_forget(void);

// data is not copied: it must stay until the files are forgotten.
void fuzz_files_add(const char *path, const void *data, size_t size);

// Several files in one input: a line "=== NAME" begins the file fuzz/NAME, if NAME is one of names[count]; it ends before the
// next such line. What stands before the first belongs to fuzz/names[0]. Forgets what was there.
void fuzz_files_split(const uint8_t *data, size_t size, const char *const *names, int count);

// A refusal is one line that says something. FUZZ_TELL=1 in the environment prints it.
void fuzz_files_refused(const Error *error);
