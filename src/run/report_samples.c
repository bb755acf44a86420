#include "run/report_samples.h"

#include "base/int64.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- steps

static int compare_steps(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Whether name is PREFIX<step>.jsonl.
static bool is_step(int64_t *step, const char *name, const char *prefix) {
    size_t length = strlen(prefix);
    char *end;
    if (strncmp(name, prefix, length) || name[length] < '0' || name[length] > '9') return false;
    *step = strtoll(name + length, &end, 10);
    return !strcmp(end, ".jsonl");
}

int64_t *report_samples_steps(int64_t *count, const char *folder, const char *prefix, Arena *arena) {
    StrBuf steps = {0};
    DIR *listing = opendir(folder);
    int64_t step;
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        if (is_step(&step, entry->d_name, prefix)) strbuf_append(&steps, &step, sizeof step);
    if (listing) closedir(listing);
    *count = (int64_t)(steps.length / sizeof step);
    int64_t *sorted = *count ? (int64_t *)(void *)arena_bytes(arena, steps.text, steps.length) : NULL;
    if (sorted) qsort(sorted, (size_t)*count, sizeof *sorted, compare_steps);
    strbuf_close(&steps);
    return sorted;
}

// ---- chunks

static int64_t put_chunk(const ReportSamples *samples, const char *text, size_t size) {
    int64_t number = (*samples->chunk)++;
    strbuf_format(samples->chunks, "<script type=\"application/json\" id=\"chunk%lld\">", (long long)number);
    strbuf_append(samples->chunks, text, size);
    strbuf_puts(samples->chunks, "</script>\n");
    return number;
}

static int64_t put_json(const ReportSamples *samples, const json_t *value) {
    StrBuf text = {0};
    report_json_put(&text, value);
    int64_t number = put_chunk(samples, text.text, text.length);
    strbuf_close(&text);
    return number;
}

// A number, or the text that jsonio_real makes of one that is not finite; else null.
static json_t *number_of(const json_t *line, const char *key) {
    json_t *value = json_object_get(line, key);
    return json_is_number(value) || json_is_string(value) ? json_incref(value) : json_null();
}

static double real_of(const json_t *value) {
    const char *text = json_string_value(value);
    if (json_is_number(value)) return json_number_value(value);
    return text && !strcmp(text, "-inf") ? -INFINITY : text && !strcmp(text, "inf") ? INFINITY : (double)NAN;
}

static json_t *text_of(const json_t *message) {
    json_t *content = json_object_get(message, "content");
    if (json_is_string(content)) return json_incref(content);
    StrBuf text = {0}; // a list of parts, or what else stands there
    if (content) report_json_put(&text, content);
    json_t *shown = json_stringn(text.text ? text.text : "", text.length);
    strbuf_close(&text);
    return shown;
}

// Parts "content" into the messages before the answer, [[role, text], …], and the answer. New references.
static void split_messages(json_t **prompt, json_t **answer, const json_t *line) {
    const json_t *messages = json_object_get(line, "content");
    size_t count = json_array_size(messages);
    const json_t *last = count ? json_array_get(messages, count - 1) : NULL;
    const char *role = json_string_value(json_object_get(last, "role"));
    bool answered = role && !strcmp(role, "assistant");
    *prompt = json_array();
    for (size_t i = 0; i < count - answered; i++) {
        const json_t *message = json_array_get(messages, i);
        json_t *speaker = json_object_get(message, "role");
        json_array_append_new(
            *prompt,
            json_pack("[o, o]", json_is_string(speaker) ? json_incref(speaker) : json_string(""), text_of(message)));
    }
    *answer = answered ? text_of(last) : json_string("");
}

// ---- tokens of an answer

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// UTF-16 units of the next bytes of a text, which are whole characters.
static int64_t units(const char *text, int64_t bytes) {
    int64_t count = 0;
    for (int64_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)text[i];
        count += ((byte & 0xc0) != 0x80) + (byte >= 0xf0);
    }
    return count;
}

static json_t *marks_of(const json_t *line, const json_t *answer) {
    const json_t *lengths = json_object_get(line, "token_bytes");
    const char *text = json_string_value(answer);
    int64_t left = (int64_t)json_string_length(answer);
    StrBuf marks = {0};
    for (size_t i = 0; i < json_array_size(lengths); i++) {
        int64_t bytes = int64_smaller(left, int64_larger(0, json_integer_value(json_array_get(lengths, i))));
        int64_t count = units(text, bytes);
        text += bytes, left -= bytes;
        for (; count >= 63; count -= 63) strbuf_putc(&marks, digits[63]);
        strbuf_putc(&marks, digits[count]);
    }
    json_t *value = json_string(marks.text ? marks.text : "");
    strbuf_close(&marks);
    return value;
}

static int code_of(double logprob) {
    if (isnan(logprob)) return 4095;
    if (isinf(logprob)) return logprob < 0 ? 4094 : 4095;
    return (int)lround(fmin(sqrt(fmax(-logprob, 0) / 40), 1) * 4000);
}

// What of the tokens the page shows; the answer begins where token_loss_mask does.
typedef struct Tokens {
    int64_t count;
    double advantage, logprob; // means
    json_t *codes;
} Tokens;

static Tokens tokens_of(const json_t *line) {
    const json_t *mask = json_object_get(line, "token_loss_mask");
    const json_t *logprobs = json_object_get(line, "generation_logprobs");
    const json_t *advantages = json_object_get(line, "advantages");
    Tokens tokens = {0};
    StrBuf codes = {0};
    for (size_t t = 0; t < json_array_size(mask); t++) {
        if (real_of(json_array_get(mask, t)) == 0) continue;
        double logprob = real_of(json_array_get(logprobs, t));
        int code = code_of(logprob);
        strbuf_putc(&codes, digits[code / 64]);
        strbuf_putc(&codes, digits[code % 64]);
        tokens.advantage += real_of(json_array_get(advantages, t)), tokens.logprob += logprob, tokens.count++;
    }
    if (tokens.count) tokens.advantage /= (double)tokens.count, tokens.logprob /= (double)tokens.count;
    tokens.codes = json_string(codes.text ? codes.text : "");
    strbuf_close(&codes);
    return tokens;
}

// ---- rollouts

static const char *const columns[] = {"prompt", "reward", "advantage", "length", "logprob", "finish", "kept"};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void add(json_t *object, const char *key, json_t *value) {
    json_array_append_new(json_object_get(object, key), value);
}

// One line, into the columns of its file and the chunk.
static void add_rollout(json_t *part, json_t *chunk, json_t *seen, const json_t *line) {
    json_t *prompt, *answer;
    split_messages(&prompt, &answer, line);
    Tokens tokens = tokens_of(line);
    const json_t *kept = json_object_get(line, "sample_loss_mask");
    add(part, "prompt", json_integer(report_json_intern(json_object_get(chunk, "prompts"), seen, prompt)));
    add(part, "reward", number_of(line, "rewards"));
    add(part, "advantage", jsonio_real(tokens.count ? tokens.advantage : (double)NAN));
    add(part, "length", json_integer(tokens.count));
    add(part, "logprob", jsonio_real(tokens.count ? tokens.logprob : (double)NAN));
    add(part, "finish", number_of(line, "finish_reason"));
    add(part, "kept", json_integer(!kept || real_of(kept) != 0));
    add(chunk, "marks", marks_of(line, answer));
    add(chunk, "logprobs", tokens.codes);
    add(chunk, "texts", answer);
    json_decref(prompt);
}

// What a file holds: the columns, "chunk" as text and "notes". New reference.
static json_t *read_rollouts(const char *path, const char *name) {
    Error error;
    ReportJsonLines lines;
    StrBuf text = {0};
    json_t *part = json_object(), *notes = json_array(), *seen = json_object();
    json_t *chunk = json_pack("{s:[], s:[], s:[], s:[]}", "prompts", "texts", "marks", "logprobs");
    for (int i = 0; i < COLUMNS; i++) json_object_set_new(part, columns[i], json_array());
    if (report_json_lines_open(&lines, path, &error)) {
        for (json_t *line; (line = report_json_lines_next(&lines)); json_decref(line))
            add_rollout(part, chunk, seen, line);
        report_json_lines_close(&lines, name, notes);
    } else {
        report_json_note(notes, "%s", error.text);
    }
    report_json_put(&text, chunk);
    json_object_set_new(part, "chunk", json_stringn(text.text, text.length));
    json_object_set_new(part, "notes", notes);
    strbuf_close(&text);
    json_decref(chunk);
    json_decref(seen);
    return part;
}

// The same, read once as long as the file stays as it is. New reference.
static json_t *known_rollouts(const ReportSamples *s, const char *path, const char *name) {
    Error ignored;
    FileStamp stamp = {0};
    Arena arena = {0};
    json_t *entry = s->known ? json_object_get(s->known, path) : NULL, *part = json_object_get(entry, "part");
    file_stamp(&stamp, path, &ignored);
    const char *now = arena_format(&arena, "%llu %llu %lld", (unsigned long long)stamp.inode,
                                   (unsigned long long)stamp.size, (long long)stamp.nanoseconds);
    const char *then = json_string_value(json_object_get(entry, "stamp"));
    if (then && !strcmp(then, now)) {
        json_incref(part);
    } else {
        part = read_rollouts(path, name);
        if (s->known) json_object_set_new(s->known, path, json_pack("{s:s, s:O}", "stamp", now, "part", part));
    }
    arena_close(&arena);
    return part;
}

int64_t report_samples_size(const ReportSamples *s, int64_t step) {
    Arena arena = {0};
    const char *name = arena_format(&arena, "train_data_step%lld.jsonl", (long long)step);
    json_t *part = known_rollouts(s, arena_format(&arena, "%s/%s", s->folder, name), name);
    int64_t size = (int64_t)json_string_length(json_object_get(part, "chunk"));
    json_decref(part);
    arena_close(&arena);
    return size;
}

json_t *report_samples_rollouts(const ReportSamples *s, const int64_t *steps, int64_t count) {
    Arena arena = {0};
    json_t *all = json_pack("{s:[], s:[], s:[]}", "steps", "chunks", "first");
    for (int i = 0; i < COLUMNS; i++) json_object_set_new(all, columns[i], json_array());
    for (int64_t i = 0; i < count; i++) {
        const char *name = arena_format(&arena, "train_data_step%lld.jsonl", (long long)steps[i]);
        json_t *part = known_rollouts(s, arena_format(&arena, "%s/%s", s->folder, name), name);
        const json_t *text = json_object_get(part, "chunk");
        json_array_extend(s->notes, json_object_get(part, "notes"));
        if (json_array_size(json_object_get(part, "reward"))) {
            add(all, "steps", json_integer(steps[i]));
            add(all, "first", json_integer((json_int_t)json_array_size(json_object_get(all, "reward"))));
            add(all, "chunks", json_integer(put_chunk(s, json_string_value(text), json_string_length(text))));
            for (int c = 0; c < COLUMNS; c++)
                json_array_extend(json_object_get(all, columns[c]), json_object_get(part, columns[c]));
        }
        json_decref(part);
    }
    arena_close(&arena);
    return all;
}

// ---- validations

static json_t *validation(const ReportSamples *s, json_t *questions, json_t *seen, int64_t step) {
    Error error;
    ReportJsonLines lines;
    Arena arena = {0};
    char name[64];
    snprintf(name, sizeof name, "val_data_step%lld.jsonl", (long long)step);
    bool good = report_json_lines_open(&lines, arena_format(&arena, "%s/%s", s->folder, name), &error);
    arena_close(&arena);
    if (!good) {
        report_json_note(s->notes, "%s", error.text);
        return NULL;
    }
    json_t *answers = json_array(), *question = json_array(), *sample = json_array(), *reward = json_array(),
           *length = json_array(), *finish = json_array();
    for (json_t *line, *prompt, *answer; (line = report_json_lines_next(&lines)); json_decref(line)) {
        split_messages(&prompt, &answer, line);
        json_array_append_new(question, json_integer(report_json_intern(questions, seen, prompt)));
        json_array_append_new(answers, answer);
        json_array_append_new(sample, number_of(line, "sample"));
        json_array_append_new(reward, number_of(line, "rewards"));
        json_array_append_new(length, number_of(line, "length"));
        json_array_append_new(finish, number_of(line, "finish_reason"));
        json_decref(prompt);
    }
    report_json_lines_close(&lines, name, s->notes);
    int64_t chunk = put_json(s, answers);
    json_decref(answers);
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "step", (json_int_t)step, "chunk", (json_int_t)chunk,
                     "question", question, "sample", sample, "reward", reward, "length", length, "finish", finish);
}

json_t *report_samples_validations(const ReportSamples *s, const int64_t *steps, int64_t count) {
    json_t *list = json_array(), *questions = json_array(), *seen = json_object();
    for (int64_t i = 0; i < count; i++) {
        json_t *one = validation(s, questions, seen, steps[i]);
        if (one) json_array_append_new(list, one);
    }
    int64_t chunk = put_json(s, questions);
    json_decref(questions);
    json_decref(seen);
    return json_pack("{s:I, s:o}", "questions", (json_int_t)chunk, "list", list);
}
