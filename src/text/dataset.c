#include "text/dataset.h"

#include "base/cache_folder.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "text/answer_span.h"
#include "text/published_rows.h"

#include <math.h>
#include <stdlib.h>
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

// The names that take a data_path.
static bool takes_path(const char *name) {
    static const char *const names[] = {"ResponseDataset", "openai_format"};
    return is_one_of(name, names, 2);
}

static bool is_path(const char *name) {
    return *name == '/' || *name == '.' || *name == '~' || file_exists(name) ||
           (records_format(NULL, name) && !takes_path(name));
}

static const char *nearest_name(const char *name, const char *const *own, size_t count, Arena *arena) {
    const char *const *published, **names;
    size_t more = published_rows_names(&published, arena);
    names = arena_array(arena, const char *, count + more);
    memcpy(names, own, count * sizeof *own);
    memcpy(names + count, published, more * sizeof *published);
    return strbuf_nearest(name, names, count + more);
}

bool dataset_check_name(const DatasetOptions *options, Error *error) {
    static const char *const names[] = {"arithmetic",   "gsm8k",           "GSM8K",
                                        "openai/gsm8k", "ResponseDataset", "openai_format"};
    const char *name = options->dataset_name, *key = options->key;
    if (is_one_of(name, names, 6) || published_rows_find(name) || is_path(name)) {
        if (takes_path(name) && !options->data_path)
            return error_set(error, "%s.data_path: %s needs one, a file or a folder", key, name);
        return takes_path(name) || !options->data_path ||
               error_set(error, "%s.data_path: '%s' belongs to dataset_name ResponseDataset, not to '%s'", key,
                         options->data_path, name);
    }
    Arena arena = {0};
    const char *near = nearest_name(name, names, 6, &arena);
    error_set(error,
              "%s.dataset_name: '%s' is not here%s%s%s; there are arithmetic, gsm8k, and any file or folder of "
              "JSON lines, JSON, CSV or text: dataset_name: FILE with input_key and output_key",
              key, name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    arena_close(&arena);
    return false;
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
    const PublishedRows *rows = published_rows_find(options->dataset_name);
    const char *folder;
    if (!cache_folder_data(&folder, rows->name, arena, error)) return false;
    *path = arena_format(arena, "%s/%s.jsonl", folder, options->split ? options->split : "train");
    return file_exists(*path) || error_set(error, "%s.dataset_name: %s is not there; %s", options->key, *path,
                                           published_rows_remedy(rows, arena));
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
    bool response = takes_path(options->dataset_name);
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
        bool behind = dataset->gsm8k && dataset->options->extract_answer;
        *gold = behind ? gold_of_solution(text, arena) : arena_string(arena, text);
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

// The number that a part of a path is, or -1.
static int64_t index_of(const char *part) {
    int64_t index = 0;
    for (const char *at = part; *at; at++) {
        if (*at < '0' || *at > '9' || index > 1000000) return -1;
        index = 10 * index + (*at - '0');
    }
    return *part ? index : -1;
}

// What stands under a key, or where "prompt.0.content" leads: part by part, into lists by number. NULL: nothing.
static const json_t *find_value(const json_t *row, const char *key) {
    const json_t *value = json_object_get(row, key);
    char part[64];
    for (const char *at = key; !value && row && strlen(at) < sizeof part;) {
        size_t length = strcspn(at, ".");
        memcpy(part, at, length), part[length] = 0;
        int64_t index = json_is_array(row) ? index_of(part) : -1;
        row = index >= 0 ? json_array_get(row, (size_t)index) : json_object_get(row, part);
        if (!at[length]) return row;
        at += length + 1;
    }
    return value;
}

static bool read_question(DatasetQuestion *q, const Dataset *dataset, Arena *arena, Error *error) {
    const DatasetOptions *options = dataset->options;
    const PublishedRows *rows = published_rows_find(options->dataset_name);
    const char *in = dataset->gsm8k ? "question" : rows ? rows->question : "input";
    const char *out = dataset->gsm8k ? "answer" : rows ? rows->answer : "output";
    if (options->input_key) in = options->input_key;
    if (options->output_key) out = options->output_key;
    const json_t *question = find_value(q->row, in);
    if (!question) return missing_key(q->row, in, "input_key", error);
    if (!json_is_string(question)) return error_set(error, "\"%s\" is no text", in);
    q->prompt = prompt_file_fill(&dataset->prompt, json_string_value(question), arena);
    json_array_append_new(q->messages, message("user", q->prompt));
    const json_t *answer = find_value(q->row, out);
    if (!answer && dataset->use == DATASET_LEARNED) return missing_key(q->row, out, "output_key", error);
    if (!read_gold(&q->gold, dataset, answer, out, arena, error)) return false;
    if (dataset->use != DATASET_LEARNED) return true;
    if (!q->gold) return error_set(error, "no answer%s to learn", dataset->gsm8k ? " behind ####" : "");
    json_array_append_new(q->messages, message("assistant", q->gold));
    return true;
}

static const char *role_of(const json_t *message) {
    return json_string_value(json_object_get(message, "role"));
}

// A message that is learned from may consist of calls of tools alone.
static bool check_message(const json_t *message, size_t number, DatasetUse use, Error *error) {
    const json_t *content = json_object_get(message, "content");
    bool silent = use == DATASET_LEARNED && (!content || json_is_null(content));
    return (role_of(message) && (json_is_string(content) || silent)) ||
           error_set(error, "messages[%zu]: expected an object with the texts \"role\" and \"content\"", number);
}

static void fill_prompt(DatasetQuestion *q, const Dataset *dataset, json_t *message, Arena *arena) {
    const char *content = json_string_value(json_object_get(message, "content"));
    q->prompt = prompt_file_fill(&dataset->prompt, content ? content : "", arena);
    if (content) json_object_set_new(message, "content", json_string(q->prompt));
}

// The right answer is the last message, when it is the assistant's, and not asked.
static bool take_answer(DatasetQuestion *q, const Dataset *dataset, Arena *arena, Error *error) {
    size_t count = json_array_size(q->messages);
    json_t *last = json_array_get(q->messages, count ? count - 1 : 0);
    if (last && !strcmp(role_of(last), "assistant")) {
        q->gold = arena_string(arena, json_string_value(json_object_get(last, "content")));
        json_array_remove(q->messages, --count);
        last = json_array_get(q->messages, count ? count - 1 : 0);
    }
    if (!count || !strcmp(role_of(last), "system")) return error_set(error, "messages: there is nothing to answer");
    fill_prompt(q, dataset, last, arena);
    return true;
}

static bool take_lesson(DatasetQuestion *q, const Dataset *dataset, Arena *arena, Error *error) {
    bool answered = false;
    size_t i;
    json_t *at;
    q->prompt = "";
    json_array_foreach(q->messages, i, at) {
        if (!strcmp(role_of(at), "user") && !*q->prompt) fill_prompt(q, dataset, at, arena);
        answered = answered || !strcmp(role_of(at), "assistant");
    }
    return answered || error_set(error, "messages: none is the assistant's, so there is nothing to learn");
}

static bool read_conversation(DatasetQuestion *q, const Dataset *dataset, const json_t *given, const char *key,
                              Arena *arena, Error *error) {
    if (!json_is_array(given)) return error_set(error, "\"%s\" is no list", key);
    size_t i;
    json_t *at;
    json_array_foreach((json_t *)(uintptr_t)given, i, at) {
        if (!check_message(at, i, dataset->use, error)) return false;
        // A conversation's own system message stays.
        if (i == 0 && !strcmp(role_of(at), "system")) json_array_clear(q->messages);
        json_array_append_new(q->messages, json_copy(at));
    }
    return dataset->use == DATASET_LEARNED ? take_lesson(q, dataset, arena, error)
                                           : take_answer(q, dataset, arena, error);
}

static bool read_system(DatasetQuestion *q, const Dataset *dataset, Error *error) {
    const DatasetOptions *options = dataset->options;
    const PublishedRows *rows = published_rows_find(options->dataset_name);
    const char *key = options->system_key ? options->system_key : rows ? rows->system : NULL;
    const json_t *value = key ? find_value(q->row, key) : NULL;
    if (value && !json_is_null(value) && !json_is_string(value)) return error_set(error, "\"%s\" is no text", key);
    const char *text = json_string_value(value);
    if (!text) text = options->system_prompt ? options->system_prompt : dataset->system_prompt;
    if (text) json_array_append_new(q->messages, message("system", text));
    return true;
}

static bool read_thread(DatasetQuestion *q, const Dataset *dataset, int64_t thread, Arena *arena, Error *error) {
    json_t *messages = published_rows_thread(q->row, thread);
    bool good = read_system(q, dataset, error) && read_conversation(q, dataset, messages, "prompt", arena, error);
    json_decref(messages);
    return good;
}

// thread: which conversation of a tree.
static bool read_record(DatasetQuestion *q, const Dataset *dataset, int64_t thread, Arena *arena, Error *error) {
    const DatasetOptions *options = dataset->options;
    const PublishedRows *rows = published_rows_find(options->dataset_name);
    const char *key = options->chat_key ? options->chat_key : "messages";
    if (rows && rows->shape == PUBLISHED_TREES) return read_thread(q, dataset, thread, arena, error);
    const json_t *messages = find_value(q->row, key);
    if (!messages && (options->chat_key || (rows && !rows->question)))
        return missing_key(q->row, key, "chat_key", error);
    if (!read_system(q, dataset, error)) return false;
    if (options->tool_key) q->tools = json_object_get(q->row, options->tool_key);
    return messages && !dataset->gsm8k ? read_conversation(q, dataset, messages, key, arena, error)
                                       : read_question(q, dataset, arena, error);
}

static int64_t record_of(const Dataset *dataset, int64_t row) {
    return dataset->places ? dataset->places[row].record : row;
}

static bool read_row(DatasetQuestion *q, const Dataset *dataset, int64_t row, Arena *arena, Error *error) {
    *q = (DatasetQuestion){.messages = json_array()};
    if (dataset->generated) {
        if (dataset->system_prompt) json_array_append_new(q->messages, message("system", dataset->system_prompt));
        char text[ARITHMETIC_QUESTION_SIZE];
        int64_t answer;
        arithmetic_question(&dataset->arithmetic, row, text, &answer);
        q->row = json_object();
        q->prompt = prompt_file_fill(&dataset->prompt, arena_string(arena, text), arena);
        q->gold = arena_format(arena, "%lld", (long long)answer);
        json_array_append_new(q->messages, message("user", q->prompt));
        if (dataset->use == DATASET_LEARNED) json_array_append_new(q->messages, message("assistant", q->gold));
        return true;
    }
    int64_t record = record_of(dataset, row), thread = dataset->places ? dataset->places[row].thread : 0;
    if (!records_row(&q->row, &dataset->records, record, error)) return false;
    return read_record(q, dataset, thread, arena, error) ||
           error_prefix(error, "%s:%lld: ", dataset->records.path, (long long)records_line(&dataset->records, record));
}

// Of how many rows each record is.
static bool count_rows(int32_t *counts, const Dataset *dataset, const PublishedRows *rows, Error *error) {
    const Records *records = &dataset->records;
    const PublishedChoice choice = {.verifiable_only = dataset->options->verifiable_only,
                                    .require_valid = dataset->options->require_valid};
    for (int64_t record = 0; record < records->count; record++) {
        json_t *row;
        int64_t count;
        if (!records_row(&row, records, record, error)) return false;
        bool good = published_rows_count(&count, rows, choice, row, error);
        json_decref(row);
        if (!good) return error_prefix(error, "%s:%lld: ", records->path, (long long)records_line(records, record));
        counts[record] = (int32_t)count; // fewer than the bytes of a line
    }
    return true;
}

// Where records are not rows one by one: which of them are rows, or how many they are.
static bool place_rows(Dataset *dataset, const PublishedRows *rows, Arena *arena, Error *error) {
    const Records *records = &dataset->records;
    if (!rows || !(rows->marked || rows->shape == PUBLISHED_TREES)) return true;
    int32_t *counts = arena_array(arena, int32_t, records->count);
    if (!count_rows(counts, dataset, rows, error)) return false;
    dataset->rows = 0;
    for (int64_t record = 0; record < records->count; record++) dataset->rows += counts[record];
    if (!dataset->rows || dataset->rows > INT32_MAX)
        return error_set(error, "%s: %s questions of %lld records%s", records->path, dataset->rows ? "too many" : "no",
                         (long long)records->count,
                         rows->marked ? "; verifiable_only and require_valid say which are left out" : "");
    DatasetPlace *place = dataset->places = arena_array(arena, DatasetPlace, dataset->rows);
    for (int64_t record = 0; record < records->count; record++)
        for (int32_t thread = 0; thread < counts[record]; thread++) *place++ = (DatasetPlace){(int32_t)record, thread};
    return true;
}

// Keys of the recipe that rows may lack, but not all of them: then the name is wrong.
enum { OPTIONAL_KEYS = 2 };
typedef struct OptionalKey {
    const char *setting, *key; // key NULL: not given
    bool found;
} OptionalKey;

static bool check_found(const Dataset *dataset, const OptionalKey *keys, Error *error) {
    for (int k = 0; k < OPTIONAL_KEYS; k++)
        if (keys[k].key && !keys[k].found)
            return error_set(error, "%s.%s: no row of %s has \"%s\"", dataset->options->key, keys[k].setting,
                             dataset->records.path, keys[k].key);
    return true;
}

static bool check_rows(const Dataset *dataset, Error *error) {
    const DatasetOptions *options = dataset->options;
    Arena arena = {0};
    bool good = true;
    OptionalKey keys[OPTIONAL_KEYS] = {{"system_key", options->system_key, false},
                                       {"output_key", options->output_key, false}};
    for (int64_t row = 0; good && row < dataset->rows; row++) {
        DatasetQuestion question;
        good = read_row(&question, dataset, row, &arena, error);
        if (good && dataset->use == DATASET_COMPARED && !question.gold)
            good = error_set(error, "%s:%lld: no right answer%s, which the reward of env_name '%s' compares with",
                             dataset->records.path, (long long)records_line(&dataset->records, record_of(dataset, row)),
                             dataset->gsm8k ? " behind ####" : "", options->env_name);
        for (int k = 0; good && k < OPTIONAL_KEYS; k++)
            keys[k].found = keys[k].found || (keys[k].key && find_value(question.row, keys[k].key));
        dataset_question_close(&question);
        arena_reset(&arena);
    }
    arena_close(&arena);
    return good && check_found(dataset, keys, error);
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

static bool count_questions(Dataset *dataset, Error *error) {
    const DatasetOptions *options = dataset->options;
    int64_t passes = options->repeat ? options->repeat : 1, taken = dataset->rows;
    if (options->max_samples && options->max_samples < taken) taken = options->max_samples;
    if (passes > INT32_MAX / taken)
        return error_set(error, "%s.repeat: %lld times %lld questions are more than %d", options->key,
                         (long long)passes, (long long)taken, INT32_MAX);
    dataset->taken = taken;
    dataset->count = passes * taken;
    return dataset_held_out(&dataset->held_out, options, dataset->count, error) &&
           (passes == 1 || !dataset->held_out ||
            error_set(error, "%s.repeat: %lld with split_validation_size %g would train on questions that are held out",
                      options->key, (long long)passes, options->split_validation_size));
}

bool dataset_open(Dataset *dataset, const DatasetOptions *options, DatasetUse use, Arena *arena, Error *error) {
    *dataset = (Dataset){.options = options,
                         .use = use,
                         .generated = !strcmp(options->dataset_name, "arithmetic"),
                         .gsm8k = is_gsm8k(options->dataset_name)};
    const char *path;
    if (!dataset_check_name(options, error) || !open_prompts(dataset, arena, error)) return false;
    if (dataset->generated) {
        if (!arithmetic_open(&dataset->arithmetic, &options->arithmetic, error))
            return error_prefix(error, "%s.", options->key);
        dataset->rows = dataset->arithmetic.count;
        const ArithmeticOptions *made = &options->arithmetic;
        const char *text =
            arena_format(arena, "arithmetic %s %lld..%lld %lld..%lld", made->operations, (long long)made->left_min,
                         (long long)made->left_max, (long long)made->right_min, (long long)made->right_max);
        digest_bytes(dataset->digest, text, strlen(text));
    } else {
        if (!(dataset->gsm8k                               ? find_gsm8k
              : published_rows_find(options->dataset_name) ? find_named_rows
                                                           : find_file)(&path, options, arena, error))
            return false;
        if (!records_open(&dataset->records, path, arena, error)) return false;
        dataset->rows = dataset->records.count;
        if (!place_rows(dataset, published_rows_find(options->dataset_name), arena, error)) return false;
        digest_bytes(dataset->digest, dataset->records.map.data, dataset->records.map.size);
        if (!check_rows(dataset, error)) return false;
    }
    return count_questions(dataset, error);
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
    row %= dataset->taken;
    if (dataset->generated || dataset->held_out || dataset->taken < dataset->rows)
        row = (int64_t)rng_permute((uint64_t)row, (uint64_t)dataset->rows, (uint64_t)dataset->options->seed,
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
