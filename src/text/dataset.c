#include "text/dataset.h"

#include "base/cache_folder.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "text/answer_span.h"

#include <math.h>
#include <string.h>

// ---- where it lies

static bool is_one_of(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(word, words[i])) return true;
    return false;
}

static bool is_gsm8k(const char *name) {
    static const char *const names[] = {"gsm8k", "GSM8K", "openai/gsm8k"};
    return is_one_of(name, names, 3);
}

// Data sets that NeMo-RL's recipes name: the keys of their rows, which lie in the cache as SPLIT.jsonl.
typedef struct NamedRows {
    const char *name, *published, *question, *answer;
} NamedRows;

static const NamedRows named_rows[] = {
    {"OpenMathInstruct-2", "nvidia/OpenMathInstruct-2", "problem", "expected_answer"},
    {"DeepScaler", "agentica-org/DeepScaleR-Preview-Dataset", "problem", "answer"},
    {"DAPOMath17K", "BytedTsinghua-SIA/DAPO-Math-17k", "prompt", "answer"},
    {"DAPOMathAIME2024", "BytedTsinghua-SIA/AIME-2024", "prompt", "answer"},
    {"AIME2024", "HuggingFaceH4/aime_2024", "problem", "answer"},
};

static const NamedRows *find_named(const char *name) {
    for (size_t i = 0; i < sizeof named_rows / sizeof *named_rows; i++)
        if (!strcmp(name, named_rows[i].name)) return &named_rows[i];
    return NULL;
}

static bool is_path(const char *name) {
    return *name == '/' || *name == '.' || *name == '~' || file_exists(name) ||
           (records_format(NULL, name) && strcmp(name, "ResponseDataset"));
}

bool dataset_check_name(const DatasetOptions *options, Error *error) {
    static const char *const names[] = {"arithmetic", "gsm8k", "GSM8K", "openai/gsm8k", "ResponseDataset"};
    const char *name = options->dataset_name, *key = options->key;
    bool response = !strcmp(name, "ResponseDataset");
    if (response && !options->data_path)
        return error_set(error, "%s.data_path: ResponseDataset needs one, a file or a folder", key);
    if (!response && options->data_path)
        return error_set(error, "%s.data_path: '%s' belongs to dataset_name ResponseDataset, not to '%s'", key,
                         options->data_path, name);
    if (is_one_of(name, names, 5) || find_named(name) || is_path(name)) return true;
    const char *near = strbuf_nearest(name, names, 5);
    return error_set(error,
                     "%s.dataset_name: '%s' is not here%s%s%s; there are arithmetic, gsm8k, and any file or folder of "
                     "JSON lines, JSON, CSV or text: dataset_name: FILE with input_key and output_key",
                     key, name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static const char *split_of(const DatasetOptions *options) {
    return options->split ? options->split : options->validates ? "test" : "train";
}

static bool find_gsm8k(const char **path, const DatasetOptions *options, Arena *arena, Error *error) {
    const char *folder, *split = split_of(options);
    if (strcmp(split, "train") && strcmp(split, "test"))
        return error_set(error, "%s.split: '%s' of gsm8k; choose train or test", options->key, split);
    if (!cache_folder_data(&folder, "gsm8k", arena, error)) return false;
    *path = arena_format(arena, "%s/%s.jsonl", folder, split);
    return file_exists(*path) ||
           error_set(error, "%s.dataset_name: %s is not there; `whet pull gsm8k` fetches it", options->key, *path);
}

static bool find_named_rows(const char **path, const DatasetOptions *options, Arena *arena, Error *error) {
    const NamedRows *rows = find_named(options->dataset_name);
    const char *folder;
    if (!cache_folder_data(&folder, rows->name, arena, error)) return false;
    *path = arena_format(arena, "%s/%s.jsonl", folder, options->split ? options->split : "train");
    return file_exists(*path) ||
           error_set(error, "%s.dataset_name: %s is not there; its rows are those of %s, as JSON lines with %s and %s",
                     options->key, *path, rows->published, rows->question, rows->answer);
}

static bool find_in_folder(const char **path, const DatasetOptions *options, Arena *arena, Error *error) {
    static const char *const endings[] = {"jsonl", "json", "csv", "txt"};
    const char *folder = *path, *split = split_of(options), *found = NULL;
    for (int i = 0; i < 4; i++) {
        const char *file = arena_format(arena, "%s/%s.%s", folder, split, endings[i]);
        if (!file_exists(file)) continue;
        if (found) return error_set(error, "%s.split: both %s and %s are there", options->key, found, file);
        found = file;
    }
    if (!found)
        return error_set(error, "%s.split: %s has no %s.jsonl, .json, .csv or .txt", options->key, folder, split);
    *path = found;
    return true;
}

static bool find_file(const char **path, const DatasetOptions *options, Arena *arena, Error *error) {
    bool response = !strcmp(options->dataset_name, "ResponseDataset");
    const char *given = response ? options->data_path : options->dataset_name;
    *path = cache_folder_expand(given, arena);
    if (!file_exists(*path))
        return error_set(error, "%s.%s: there is no file or folder %s", options->key,
                         response ? "data_path" : "dataset_name", *path);
    if (file_is_folder(*path)) return find_in_folder(path, options, arena, error);
    return !options->split || error_set(error, "%s.split: '%s', but %s is one file, which has no splits", options->key,
                                        options->split, *path);
}

// ---- rows

// The text behind the first ####, up to the next, as NeMo-RL reads it.
static const char *gold_of_solution(const char *solution, Arena *arena) {
    const char *hash = strstr(solution, "####");
    if (!hash) return NULL;
    hash += 4;
    const char *end = strstr(hash, "####");
    TextSpan gold = answer_trim((TextSpan){hash, end ? (size_t)(end - hash) : strlen(hash)});
    return arena_bytes(arena, gold.text, gold.size);
}

static bool read_gold(const char **gold, const Dataset *dataset, const json_t *value, const char *key, Arena *arena,
                      Error *error) {
    *gold = NULL;
    if (!value || json_is_null(value)) return true;
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        *gold = dataset->gsm8k ? gold_of_solution(text, arena) : arena_string(arena, text);
        return true;
    }
    if (!json_is_number(value)) return error_set(error, "\"%s\" is neither a text nor a number", key);
    char *number = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    *gold = arena_string(arena, number);
    free(number);
    return true;
}

static bool missing_key(const json_t *row, const char *key, const char *option, Error *error) {
    StrBuf keys = {0};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)row, name, value) {
        if (keys.length > 200) break;
        strbuf_format(&keys, "%s\"%.40s\"", keys.length ? ", " : "", name);
    }
    error_set(error, "no \"%s\" (%s); the row has %s", key, option, keys.length ? keys.text : "nothing");
    strbuf_close(&keys);
    return false;
}

static json_t *message(const char *role, const char *content) {
    return json_pack("{s:s, s:s}", "role", role, "content", content);
}

static bool read_question(DatasetQuestion *q, const Dataset *dataset, Arena *arena, Error *error) {
    const NamedRows *rows = find_named(dataset->options->dataset_name);
    const char *in = dataset->gsm8k ? "question" : rows ? rows->question : dataset->options->input_key;
    const char *out = dataset->gsm8k ? "answer" : rows ? rows->answer : dataset->options->output_key;
    const json_t *question = json_object_get(q->row, in);
    if (!question) return missing_key(q->row, in, "input_key", error);
    if (!json_is_string(question)) return error_set(error, "\"%s\" is no text", in);
    q->prompt = prompt_file_fill(&dataset->prompt, json_string_value(question), arena);
    json_array_append_new(q->messages, message("user", q->prompt));
    return read_gold(&q->gold, dataset, json_object_get(q->row, out), out, arena, error);
}

static bool read_conversation(DatasetQuestion *q, const Dataset *dataset, const json_t *given, Arena *arena,
                              Error *error) {
    size_t count = json_array_size(given);
    if (!json_is_array(given)) return error_set(error, "\"messages\" is no list");
    for (size_t i = 0; i < count; i++) {
        const json_t *at = json_array_get(given, i);
        if (!json_is_string(json_object_get(at, "role")) || !json_is_string(json_object_get(at, "content")))
            return error_set(error, "messages[%zu]: expected an object with the texts \"role\" and \"content\"", i);
        const char *role = json_string_value(json_object_get(at, "role"));
        // A conversation's own system message stays.
        if (i == 0 && !strcmp(role, "system")) json_array_clear(q->messages);
        json_array_append_new(q->messages, json_copy((json_t *)at));
    }
    if (count) {
        const json_t *last = json_array_get(given, count - 1);
        if (!strcmp(json_string_value(json_object_get(last, "role")), "assistant")) {
            q->gold = arena_string(arena, json_string_value(json_object_get(last, "content")));
            json_array_remove(q->messages, json_array_size(q->messages) - 1);
            count--;
        }
    }
    if (!count) return error_set(error, "messages: there is nothing to answer");
    json_t *last = json_array_get(q->messages, json_array_size(q->messages) - 1);
    q->prompt = prompt_file_fill(&dataset->prompt, json_string_value(json_object_get(last, "content")), arena);
    json_object_set_new(last, "content", json_string(q->prompt));
    return true;
}

static bool read_row(DatasetQuestion *q, const Dataset *dataset, int64_t row, Arena *arena, Error *error) {
    *q = (DatasetQuestion){.messages = json_array()};
    if (dataset->system_prompt) json_array_append_new(q->messages, message("system", dataset->system_prompt));
    if (dataset->generated) {
        char text[ARITHMETIC_QUESTION_SIZE];
        int64_t answer;
        arithmetic_question(&dataset->arithmetic, row, text, &answer);
        q->row = json_object();
        q->prompt = prompt_file_fill(&dataset->prompt, arena_string(arena, text), arena);
        q->gold = arena_format(arena, "%lld", (long long)answer);
        json_array_append_new(q->messages, message("user", q->prompt));
        return true;
    }
    if (!records_row(&q->row, &dataset->records, row, error)) return false;
    const json_t *messages = json_object_get(q->row, "messages");
    bool good = messages && !dataset->gsm8k ? read_conversation(q, dataset, messages, arena, error)
                                            : read_question(q, dataset, arena, error);
    return good ||
           error_prefix(error, "%s:%lld: ", dataset->records.path, (long long)records_line(&dataset->records, row));
}

static bool check_rows(const Dataset *dataset, bool needs_gold, Error *error) {
    Arena arena = {0};
    bool good = true;
    for (int64_t row = 0; good && row < dataset->count; row++) {
        DatasetQuestion question;
        good = read_row(&question, dataset, row, &arena, error);
        if (good && needs_gold && !question.gold)
            good = error_set(error, "%s:%lld: no right answer%s, which the reward of env_name '%s' compares with",
                             dataset->records.path, (long long)records_line(&dataset->records, row),
                             dataset->gsm8k ? " behind ####" : "", dataset->options->env_name);
        dataset_question_close(&question);
        arena_reset(&arena);
    }
    arena_close(&arena);
    return good;
}

// ---- opening

bool dataset_held_out(int64_t *held_out, const DatasetOptions *options, int64_t count, Error *error) {
    double size = options->split_validation_size, kept = size < 1 ? ceil(size * (double)count) : size;
    if (size < 0 || kept != floor(kept))
        return error_set(error, "%s.split_validation_size: %g is neither a share below 1 nor a whole number",
                         options->key, size);
    if (kept >= (double)count)
        return error_set(error, "%s.split_validation_size: %g leaves no training question of the %lld there are",
                         options->key, size, (long long)count);
    *held_out = (int64_t)kept;
    return true;
}

static bool open_prompts(Dataset *dataset, Arena *arena, Error *error) {
    const DatasetOptions *options = dataset->options;
    if (options->prompt_file && !prompt_file_open(&dataset->prompt, options->prompt_file, arena, error))
        return error_prefix(error, "%s.prompt_file: ", options->key);
    if (options->system_prompt_file &&
        !prompt_file_text(&dataset->system_prompt, options->system_prompt_file, arena, error))
        return error_prefix(error, "%s.system_prompt_file: ", options->key);
    return true;
}

bool dataset_open(Dataset *dataset, const DatasetOptions *options, bool needs_gold, Arena *arena, Error *error) {
    *dataset = (Dataset){.options = options,
                         .generated = !strcmp(options->dataset_name, "arithmetic"),
                         .gsm8k = is_gsm8k(options->dataset_name)};
    const char *path;
    if (!dataset_check_name(options, error) || !open_prompts(dataset, arena, error)) return false;
    if (dataset->generated) {
        if (!arithmetic_open(&dataset->arithmetic, &options->arithmetic, error))
            return error_prefix(error, "%s.", options->key);
        dataset->count = dataset->arithmetic.count;
        const ArithmeticOptions *made = &options->arithmetic;
        const char *text =
            arena_format(arena, "arithmetic %s %lld..%lld %lld..%lld", made->operations, (long long)made->left_min,
                         (long long)made->left_max, (long long)made->right_min, (long long)made->right_max);
        digest_bytes(dataset->digest, text, strlen(text));
    } else {
        if (!(dataset->gsm8k                      ? find_gsm8k
              : find_named(options->dataset_name) ? find_named_rows
                                                  : find_file)(&path, options, arena, error))
            return false;
        if (!records_open(&dataset->records, path, arena, error)) return false;
        dataset->count = dataset->records.count;
        digest_bytes(dataset->digest, dataset->records.map.data, dataset->records.map.size);
        if (!check_rows(dataset, needs_gold, error)) return false;
    }
    return dataset_held_out(&dataset->held_out, options, dataset->count, error);
}

void dataset_close(Dataset *dataset) {
    records_close(&dataset->records);
    *dataset = (Dataset){0};
}

int64_t dataset_count(const Dataset *dataset, DatasetPart part) {
    return part == DATASET_HELD_OUT ? dataset->held_out : dataset->count - dataset->held_out;
}

bool dataset_question(DatasetQuestion *question, const Dataset *dataset, DatasetPart part, int64_t index, Arena *arena,
                      Error *error) {
    int64_t count = dataset_count(dataset, part), row = index;
    CHECK(index >= 0 && index < count, "question %lld of %lld", (long long)index, (long long)count);
    // One permutation of all rows; the held-out ones are its beginning.
    if (part == DATASET_REST) row += dataset->held_out;
    if (dataset->generated || dataset->held_out)
        row = (int64_t)rng_permute((uint64_t)row, (uint64_t)dataset->count, (uint64_t)dataset->options->seed,
                                   RNG_QUESTION, 0);
    if (read_row(question, dataset, row, arena, error)) return true;
    dataset_question_close(question);
    return false;
}

void dataset_question_close(DatasetQuestion *question) {
    json_decref(question->messages);
    json_decref(question->row);
    *question = (DatasetQuestion){0};
}
