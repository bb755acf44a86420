// YAML text → tree of values with lines (through libfyaml). Anchors, aliases and merge keys (<<) are expanded; duplicate
// keys, tags, several documents and keys that are no plain words are refused, and so is what exceeds the limits of
// config/value.h or YAML_MAX_BYTES: every hostile file ends in one line with file and line.
#pragma once
#include "config/value.h"

enum { YAML_MAX_BYTES = 1024 * 1024 };

// The file's root must be a mapping; an empty file is an empty one.
bool yaml_read(Value **root, Arena *arena, const char *path, Error *error);

// name stands for the file in places and messages; it must outlive the tree.
bool yaml_parse(Value **root, Arena *arena, const char *text, size_t size, const char *name, Error *error);
