// How a model of the Hugging Face hub is named: ORG/NAME[@REVISION][/FILE]. Names that become paths are checked here: what passes
// stays inside the folder that it is joined to.
#pragma once
#include "base/arena.h"
#include "base/error.h"

typedef struct HubName {
    const char *id;       // "ORG/NAME"
    const char *revision; // branch, tag or commit; NULL: not given
    const char *file;     // "FOLDER/FILE.gguf"; NULL: not given
} HubName;

// False when the text cannot be such a name (a path like ./x, /x or x.gguf never is). Parts are copied into the arena.
bool hub_name_parse(HubName *name, const char *text, Arena *arena);

// Whether the text, joined to a folder, names something inside it: no empty part, no "." or "..", no control character or
// backslash, no part over 255 bytes, at most 1024 bytes.
bool hub_name_is_inside(const char *path);

bool hub_name_is_commit(const char *text); // 40 lower-case hexadecimal digits
bool hub_name_is_hex(const char *text, size_t digits);

// "models--ORG--NAME", the folder of the repository in the cache.
const char *hub_name_folder(const char *id, Arena *arena);
