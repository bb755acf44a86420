// What stands around a question: a prompt file with one slot, and a system message. Both are NeMo-RL's prompt_file and
// system_prompt_file, read as they stand, with carriage returns before newlines left out.
#pragma once
#include "base/arena.h"
#include "base/error.h"

// Where the question goes: the text before it and behind it. As Python's str.format has it: the slot is {} or {0}, and {{ and }} are
// braces. Both NULL: the question alone.
typedef struct PromptFile {
    const char *before, *behind;
} PromptFile;

// Reads the file. Refuses, naming file and line: no slot, several, names or formats within it, a brace alone, what is no
// UTF-8, 0 bytes.
bool prompt_file_open(PromptFile *prompt, const char *path, Arena *arena, Error *error);

// The question in its slot.
const char *prompt_file_fill(const PromptFile *prompt, const char *question, Arena *arena);

// The whole text of a file of the same kind without slots.
bool prompt_file_text(const char **text, const char *path, Arena *arena, Error *error);
