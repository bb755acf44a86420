#include "text/published_rows.h"

#include <string.h>
#include <strings.h>

#define PARQUET "Parquet files"

static const PublishedRows all[] = {
    {"OpenMathInstruct-2", "nvidia/OpenMathInstruct-2", .question = "problem", .answer = "expected_answer",
     .file = PARQUET},
    {"OpenR1-Math-220k", "open-r1/OpenR1-Math-220k", .question = "problem", .answer = "answer", .file = PARQUET},
    {"NuminaMath-1.5", "AI-MO/NuminaMath-1.5", .question = "problem", .answer = "answer", .marked = true,
     .file = PARQUET},
    {"DeepScaler", "agentica-org/DeepScaleR-Preview-Dataset", .question = "problem", .answer = "answer",
     .file = "a JSON file"},
    {"DAPOMath17K", "BytedTsinghua-SIA/DAPO-Math-17k", .question = "prompt.0.content",
     .answer = "reward_model.ground_truth", .file = PARQUET},
    {"DAPOMathAIME2024", "BytedTsinghua-SIA/AIME-2024", .question = "prompt.0.content",
     .answer = "reward_model.ground_truth", .file = PARQUET},
    {"AIME2024", "HuggingFaceH4/aime_2024", .question = "problem", .answer = "answer", .file = PARQUET},
    {"AIME2025", "opencompass/AIME2025", .question = "question", .answer = "answer", .file = "files of JSON lines"},
    {"AIME2026", "MathArena/aime_2026", .question = "problem", .answer = "answer", .file = PARQUET},
    {"squad", "rajpurkar/squad", .question = "question", .answer = "answers.text.0", .system = "context",
     .file = PARQUET},
    {"tulu3_sft_mixture", "allenai/tulu-3-sft-mixture", .shape = PUBLISHED_CONVERSATIONS, .file = PARQUET},
    {"Nemotron-Cascade-2-SFT-Math", "nvidia/Nemotron-Cascade-2-SFT-Data", .shape = PUBLISHED_CONVERSATIONS,
     .file = "files of another layout"},
    {"open_assistant", "OpenAssistant/oasst1", .shape = PUBLISHED_TREES,
     .file = "2023-04-12_oasst_all.trees.jsonl.gz, which gunzip unpacks"},
};
enum { COUNT = sizeof all / sizeof *all };

const PublishedRows *published_rows_find(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(name, all[i].name)) return &all[i];
    return NULL;
}

const PublishedRows *published_rows_of(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(name, all[i].name) || !strcmp(name, all[i].hub_name)) return &all[i];
    return NULL;
}

size_t published_rows_names(const char *const **names, Arena *arena) {
    const char **list = arena_array(arena, const char *, COUNT);
    for (int i = 0; i < COUNT; i++) list[i] = all[i].name;
    *names = list;
    return COUNT;
}

const char *published_rows_remedy(const PublishedRows *rows, Arena *arena) {
    bool questions = rows->shape == PUBLISHED_QUESTIONS;
    return arena_format(arena, "its rows are those of %s, as JSON lines with %s%s%s; its publisher has %s",
                        rows->hub_name,
                        questions                        ? rows->question
                        : rows->shape == PUBLISHED_TREES ? "prompt and its replies"
                                                         : "messages",
                        questions ? " and " : "", questions ? rows->answer : "", rows->file);
}

// ---- marks

static const char *text_of(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text + strspn(text, " \t\r\n") : "";
}

// Up to white space behind it.
static bool is_word(const char *text, const char *word) {
    size_t length = strlen(word);
    return !strncasecmp(text, word, length) && !text[length + strspn(text + length, " \t\r\n")];
}

static bool is_verifiable(const PublishedRows *rows, const json_t *row) {
    const char *answer = text_of(row, rows->answer);
    return *answer && !is_word(answer, "proof") && !is_word(answer, "notfound") &&
           !is_word(text_of(row, "question_type"), "proof");
}

static bool is_valid(const json_t *row) {
    return !strcmp(text_of(row, "problem_is_valid"), "Yes") && !strcmp(text_of(row, "solution_is_valid"), "Yes");
}

// ---- trees

static const json_t *root_of(const json_t *row) {
    const json_t *prompt = json_object_get(row, "prompt");
    return prompt ? prompt : row;
}

static const char *role_of(const json_t *node) {
    const char *role = json_string_value(json_object_get(node, "role"));
    if (role && !strcmp(role, "prompter")) return "user";
    return role && !strcmp(role, "assistant") ? role : NULL;
}

// As deep as the reader of JSON goes, which has a limit.
static bool count_leaves(int64_t *count, const json_t *node, Error *error) {
    const json_t *replies = json_object_get(node, "replies");
    size_t i;
    json_t *at;
    if (!json_is_string(json_object_get(node, "text")) || !role_of(node))
        return error_set(error,
                         "a message of the tree: expected an object with the text \"text\" and the \"role\" prompter "
                         "or assistant");
    if (replies && !json_is_null(replies) && !json_is_array(replies)) return error_set(error, "\"replies\" is no list");
    if (!json_array_size(replies)) ++*count;
    json_array_foreach(replies, i, at) if (!count_leaves(count, at, error)) return false;
    return true;
}

bool published_rows_count(int64_t *count, const PublishedRows *rows, PublishedChoice choice, const json_t *row,
                          Error *error) {
    *count = 0;
    if (rows->shape != PUBLISHED_TREES) {
        bool left_out = rows->marked && ((choice.verifiable_only && !is_verifiable(rows, row)) ||
                                         (choice.require_valid && !is_valid(row)));
        *count = !left_out;
        return true;
    }
    if (!count_leaves(count, root_of(row), error)) return false;
    if (!json_array_size(json_object_get(root_of(row), "replies"))) *count = 0;
    return true;
}

// Appends the way to the leaf *index below the node, or takes the number of its leaves off *index.
static bool walk_to_leaf(json_t *messages, const json_t *node, int64_t *index) {
    const json_t *replies = json_object_get(node, "replies");
    size_t i, before = json_array_size(messages);
    json_t *at;
    json_array_append_new(messages,
                          json_pack("{s:s, s:O}", "role", role_of(node), "content", json_object_get(node, "text")));
    if (!json_array_size(replies) && (*index)-- == 0) return true;
    json_array_foreach(replies, i, at) if (walk_to_leaf(messages, at, index)) return true;
    while (json_array_size(messages) > before) json_array_remove(messages, json_array_size(messages) - 1);
    return false;
}

json_t *published_rows_thread(const json_t *row, int64_t index) {
    json_t *messages = json_array();
    walk_to_leaf(messages, root_of(row), &index);
    return messages;
}
