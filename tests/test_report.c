// run/report: what a page holds of the files of a run, that no text can end its script elements, that damaged and missing files
// are named and the rest is shown.
#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "run/report.h"
#include "run/report_run.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static Arena arena;
static Error error;
static char folder[64];

static const char *path(const char *name) {
    return arena_format(&arena, "%s/%s", folder, name);
}

static void require(bool good) {
    if (!good) fail_msg("%s", error.text);
}

static void write_text(const char *name, const char *text) {
    require(file_write(path(name), text, strlen(text), &error));
}

static int setup(void **state) {
    (void)state;
    log_set_level(LOG_QUIET);
    snprintf(folder, sizeof folder, "/tmp/whet-report-%d", (int)getpid());
    return file_make_folders(folder, &error) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    file_remove_tree(folder, &error);
    arena_close(&arena);
    return 0;
}

#define QUESTION "{\"role\":\"user\",\"content\":\"What is 1 + 2?\"}"

// A run of two steps in folder/name.
static void write_run(const char *name) {
    require(file_make_folders(path(name), &error));
    write_text(arena_format(&arena, "%s/metrics.jsonl", name),
               "{\"step\":0,\"validation/accuracy\":0.5}\n"
               "{\"step\":1,\"train/reward\":0.25,\"train/grad_norm\":\"nan\"}\n"
               "{\"step\":2,\"train/reward\":0.75,\"train/grad_norm\":\"-inf\"}\n");
    write_text(
        arena_format(&arena, "%s/memory.json", name),
        "[\n{\"step\":1,\"rank\":0,\"peak_memory_allocated_mb\":2.0,\"process_peak_mb\":9.0,\"at_peak\":{\"logits\":7},"
        "\"peak_by_tag\":{\"logits\":7},\"peak_by_phase\":{\"rollout\":{\"total\":7,\"logits\":7}}},\n"
        "{\"step\":2,\"rank\":0,\"peak_memory_allocated_mb\":2.0,\"process_peak_mb\":9.0,\"at_peak\":{\"logits\":7},"
        "\"peak_by_tag\":{\"logits\":7},\"peak_by_phase\":{\"rollout\":{\"total\":7,\"logits\":7}}}\n]\n");
    write_text(arena_format(&arena, "%s/environment.json", name), "{\"threads\":2,\"system\":{\"name\":\"Linux\"}}");
    write_text(arena_format(&arena, "%s/config.yaml", name),
               "grpo: {seed: 42}\npolicy: {scheduler: [{name: a}, {name: b}], empty: {}, none: null}\n");
    write_text(arena_format(&arena, "%s/val_data_step0.jsonl", name),
               "{\"idx\":0,\"content\":[" QUESTION ",{\"role\":\"assistant\",\"content\":\"3\"}],\"sample\":0,"
               "\"rewards\":1.0,\"length\":2,\"finish_reason\":\"stop\"}\n"
               "{\"idx\":0,\"content\":[" QUESTION ",{\"role\":\"assistant\",\"content\":\"?\"}],\"sample\":1,"
               "\"rewards\":null,\"length\":2,\"finish_reason\":\"stop\"}\n");
    for (int step = 1; step <= 2; step++)
        write_text(arena_format(&arena, "%s/train_data_step%d.jsonl", name, step),
                   "{\"content\":[" QUESTION ",{\"role\":\"assistant\",\"content\":\"né 😀\"}],\"rewards\":1.0,"
                   "\"advantages\":[0,0.5,0.5,0.5],\"finish_reason\":\"stop\",\"sample_loss_mask\":1.0,"
                   "\"token_loss_mask\":[0,1,1,1],\"token_bytes\":[3,5,0],"
                   "\"generation_logprobs\":[0,-0.4,\"nan\",\"-inf\"]}\n"
                   "{\"content\":[" QUESTION ",{\"role\":\"assistant\",\"content\":\"4\"}],\"rewards\":\"nan\","
                   "\"advantages\":[0,-0.5],\"finish_reason\":\"length\",\"sample_loss_mask\":0.0,"
                   "\"token_loss_mask\":[0,1],\"generation_logprobs\":[0,-1]}\n");
}

// ---- a page read back

// The value of the script element with that id.
static json_t *element(const char *page, const char *id) {
    const char *begin = strstr(page, arena_format(&arena, "<script type=\"application/json\" id=\"%s\">", id));
    assert_non_null(begin);
    begin = strchr(begin, '>') + 1;
    const char *end = strstr(begin, "</script>");
    assert_non_null(end);
    json_error_t where;
    json_t *value = json_loadb(begin, (size_t)(end - begin), JSON_ALLOW_NUL, &where);
    if (!value) fail_msg("%s: %s", id, where.text);
    return value;
}

static char *page_of(const ReportRun *runs, int count, const ReportOptions *options) {
    char *page;
    require(report_write(path("page.html"), runs, count, options, &error));
    require(file_read(&page, NULL, &arena, path("page.html"), &error));
    return page;
}

static const ReportOptions plain = {.rollout_steps = -1};

static const char *text_of(const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *copy = arena_string(&arena, text ? text : "nothing");
    free(text);
    return copy;
}

static const json_t *at(const json_t *value, const char *key) {
    return json_object_get(value, key);
}

static json_t *run_of(const json_t *data, size_t index) {
    return json_array_get(at(data, "runs"), index);
}

static void test_files_become_columns(void **state) {
    (void)state;
    write_run("plain");
    char *page = page_of(&(ReportRun){.folder = path("plain")}, 1, &plain);
    json_t *data = element(page, "data"), *run = run_of(data, 0);
    assert_string_equal(json_string_value(at(run, "name")), "plain");
    assert_string_equal(text_of(at(run, "notes")), "[]");
    assert_string_equal(text_of(at(run, "metrics")),
                        "{\"steps\":[0,1,2],\"columns\":{\"validation/accuracy\":[0.5,null,null],"
                        "\"train/reward\":[null,0.25,0.75],\"train/grad_norm\":[null,\"nan\",\"-inf\"]}}");
    assert_string_equal(text_of(at(at(run, "memory"), "list")), "[[1,0,2.0,9.0,0],[2,0,2.0,9.0,0]]");
    assert_int_equal(json_array_size(at(at(run, "memory"), "profiles")), 1);
    assert_string_equal(text_of(at(run, "config")),
                        "{\"grpo.seed\":\"42\",\"policy.scheduler.0.name\":\"a\",\"policy.scheduler.1.name\":\"b\","
                        "\"policy.empty\":\"{}\",\"policy.none\":\"null\"}");
    assert_int_equal(json_integer_value(at(at(run, "environment"), "threads")), 2);
    json_decref(data);
}

static void test_samples_become_columns_and_chunks(void **state) {
    (void)state;
    write_run("samples");
    char *page = page_of(&(ReportRun){.folder = path("samples")}, 1, &plain);
    json_t *data = element(page, "data"), *run = run_of(data, 0);
    const json_t *rollouts = at(run, "rollouts");
    assert_string_equal(text_of(at(rollouts, "steps")), "[1,2]");
    assert_string_equal(text_of(at(rollouts, "first")), "[0,2]");
    assert_string_equal(text_of(at(rollouts, "reward")), "[1.0,\"nan\",1.0,\"nan\"]");
    assert_string_equal(text_of(at(rollouts, "advantage")), "[0.5,-0.5,0.5,-0.5]");
    assert_string_equal(text_of(at(rollouts, "length")), "[3,1,3,1]");
    assert_string_equal(text_of(at(rollouts, "logprob")), "[\"nan\",-1.0,\"nan\",-1.0]");
    assert_string_equal(text_of(at(rollouts, "kept")), "[1,0,1,0]");
    assert_string_equal(text_of(at(rollouts, "prompt")), "[0,0,0,0]");
    json_t *chunk = element(page, "chunk1");
    assert_string_equal(text_of(at(chunk, "prompts")), "[[[\"user\",\"What is 1 + 2?\"]]]");
    assert_string_equal(text_of(at(chunk, "texts")), "[\"né 😀\",\"4\"]");
    // 2, 3 and 0 UTF-16 units; −0.4 is code 400, NaN 4095, −inf 4094. The second answer is not told apart.
    assert_string_equal(text_of(at(chunk, "marks")), "[\"CDA\",\"\"]");
    assert_string_equal(text_of(at(chunk, "logprobs")), "[\"GQ___-\",\"J4\"]");
    json_decref(chunk);
    const json_t *one = json_array_get(at(at(run, "validations"), "list"), 0);
    assert_string_equal(text_of(at(one, "question")), "[0,0]");
    assert_string_equal(text_of(at(one, "reward")), "[1.0,null]");
    json_t *answers = element(page, arena_format(&arena, "chunk%d", (int)json_integer_value(at(one, "chunk"))));
    assert_string_equal(text_of(answers), "[\"3\",\"?\"]");
    json_decref(answers);
    json_decref(data);
}

static int count_of(const char *page, const char *word) {
    int count = 0;
    for (const char *found = page; (found = strstr(found, word)); found++) count++;
    return count;
}

// Whatever a model says, the page has the script elements that it has for harmless texts, and the text comes back as it was.
static void test_hostile_texts_stay_texts(void **state) {
    (void)state;
    static const char *const hostile[] = {"</script><script>alert(1)</script>",
                                          "<!-- <script>",
                                          "<![CDATA[",
                                          "</style></textarea>",
                                          "\"},{\"'`${x}",
                                          "\xe2\x80\xa8\xe2\x80\xa9",
                                          "\xe2\x80\xae evil",
                                          "&lt;b&gt;&amp;"};
    write_run("hostile");
    int before = count_of(page_of(&(ReportRun){.folder = path("hostile")}, 1, &plain), "<script");
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        json_t *text =
            json_pack("{s:[{s:s, s:s}, {s:s, s:s}], s:f, s:s}", "content", "role", hostile[i], "content", hostile[i],
                      "role", "assistant", "content", hostile[i], "rewards", 1.0, "finish_reason", hostile[i]);
        json_t *metric = json_pack("{s:i, s:f}", "step", 1, hostile[i], 1.0);
        json_t *place = json_pack("{s:s}", hostile[i], hostile[i]);
        StrBuf line = {0};
        jsonio_line(&line, text);
        write_text("hostile/train_data_step1.jsonl", line.text);
        write_text("hostile/val_data_step0.jsonl", line.text);
        strbuf_clear(&line);
        jsonio_line(&line, metric);
        write_text("hostile/metrics.jsonl", line.text);
        require(jsonio_write(place, path("hostile/environment.json"), &error));
        json_t *summary;
        require(jsonio_read(&summary, "docs/experiments/fsdp-output-dtype/summary.json", &error));
        json_object_set_new(summary, "key", json_string(hostile[i]));
        json_object_update(summary, place);
        require(jsonio_write(summary, path("hostile/summary.json"), &error));
        json_decref(summary);
        char *page = page_of(
            &(ReportRun){.folder = path("hostile"), .name = hostile[i]}, 1,
            &(ReportOptions){.rollout_steps = -1, .title = hostile[i], .summary = path("hostile/summary.json")});
        assert_int_equal(count_of(page, "<script"), before);
        assert_int_equal(count_of(page, "</script"), before);
        assert_int_equal(count_of(page, "alert(1)") > 0, i == 0);
        json_t *data = element(page, "data"), *chunk = element(page, "chunk0");
        assert_string_equal(json_string_value(json_array_get(at(chunk, "texts"), 0)), hostile[i]);
        assert_string_equal(json_string_value(at(run_of(data, 0), "name")), hostile[i]);
        assert_string_equal(json_string_value(at(at(data, "summary"), "key")), hostile[i]);
        json_decref(data);
        json_decref(chunk);
        json_decref(text);
        json_decref(metric);
        json_decref(place);
        strbuf_close(&line);
    }
    write_text("hostile/train_data_step1.jsonl",
               "{\"content\":[{\"role\":\"assistant\",\"content\":\"a\\u0000b\"}],\"rewards\":1}\n");
    json_t *chunk = element(page_of(&(ReportRun){.folder = path("hostile")}, 1, &plain), "chunk0");
    assert_int_equal(json_string_length(json_array_get(at(chunk, "texts"), 0)), 3);
    json_decref(chunk);
}

static bool is_noted(const json_t *run, const char *words) {
    return strstr(text_of(at(run, "notes")), words) != NULL;
}

static void test_damage_is_named(void **state) {
    (void)state;
    write_run("damaged");
    write_text("damaged/metrics.jsonl", "{\"step\":1,\"train/reward\":0.5}\n{\"step\":2,\"train/re");
    write_text("damaged/memory.json", "[\n{\"step\":1,\"rank\":0},\n{\"step\":2,\"ra");
    write_text("damaged/config.yaml", "grpo: [1,\n");
    write_text("damaged/train_data_step2.jsonl", "no JSON\n{\"rewards\":1}\n[]\n");
    write_text("damaged/val_data_step0.jsonl", "");
    require(file_remove_tree(path("damaged/environment.json"), &error) &&
            file_remove_tree(path("damaged/train_data_step1.jsonl"), &error));
    json_t *data = element(page_of(&(ReportRun){.folder = path("damaged")}, 1, &plain), "data"), *run = run_of(data, 0);
    assert_string_equal(text_of(at(at(run, "metrics"), "columns")), "{\"train/reward\":[0.5]}");
    assert_int_equal(json_array_size(at(at(run, "memory"), "list")), 1);
    assert_string_equal(text_of(at(at(run, "rollouts"), "reward")), "[1]");
    static const char *const said[] = {
        "metrics.jsonl: line 2 is damaged or cut short",
        "memory.json:",
        "config.yaml:",
        "environment.json is missing",
        "train_data_step1.jsonl is missing",
        "train_data_step2.jsonl: 2 damaged lines are left out, the first is line 1",
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!is_noted(run, said[i])) fail_msg("not said: %s; but %s", said[i], text_of(at(run, "notes")));
    json_decref(data);
    // What has other types than expected is shown as far as it goes.
    write_text(
        "damaged/train_data_step1.jsonl",
        "{\"content\":\"text\",\"rewards\":[1],\"token_loss_mask\":{\"a\":1},\"token_bytes\":[-1,99]}\n"
        "{\"content\":[3,{\"role\":4,\"content\":[{\"type\":\"text\"}]},{\"role\":\"assistant\",\"content\":\"x\"}],"
        "\"token_loss_mask\":[1,1],\"token_bytes\":[-5,9000000000,1]}\n");
    write_text("damaged/memory.json", "{\"step\":1}");
    write_text("damaged/environment.json", "[1]");
    data = element(page_of(&(ReportRun){.folder = path("damaged")}, 1, &plain), "data");
    assert_int_equal(json_array_size(at(at(run_of(data, 0), "rollouts"), "reward")), 3);
    json_decref(data);
}

// What a run is just writing is no damage.
static void test_what_goes_on_is_not_damaged(void **state) {
    (void)state;
    int lock;
    write_run("going");
    write_text("going/metrics.jsonl", "{\"step\":1,\"train/reward\":0.5}\n{\"step\":2,\"train/re");
    write_text("going/memory.json", "[\n{\"step\":1,\"rank\":0},\n{\"step\":2,\"ra");
    for (int locked = 0; locked < 2; locked++) {
        if (locked) require(file_lock(&lock, path("going/.lock"), &error));
        json_t *data = element(page_of(&(ReportRun){.folder = path("going")}, 1, &plain), "data"),
               *run = run_of(data, 0);
        assert_int_equal(json_array_size(at(at(run, "memory"), "list")), 1);
        assert_int_equal(is_noted(run, "memory.json"), !locked);
        assert_int_equal(is_noted(run, "metrics.jsonl"), !locked);
        json_decref(data);
    }
    file_unlock(&lock);
}

// A folder that this process may not open.
static void refuse_unreadable(void) {
    require(file_make_folders(path("closed"), &error) && chmod(path("closed"), 0) == 0);
    bool root = geteuid() == 0 && seteuid(65534) == 0; // whom nothing stops
    const char *found;
    bool opened = report_folder(&found, path("closed"), &arena, &error);
    if (root) assert_int_equal(seteuid(0), 0);
    require(chmod(path("closed"), 0700) == 0);
    assert_false(opened);
    assert_non_null(strstr(error.text, "closed: cannot open: Permission denied"));
}

static void test_refusals(void **state) {
    (void)state;
    refuse_unreadable();
    require(file_make_folders(path("empty"), &error));
    assert_false(report_write(path("none.html"), &(ReportRun){.folder = path("empty")}, 1, &plain, &error));
    assert_non_null(strstr(error.text, "empty: holds nothing of a run"));
    assert_false(report_write(path("none.html"), &(ReportRun){.folder = path("missing")}, 1, &plain, &error));
    assert_non_null(strstr(error.text, "missing: no folder of a run"));
    write_run("good");
    ReportOptions options = {.rollout_steps = -1, .summary = path("missing.json")};
    assert_false(report_write(path("none.html"), &(ReportRun){.folder = path("good")}, 1, &options, &error));
    assert_non_null(strstr(error.text, "missing.json"));
    write_text("good/wrong.json", "{\"key\":1}");
    options.summary = path("good/wrong.json");
    assert_false(report_write(path("none.html"), &(ReportRun){.folder = path("good")}, 1, &options, &error));
    assert_non_null(strstr(error.text, "wrong.json: no summary of a comparison: 'key' is missing or of another kind"));
    options.summary = "docs/experiments/fsdp-output-dtype/plan.json";
    assert_false(report_write(path("none.html"), &(ReportRun){.folder = path("good")}, 1, &options, &error));
    assert_non_null(strstr(error.text, "plan.json: a plan; expected summary.json of `whet compare`"));
    assert_false(file_exists(path("none.html")));
}

static void test_names_differ(void **state) {
    (void)state;
    write_run("one/x/logs");
    write_run("two/x/logs");
    ReportRun runs[] = {{.folder = path("one/x//")},
                        {.folder = path("two/x/logs/")},
                        {.folder = path("two/x"), .name = "mine"}};
    json_t *data = element(page_of(runs, 2, &plain), "data");
    assert_string_not_equal(json_string_value(at(run_of(data, 0), "name")),
                            json_string_value(at(run_of(data, 1), "name")));
    json_decref(data);
    data = element(page_of(runs + 2, 1, &plain), "data");
    assert_string_equal(json_string_value(at(run_of(data, 0), "name")), "mine");
    json_decref(data);
}

static const char *steps_shown(int64_t wanted) {
    ReportOptions options = {.rollout_steps = wanted};
    json_t *data = element(page_of(&(ReportRun){.folder = path("many")}, 1, &options), "data"), *run = run_of(data, 0);
    const char *steps = text_of(at(at(run, "rollouts"), "steps"));
    assert_int_equal(is_noted(run, "the page holds the rollouts of"), wanted >= 0 && wanted < 11);
    json_decref(data);
    return steps;
}

static void test_rollouts_are_spread(void **state) {
    (void)state;
    require(file_make_folders(path("many"), &error));
    for (int step = 0; step <= 10; step++)
        write_text(arena_format(&arena, "many/train_data_step%d.jsonl", step), "{\"rewards\":1}\n");
    write_text("many/train_data_step.jsonl", "");
    write_text("many/train_data_step7.jsonl.tmp", "");
    assert_string_equal(steps_shown(-1), "[0,1,2,3,4,5,6,7,8,9,10]");
    assert_string_equal(steps_shown(11), "[0,1,2,3,4,5,6,7,8,9,10]");
    assert_string_equal(steps_shown(3), "[0,5,10]");
    assert_string_equal(steps_shown(1), "[10]");
    assert_string_equal(steps_shown(0), "nothing");
}

// Steps that a page with so much room for them holds.
static size_t steps_within(int64_t budget) {
    StrBuf chunks = {0};
    int64_t chunk = 0;
    json_t *run, *notes = json_array();
    ReportSamples samples = {.folder = path("heavy"),
                             .chunks = &chunks,
                             .chunk = &chunk,
                             .notes = notes,
                             .budget = budget};
    require(report_run_collect(&run, &samples, "heavy", -1, &error));
    size_t steps = json_array_size(at(at(run, "rollouts"), "steps"));
    assert_int_equal(is_noted(run, "the page holds the rollouts of"), steps < 20);
    json_decref(run);
    json_decref(notes);
    strbuf_close(&chunks);
    return steps;
}

static void test_rollouts_keep_to_the_room_there_is(void **state) {
    (void)state;
    require(file_make_folders(path("heavy"), &error));
    for (int step = 1; step <= 20; step++)
        write_text(
            arena_format(&arena, "heavy/train_data_step%d.jsonl", step),
            arena_format(&arena,
                         "{\"content\":[{\"role\":\"assistant\",\"content\":\"%01000d\"}],\"other\":\"%05000d\"}\n", 0,
                         0));
    assert_int_equal(steps_within(1 << 20), 20);
    assert_int_equal(steps_within(25000), 20); // the files are larger, what the page takes of them is not
    size_t half = steps_within(11000);
    assert_in_range(half, 9, 11);
    assert_int_equal(steps_within(1), 1);
}

// A page that is written again holds what one that is written at once does.
static void test_known_files_are_read_again_when_they_change(void **state) {
    (void)state;
    write_run("watched");
    json_t *known = json_object();
    ReportOptions options = {.rollout_steps = -1, .known = known};
    ReportRun run = {.folder = path("watched")};
    page_of(&run, 1, &options);
    for (int change = 0; change < 2; change++) {
        if (change) write_text("watched/train_data_step2.jsonl", "{\"rewards\":0.125}\n");
        json_t *again = element(page_of(&run, 1, &options), "data"), *fresh = element(page_of(&run, 1, &plain), "data");
        assert_string_equal(text_of(at(again, "runs")), text_of(at(fresh, "runs")));
        assert_int_equal(strstr(text_of(at(again, "runs")), "0.125") != NULL, change);
        json_decref(again);
        json_decref(fresh);
    }
    json_decref(known);
}

static void test_long_tokens(void **state) {
    (void)state;
    require(file_make_folders(path("long"), &error));
    write_text(
        "long/train_data_step1.jsonl",
        arena_format(&arena,
                     "{\"content\":[{\"role\":\"assistant\",\"content\":\"%0130d\"}],\"token_loss_mask\":[1,1,1],"
                     "\"token_bytes\":[63,64,3],\"generation_logprobs\":[-100,0,0.5]}\n",
                     0));
    json_t *chunk = element(page_of(&(ReportRun){.folder = path("long")}, 1, &plain), "chunk0");
    assert_string_equal(text_of(at(chunk, "marks")), "[\"_A_BD\"]");
    assert_string_equal(text_of(at(chunk, "logprobs")), "[\"-gAAAA\"]");
    json_decref(chunk);
}

static void test_locked_by_another(void **state) {
    (void)state;
    int lock, ready[2], end[2];
    assert_false(file_locked(path("lock")));
    assert_int_equal(pipe(ready) | pipe(end), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(end[1]);
        bool good = file_lock(&lock, path("lock"), &error);
        _exit(good && write(ready[1], "", 1) == 1 && read(end[0], &byte, 1) == 0 ? 0 : 1);
    }
    char byte;
    int status;
    close(end[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_true(file_locked(path("lock")));
    close(end[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(file_locked(path("lock")));
    require(file_lock(&lock, path("lock"), &error));
    file_unlock(&lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_become_columns),
        cmocka_unit_test(test_samples_become_columns_and_chunks),
        cmocka_unit_test(test_hostile_texts_stay_texts),
        cmocka_unit_test(test_damage_is_named),
        cmocka_unit_test(test_what_goes_on_is_not_damaged),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names_differ),
        cmocka_unit_test(test_rollouts_are_spread),
        cmocka_unit_test(test_rollouts_keep_to_the_room_there_is),
        cmocka_unit_test(test_known_files_are_read_again_when_they_change),
        cmocka_unit_test(test_long_tokens),
        cmocka_unit_test(test_locked_by_another),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
