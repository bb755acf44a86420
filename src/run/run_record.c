#include "run/run_record.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/int64.h"
#include "base/jsonio.h"
#include "text/records.h"

#include <math.h>
#include <string.h>

static const char *path_in(const RunRecord *record, const char *name, Arena *arena) {
    return arena_format(arena, "%s/%s", record->folder, name);
}

bool run_record_is_run(const char *path) {
    Arena arena = {0};
    bool good = file_exists(arena_format(&arena, "%s/config.yaml", path)) &&
                file_exists(arena_format(&arena, "%s/metrics.jsonl", path));
    arena_close(&arena);
    return good;
}

// A number, or NAN where it is none ("nan", "inf").
static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static bool take_step(RunRecord *record, const json_t *line, int64_t step, const char *place, Error *error) {
    if (step != record->step_count + 1)
        return error_set(error, "%s: step %lld follows step %lld", place, (long long)step,
                         (long long)record->step_count);
    record->reward[record->step_count] = number_of(line, "train/reward");
    record->step_seconds[record->step_count++] = number_of(line, "timing/train/total_step_time");
    record->training_seconds += number_of(line, "timing/train/total_step_time");
    return true;
}

static bool take_validation(RunRecord *record, const json_t *line, int64_t step, const char *place, Error *error) {
    int64_t count = record->validation_count;
    if (count && step <= record->validation_step[count - 1])
        return error_set(error, "%s: a second validation of step %lld", place, (long long)step);
    record->validation_step[count] = step;
    record->accuracy[count] = number_of(line, "validation/accuracy");
    record->validation_count++;
    if (step == 0) record->training_seconds += number_of(line, "timing/validation/total_validation_time");
    return true;
}

static bool read_metrics(RunRecord *record, Arena *arena, Error *error) {
    Records lines = {0};
    bool good = records_open(&lines, path_in(record, "metrics.jsonl", arena), arena, error);
    record->reward = arena_array(arena, double, lines.count);
    record->step_seconds = arena_array(arena, double, lines.count);
    record->validation_step = arena_array(arena, int64_t, lines.count);
    record->accuracy = arena_array(arena, double, lines.count);
    for (int64_t i = 0; good && i < lines.count; i++) {
        json_t *line = NULL;
        good = records_row(&line, &lines, i, error);
        if (!good) break;
        const char *place = arena_format(arena, "%s:%lld", lines.path, (long long)records_line(&lines, i));
        int64_t step = json_integer_value(json_object_get(line, "step"));
        if (json_object_get(line, "train/reward")) good = take_step(record, line, step, place, error);
        if (good && json_object_get(line, "validation/accuracy"))
            good = take_validation(record, line, step, place, error);
        json_decref(line);
    }
    records_close(&lines);
    return good;
}

static double bytes_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void take_memory(RunMemory *memory, const json_t *entry) {
    json_t *phases = json_object_get(entry, "peak_by_phase"), *value;
    const char *tag;
    memory->step = json_integer_value(json_object_get(entry, "step"));
    memory->rank = (int)int64_smaller(INT32_MAX, int64_larger(-1, json_integer_value(json_object_get(entry, "rank"))));
    json_object_foreach(json_object_get(entry, "at_peak"), tag, value) memory->step_peak += json_number_value(value);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const json_t *alive = json_object_get(phases, ledger_phase_name((MemoryPhase)phase));
        memory->phase[phase] = bytes_of(alive, "total");
        bool update = phase == PHASE_FORWARD || phase == PHASE_BACKWARD || phase == PHASE_OPTIMIZER;
        if (!update || memory->phase[phase] <= memory->peak) continue;
        memory->peak = memory->phase[phase];
        for (int t = 0; t < MEMORY_TAG_COUNT; t++) memory->at_peak[t] = bytes_of(alive, ledger_tag_name((MemoryTag)t));
    }
}

// Each step has an entry, and there are no more ranks than entries.
static bool check_memory(const RunRecord *record, const char *path, Arena *arena, Error *error) {
    bool *there = arena_array(arena, bool, record->step_count);
    for (int64_t i = 0; i < record->memory_count; i++) {
        const RunMemory *m = &record->memory[i];
        if (m->rank < 0 || m->rank >= record->memory_count)
            return error_set(error, "%s: rank %d among %lld entries", path, m->rank, (long long)record->memory_count);
        if (m->step >= 1 && m->step <= record->step_count) there[m->step - 1] = true;
    }
    for (int64_t step = 1; step <= record->step_count; step++)
        if (!there[step - 1]) return error_set(error, "%s: the memory of step %lld is missing", path, (long long)step);
    return true;
}

static bool read_memory(RunRecord *record, Arena *arena, Error *error) {
    const char *path = path_in(record, "memory.json", arena);
    json_t *all = NULL, *entry;
    size_t i;
    if (!jsonio_read(&all, path, error)) return false;
    bool list = json_is_array(all);
    record->memory = arena_array(arena, RunMemory, json_array_size(all));
    json_array_foreach(all, i, entry) {
        list = list && json_is_object(entry);
        take_memory(&record->memory[record->memory_count++], entry);
    }
    json_decref(all);
    return list ? check_memory(record, path, arena, error) : error_set(error, "%s: expected a list of objects", path);
}

static bool read_environment(RunRecord *record, Arena *arena, Error *error) {
    const char *path = path_in(record, "environment.json", arena);
    json_t *value = NULL;
    if (!jsonio_read(&value, path, error)) return false;
    const char *model = json_string_value(json_object_get(value, "model_digest"));
    const char *data = json_string_value(json_object_get(value, "data_digest"));
    if (model && data)
        record->model_digest = arena_string(arena, model), record->data_digest = arena_string(arena, data);
    json_decref(value);
    return record->model_digest || error_set(error, "%s: no model_digest and data_digest", path);
}

bool run_record_open(RunRecord *record, const char *folder, Arena *arena, Error *error) {
    *record = (RunRecord){.folder = arena_string(arena, folder)};
    return settings_load(&record->settings, arena, path_in(record, "config.yaml", arena), 0, NULL, error) &&
           read_environment(record, arena, error) && read_metrics(record, arena, error) &&
           read_memory(record, arena, error);
}

const char *run_record_validation_path(const RunRecord *record, int64_t step, Arena *arena) {
    return arena_format(arena, "%s/val_data_step%lld.jsonl", record->folder, (long long)step);
}

// One answer more: of the question before, or of a new one.
static void take_answer(RunAnswers *answers, int64_t *scored, const json_t *line) {
    int64_t question = json_integer_value(json_object_get(line, "idx"));
    if (!answers->count || answers->question[answers->count - 1] != question) {
        answers->question[answers->count] = question;
        answers->reward[answers->count++] = (double)NAN;
        *scored = 0;
    }
    int64_t at = answers->count - 1;
    answers->answers_each += at == 0;
    double reward = number_of(line, "rewards");
    if (isnan(reward)) return;
    answers->lowest = fmin(answers->lowest, reward), answers->highest = fmax(answers->highest, reward);
    answers->passed[at] |= reward > 0;
    double sum = *scored ? answers->reward[at] * (double)*scored : 0;
    answers->reward[at] = (sum + reward) / (double)++*scored;
}

bool run_record_answers(RunAnswers *answers, const RunRecord *record, int64_t step, Arena *arena, Error *error) {
    Records lines = {0};
    bool good = records_open(&lines, run_record_validation_path(record, step, arena), arena, error);
    int64_t scored = 0;
    *answers = (RunAnswers){.question = arena_array(arena, int64_t, lines.count),
                            .reward = arena_array(arena, double, lines.count),
                            .passed = arena_array(arena, bool, lines.count),
                            .lowest = INFINITY,
                            .highest = -INFINITY};
    for (int64_t i = 0; good && i < lines.count; i++) {
        json_t *line = NULL;
        good = records_row(&line, &lines, i, error);
        if (good) take_answer(answers, &scored, line);
        json_decref(line);
    }
    records_close(&lines);
    return good;
}

// The conversation without the answer at its end. False: there is none.
static bool put_prompt(StrBuf *text, const json_t *line) {
    json_t *asked = json_copy(json_object_get(line, "content"));
    bool good = json_array_size(asked) > 0;
    strbuf_clear(text);
    if (good) {
        json_array_remove(asked, json_array_size(asked) - 1);
        jsonio_line(text, asked);
    }
    json_decref(asked);
    return good;
}

bool run_record_prompts(char hex[DIGEST_HEX], const RunRecord *record, int64_t step, Arena *arena, Error *error) {
    Records lines = {0};
    StrBuf all = {0}, before = {0}, prompt = {0};
    const char *path = arena_format(arena, "%s/train_data_step%lld.jsonl", record->folder, (long long)step);
    bool good = records_open(&lines, path, arena, error);
    strbuf_clear(&all), strbuf_clear(&before);
    for (int64_t i = 0; good && i < lines.count; i++) {
        json_t *line = NULL;
        good = records_row(&line, &lines, i, error);
        if (!good) break;
        good = put_prompt(&prompt, line) || error_set(error, "%s:%lld: expected a conversation under 'content'", path,
                                                      (long long)records_line(&lines, i));
        json_decref(line);
        if (!good || !strcmp(prompt.text, before.text)) continue;
        strbuf_puts(&all, prompt.text);
        StrBuf swap = before;
        before = prompt, prompt = swap;
    }
    digest_bytes(hex, all.text, all.length);
    strbuf_close(&all), strbuf_close(&before), strbuf_close(&prompt);
    records_close(&lines);
    return good;
}
