// The base room: memory, strings, files, JSON, randomness, errors.
#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/strbuf.h"

#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// The folder that each test of files works in; made by its setup, removed by its teardown.
static int folder_open(void **state) {
    static char folder[64];
    snprintf(folder, sizeof folder, "/tmp/whet-test-base-XXXXXX");
    *state = mkdtemp(folder);
    return *state ? 0 : -1;
}

static int folder_close(void **state) {
    Error error;
    return file_remove_tree(*state, &error) ? 0 : -1;
}

static const char *in_folder(Arena *arena, void **state, const char *name) {
    return arena_format(arena, "%s/%s", (const char *)*state, name);
}

// Runs body in a child with a quiet stderr; returns the signal that ended it, or minus its exit status.
static int signal_of(void (*body)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

// ---- arena

static void test_arena_memory_is_zeroed_aligned_and_apart(void **state) {
    (void)state;
    Arena arena = {0};
    unsigned char *blocks[200];
    size_t size[200];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) {
            size[i] = (size_t)(i * 37 % 1500) + (i == 100 ? 300000 : 0);
            blocks[i] = arena_alloc(&arena, size[i]);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % 64, 0);
            for (size_t k = 0; k < size[i]; k++) assert_int_equal(blocks[i][k], 0);
            memset(blocks[i], i + 1, size[i]);
        }
        for (int i = 0; i < 200; i++)
            for (size_t k = 0; k < size[i]; k++) assert_int_equal(blocks[i][k], (unsigned char)(i + 1));
        arena_reset(&arena); // what is handed out next is zeroed again although it was written
    }
    arena_close(&arena);
    arena_close(&arena);
    arena_reset(&arena);
    assert_null(arena.newest);
}

static size_t mapped_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.hblkhd + info.uordblks;
}

// A template may use 256 MiB: blocks that doubled for ever asked the machine for twice as much.
static void test_arena_holds_little_more_than_it_was_asked_for(void **state) {
    (void)state;
    Arena arena = {0};
    size_t before = mapped_bytes();
    for (int i = 0; i < 1100; i++) arena_alloc(&arena, 100000);
    arena_alloc(&arena, 30 << 20);
    arena_alloc(&arena, 100000);
    size_t asked = (size_t)1101 * 100000 + (30 << 20), held = mapped_bytes() - before;
    arena_close(&arena);
    assert_true(held < asked + (40 << 20)); // the address sanitizer counts nothing
}

static void test_arena_reset_keeps_one_block(void **state) {
    (void)state;
    Arena arena = {0};
    for (int i = 0; i < 10; i++) arena_alloc(&arena, 100000);
    ArenaBlock *newest = arena.newest;
    arena_reset(&arena);
    assert_ptr_equal(arena.newest, newest);
    arena_alloc(&arena, 100000);
    assert_ptr_equal(arena.newest, newest);
    arena_close(&arena);
}

static void test_arena_strings(void **state) {
    (void)state;
    Arena arena = {0};
    assert_string_equal(arena_string(&arena, ""), "");
    assert_string_equal(arena_string(&arena, "gradient"), "gradient");
    char *bytes = arena_bytes(&arena, "a\0b", 3);
    assert_memory_equal(bytes, "a\0b\0", 4);
    assert_string_equal(arena_bytes(&arena, NULL, 0), "");
    assert_string_equal(arena_format(&arena, "%s-%05d", "step", 42), "step-00042");
    char *wide = arena_format(&arena, "%200000d", 7);
    assert_int_equal(strlen(wide), 200000);
    arena_close(&arena);
}

static void alloc_huge(void) {
    Arena arena = {0};
    arena_alloc(&arena, SIZE_MAX - 10);
}
static void alloc_overflowing_array(void) {
    Arena arena = {0};
    arena_array(&arena, double, SIZE_MAX / 8 + 2); // the product would wrap round to 8 bytes
}
static void alloc_negative_array(void) {
    Arena arena = {0};
    int count = -1;
    arena_array(&arena, int, count);
}
static void alloc_harmless(void) {
    Arena arena = {0};
    arena_array(&arena, double, 0);
    arena_close(&arena);
}

static void test_arena_refuses_sizes_that_overflow(void **state) {
    (void)state;
    assert_int_equal(signal_of(alloc_huge), SIGABRT);
    assert_int_equal(signal_of(alloc_overflowing_array), SIGABRT);
    assert_int_equal(signal_of(alloc_negative_array), SIGABRT);
    assert_int_equal(signal_of(alloc_harmless), 0);
}

// ---- error

static void check_broken(void) {
    CHECK(1 + 1 == 3, "%d", 2);
}
static void check_held(void) {
    CHECK(1 + 1 == 2, "%d", 2);
}

static void nothing_obtained(void) {
    OBTAINED(false, "%d bytes", 2);
}
static void something_obtained(void) {
    OBTAINED(true, "%d bytes", 2);
}

static void test_error_texts(void **state) {
    (void)state;
    Error error;
    assert_false(error_set(&error, "key %s: found %d", "lr", 3));
    assert_string_equal(error.text, "key lr: found 3");
    assert_false(error_prefix(&error, "%s:%d: ", "recipe.yaml", 7));
    assert_string_equal(error.text, "recipe.yaml:7: key lr: found 3");

    char long_text[3000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    error_set(&error, "%s", long_text);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    error_prefix(&error, "front: ");
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_memory_equal(error.text, "front: xxx", 10);
    error_prefix(&error, "%s", long_text);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);

    assert_int_equal(signal_of(check_broken), SIGABRT);
    assert_int_equal(signal_of(check_held), 0);
    assert_int_equal(signal_of(nothing_obtained), -1);
    assert_int_equal(signal_of(something_obtained), 0);
}

// ---- strbuf

static void test_strbuf_grows(void **state) {
    (void)state;
    StrBuf buffer = {0};
    strbuf_close(&buffer);
    strbuf_append(&buffer, NULL, 0);
    assert_string_equal(buffer.text, "");
    for (int i = 0; i < 1000; i++) {
        strbuf_puts(&buffer, "ab");
        strbuf_putc(&buffer, 'c');
        strbuf_format(&buffer, "%d", i % 10);
        assert_int_equal(buffer.length, 4 * (i + 1));
        assert_int_equal(buffer.text[buffer.length], 0);
    }
    assert_memory_equal(buffer.text, "abc0abc1abc2", 12);
    assert_string_equal(buffer.text + 3996, "abc9");
    strbuf_clear(&buffer);
    assert_int_equal(buffer.length, 0);
    assert_string_equal(buffer.text, "");
    strbuf_append(&buffer, "a\0b", 3);
    assert_int_equal(buffer.length, 3);
    assert_memory_equal(buffer.text, "a\0b\0", 4);
    strbuf_close(&buffer);
    assert_null(buffer.text);
    strbuf_clear(&buffer); // readable also when nothing was ever appended
    assert_string_equal(buffer.text, "");
    strbuf_close(&buffer);
}

static void test_strbuf_nearest(void **state) {
    (void)state;
    static const char *const names[] = {"learning_rate", "weight_decay", "max_grad_norm", "seed", "eps"};
    enum { COUNT = sizeof names / sizeof *names };
    assert_string_equal(strbuf_nearest("learning_rat", names, COUNT), "learning_rate");
    assert_string_equal(strbuf_nearest("lerning_rate", names, COUNT), "learning_rate");
    assert_string_equal(strbuf_nearest("weigth_decay", names, COUNT), "weight_decay");
    assert_string_equal(strbuf_nearest("seeed", names, COUNT), "seed");
    assert_string_equal(strbuf_nearest("seed", names, COUNT), "seed");
    assert_string_equal(strbuf_nearest("lear", names, COUNT), "learning_rate"); // as it begins, however much is missing
    assert_string_equal(strbuf_nearest("weight", names, COUNT), "weight_decay");
    assert_null(strbuf_nearest("max", names, COUNT));
    const char *const beginnings[] = {"top_k", "max_new_tokens", "max_length"};
    assert_null(strbuf_nearest("max_", beginnings, 3));
    const char *const twice[] = {"policy", "policy", "train", "transformers"};
    assert_string_equal(strbuf_nearest("poli", twice, 4), "policy");
    assert_string_equal(strbuf_nearest("tran", twice, 4), "train");
    assert_null(strbuf_nearest("temperature", names, COUNT));
    assert_null(strbuf_nearest("x", names, 0));
    char long_word[1000]; // past what is compared: no match, no overrun
    memset(long_word, 's', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = 0;
    assert_null(strbuf_nearest(long_word, names, COUNT));
    const char *long_names[] = {long_word};
    assert_null(strbuf_nearest("s", long_names, 1));
}

// ---- file

static void test_file_write_replaces_whole(void **state) {
    Arena arena = {0};
    Error error;
    const char *path = in_folder(&arena, state, "weights");
    char *text;
    size_t size;
    assert_false(file_exists(path));
    assert_true(file_write(path, "first\0version", 13, &error));
    assert_true(file_read(&text, &size, &arena, path, &error));
    assert_int_equal(size, 13);
    assert_memory_equal(text, "first\0version\0", 14);

    // Who reads the old file while it is replaced goes on to see all of the old one.
    FileMap map;
    assert_true(file_map(&map, path, &error));
    assert_true(file_write(path, "2nd", 3, &error));
    assert_memory_equal(map.data, "first\0version", 13);
    file_unmap(&map);
    file_unmap(&map);
    assert_true(file_read(&text, &size, &arena, path, &error));
    assert_int_equal(size, 3);
    assert_string_equal(text, "2nd");
    assert_false(file_exists(in_folder(&arena, state, "weights.tmp")));

    // A leftover of a run that was killed is overwritten.
    assert_true(file_write(in_folder(&arena, state, "weights.tmp"), "leftover that is longer", 23, &error));
    assert_true(file_write(path, "3rd", 3, &error));
    assert_true(file_read(&text, NULL, &arena, path, &error));
    assert_string_equal(text, "3rd");
    arena_close(&arena);
}

static void test_file_write_faults_leave_the_old(void **state) {
    Arena arena = {0};
    Error error;
    char *text;
    const char *missing = in_folder(&arena, state, "none/file");
    assert_false(file_write(missing, "x", 1, &error));
    assert_non_null(strstr(error.text, missing));
    assert_non_null(strstr(error.text, "No such file"));

    // A folder that stands in the place cannot be replaced, and nothing is left lying beside it but the old one.
    const char *taken = in_folder(&arena, state, "taken");
    assert_true(file_make_folders(in_folder(&arena, state, "taken/inner"), &error));
    assert_false(file_write(taken, "x", 1, &error));
    assert_non_null(strstr(error.text, taken));
    assert_false(file_exists(in_folder(&arena, state, "taken.tmp")));
    assert_true(file_is_folder(taken));

    // A full device: the old content stays.
    const char *path = in_folder(&arena, state, "kept");
    assert_true(file_write(path, "old", 3, &error));
    assert_int_equal(symlink("/dev/full", in_folder(&arena, state, "kept.tmp")), 0);
    assert_false(file_write(path, "new", 3, &error));
    assert_non_null(strstr(error.text, "No space"));
    assert_true(file_read(&text, NULL, &arena, path, &error));
    assert_string_equal(text, "old");

    char *long_name = arena_alloc(&arena, 5001);
    memset(long_name, 'a', 5000);
    assert_false(file_write(long_name, "x", 1, &error));
    assert_false(file_make_folders(long_name, &error));
    assert_false(file_remove_tree(long_name, &error));
    arena_close(&arena);
}

// Runs in a child: maps the file, cuts it short and reads beyond its new end.
static void touch_lost_map(const char *path) {
    Error error;
    FileMap map;
    file_guard_maps();
    if (!file_map(&map, path, &error) || truncate(path, 100)) _exit(3);
    volatile uint8_t byte = map.data[map.size - 1];
    _exit(4 + byte * 0);
}

static void test_a_map_that_lost_its_file_ends_in_one_line(void **state) {
    Arena arena = {0};
    Error error;
    int ends[2], status = 0;
    const char *path = in_folder(&arena, state, "short lived");
    assert_true(file_write(path, arena_alloc(&arena, 20000), 20000, &error));
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        touch_lost_map(path);
    }
    close(ends[1]);
    char text[512];
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], text + length, sizeof text - 1 - length)) > 0;) length += (size_t)n;
    assert_true(length > 0);
    text[length] = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_non_null(strstr(text, path));
    assert_non_null(strstr(text, "cut short"));
    assert_ptr_equal(strchr(text, '\n'), text + length - 1);
    close(ends[0]);
    arena_close(&arena);
}

static void test_file_map_refuses_what_is_no_file(void **state) {
    Arena arena = {0};
    Error error;
    FileMap map;
    char *text;
    size_t size;
    assert_false(file_map(&map, in_folder(&arena, state, "none"), &error));
    assert_non_null(strstr(error.text, "No such file"));
    assert_null(map.data);
    assert_false(file_map(&map, *state, &error));
    assert_non_null(strstr(error.text, "not a regular file"));
    assert_false(file_read(&text, NULL, &arena, "/dev/zero", &error));

    // A named pipe that nobody writes to is refused at once rather than waited for.
    const char *pipe_path = in_folder(&arena, state, "pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    alarm(20);
    assert_false(file_map(&map, pipe_path, &error));
    alarm(0);
    assert_non_null(strstr(error.text, "not a regular file"));

    const char *empty = in_folder(&arena, state, "empty");
    assert_true(file_write(empty, NULL, 0, &error));
    assert_true(file_map(&map, empty, &error));
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    file_unmap(&map);
    assert_true(file_read(&text, &size, &arena, empty, &error));
    assert_int_equal(size, 0);
    assert_string_equal(text, "");
    arena_close(&arena);
}

static void test_file_append_line(void **state) {
    Arena arena = {0};
    Error error;
    char *text;
    const char *path = in_folder(&arena, state, "metrics.jsonl");
    assert_true(file_append_line(path, "one", &error));
    assert_true(file_append_line(path, "", &error));
    assert_true(file_append_line(path, "three", &error));
    assert_true(file_read(&text, NULL, &arena, path, &error));
    assert_string_equal(text, "one\n\nthree\n");
    assert_false(file_append_line(*state, "x", &error));
    assert_false(file_append_line("/dev/full", "x", &error));
    arena_close(&arena);
}

static void test_file_folders(void **state) {
    Arena arena = {0};
    Error error;
    const char *deep = in_folder(&arena, state, "a//b/c/");
    assert_true(file_make_folders(deep, &error));
    assert_true(file_make_folders(deep, &error));
    assert_true(file_is_folder(in_folder(&arena, state, "a/b/c")));
    assert_true(file_make_folders("/", &error));
    assert_false(file_make_folders("", &error));

    const char *file = in_folder(&arena, state, "a/file");
    assert_true(file_write(file, "x", 1, &error));
    assert_true(file_exists(file));
    assert_false(file_is_folder(file));
    assert_false(file_make_folders(file, &error));
    assert_non_null(strstr(error.text, "not a folder"));
    assert_false(file_make_folders(in_folder(&arena, state, "a/file/below"), &error));

    assert_true(file_sync(file, &error));
    assert_true(file_sync(*state, &error));
    assert_false(file_sync(in_folder(&arena, state, "none"), &error));
    arena_close(&arena);
}

static void test_file_rename(void **state) {
    Arena arena = {0};
    Error error;
    char *text;
    const char *aside = in_folder(&arena, state, "tmp_step_3"), *step = in_folder(&arena, state, "step_3");
    assert_true(file_make_folders(aside, &error));
    assert_true(file_write(in_folder(&arena, state, "tmp_step_3/weights"), "w", 1, &error));
    assert_true(file_rename(aside, step, &error));
    assert_false(file_exists(aside));
    assert_true(file_read(&text, NULL, &arena, in_folder(&arena, state, "step_3/weights"), &error));
    assert_string_equal(text, "w");
    assert_false(file_rename(aside, step, &error));
    assert_non_null(strstr(error.text, step));

    // Names without a folder are beside the working directory.
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    assert_true(file_write("plain", "p", 1, &error));
    assert_true(file_rename("plain", "other", &error));
    assert_true(file_exists("other"));
    assert_int_equal(chdir(before), 0);
    arena_close(&arena);
}

static void test_file_remove_tree_stays_inside(void **state) {
    Arena arena = {0};
    Error error;
    const char *outside = in_folder(&arena, state, "outside"), *tree = in_folder(&arena, state, "tree");
    const char *kept = in_folder(&arena, state, "outside/kept");
    assert_true(file_make_folders(outside, &error));
    assert_true(file_write(kept, "k", 1, &error));
    assert_true(file_make_folders(in_folder(&arena, state, "tree/one/two"), &error));
    assert_true(file_write(in_folder(&arena, state, "tree/one/file"), "f", 1, &error));
    assert_int_equal(symlink(outside, in_folder(&arena, state, "tree/one/link")), 0);
    assert_int_equal(symlink("nowhere", in_folder(&arena, state, "tree/one/dangling")), 0);
    assert_true(file_remove_tree(tree, &error));
    assert_false(file_exists(tree));
    assert_true(file_exists(kept));

    const char *link = in_folder(&arena, state, "link");
    for (int slash = 0; slash < 2; slash++) { // "link/" names the folder behind it: only the link goes
        assert_int_equal(symlink(outside, link), 0);
        assert_true(file_remove_tree(slash ? in_folder(&arena, state, "link//") : link, &error));
        assert_false(file_exists(link));
        assert_true(file_exists(kept));
    }
    assert_true(file_remove_tree(in_folder(&arena, state, "none"), &error));
    assert_true(file_remove_tree(kept, &error));
    assert_false(file_exists(kept));
    arena_close(&arena);
}

// ---- jsonio

static void test_jsonio_refuses_what_is_too_large(void **state) {
    Arena arena = {0};
    Error error;
    json_t *value;
    const char *path = in_folder(&arena, state, "sparse.json");
    assert_true(file_write(path, "{}", 2, &error));
    assert_int_equal(truncate(path, (off_t)JSONIO_MAX_BYTES + 1), 0);
    assert_false(jsonio_read(&value, path, &error));
    assert_non_null(strstr(error.text, "268435457 bytes; a JSON file has at most 268435456"));
    arena_close(&arena);
}

// Transformers writes 10^30 where a tokenizer has no limit; jansson's integers end at 2^63 - 1.
static void test_jsonio_reads_integers_of_any_length(void **state) {
    static const char text[] =
        "{\"n\": 1000000000000000019884624838656, \"m\": [-9223372036854775809, 9223372036854775807, "
        "9223372036854775808, -9223372036854775808], \"q\": \"a\\\"99999999999999999999\", \"e\": "
        "99999999999999999999e1}";
    Arena arena = {0};
    Error error;
    json_t *value;
    const char *path = in_folder(&arena, state, "long.json");
    assert_true(file_write(path, text, strlen(text), &error));
    assert_true(jsonio_read(&value, path, &error));
    assert_true(json_real_value(json_object_get(value, "n")) == 1e30);
    const json_t *list = json_object_get(value, "m");
    assert_true(json_real_value(json_array_get(list, 0)) == -0x1p63);
    assert_true(json_integer_value(json_array_get(list, 1)) == INT64_MAX); // exact, whatever stands beside it
    assert_true(json_real_value(json_array_get(list, 2)) == 0x1p63);
    assert_true(json_integer_value(json_array_get(list, 3)) == INT64_MIN);
    assert_string_equal(json_string_value(json_object_get(value, "q")), "a\"99999999999999999999");
    assert_true(json_real_value(json_object_get(value, "e")) == 1e21);
    json_decref(value);
    static const char huge[] = "{\"n\": 1e999, \"m\": 99999999999999999999}";
    assert_true(file_write(path, huge, strlen(huge), &error));
    assert_false(jsonio_read(&value, path, &error));
    assert_non_null(strstr(error.text, "long.json:1: not valid JSON: real number overflow"));
    arena_close(&arena);
}

static void test_jsonio_round_trip(void **state) {
    Arena arena = {0};
    Error error;
    const char *path = in_folder(&arena, state, "state.json");
    json_t *value =
        json_pack("{s:i, s:f, s:[f,f], s:s}", "zebra", 1, "apple", 0.1, "list", 1.0 / 3, 5e-324, "text", "é\n");
    assert_true(jsonio_write(value, path, &error));
    json_t *back;
    assert_true(jsonio_read(&back, path, &error));
    assert_true(json_equal(value, back)); // reals to the last bit
    char *text;
    assert_true(file_read(&text, NULL, &arena, path, &error));
    assert_true(strstr(text, "zebra") < strstr(text, "apple"));
    assert_true(strstr(text, "apple") < strstr(text, "list"));
    json_decref(back);

    const char *lines = in_folder(&arena, state, "lines.jsonl");
    assert_true(jsonio_append(value, lines, &error));
    json_t *list = json_pack("[i, b]", 2, true);
    assert_true(jsonio_append(list, lines, &error));
    json_decref(list);
    assert_true(file_read(&text, NULL, &arena, lines, &error));
    char *second = strchr(text, '\n') + 1;
    assert_string_equal(second, "[2,true]\n");
    second[-1] = 0;
    back = json_loads(text, 0, NULL);
    assert_true(json_equal(value, back));
    json_decref(back);
    json_decref(value);
    arena_close(&arena);
}

static void test_jsonio_reals_stay_valid(void **state) {
    (void)state;
    json_t *values = json_array();
    json_array_append_new(values, jsonio_real(NAN));
    json_array_append_new(values, jsonio_real(INFINITY));
    json_array_append_new(values, jsonio_real(-INFINITY));
    json_array_append_new(values, jsonio_real(0.25));
    char *text = json_dumps(values, JSON_COMPACT);
    assert_string_equal(text, "[\"nan\",\"inf\",\"-inf\",0.25]");
    free(text);
    json_decref(values);
}

static void test_jsonio_refuses_bad_files(void **state) {
    Arena arena = {0};
    Error error;
    json_t *value = json_true();
    const char *path = in_folder(&arena, state, "bad.json");
    assert_false(jsonio_read(&value, path, &error));
    assert_null(value);

    char *nested = arena_alloc(&arena, 100001);
    memset(nested, '[', 100000);
    const char *const bad[] = {
        "",        " ",   "{\"a\": 1,\n\"a\": 2}", "{\"a\": ", "[1] trailing", "{\"a\": nan}", "\"\xff\xfe\"",
        "[1e999]", nested};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(file_write(path, bad[i], strlen(bad[i]), &error));
        error.text[0] = 0;
        assert_false(jsonio_read(&value, path, &error));
        assert_null(value);
        assert_memory_equal(error.text, path, strlen(path));
        assert_null(strstr(error.text, ":-1:"));
    }
    assert_true(file_write(path, bad[2], strlen(bad[2]), &error));
    assert_false(jsonio_read(&value, path, &error));
    assert_non_null(strstr(error.text, "bad.json:2:"));
    assert_true(file_write(path, "[\0]", 3, &error));
    assert_false(jsonio_read(&value, path, &error));
    arena_close(&arena);
}

// ---- rng

// The seed under which rng_words uses exactly this Philox key for the purpose.
static uint64_t seed_for_key(uint32_t key0, uint32_t key1, RngPurpose purpose) {
    return (uint64_t)(key1 ^ (uint32_t)purpose << 24) << 32 | key0;
}

// philox4x32, 10 rounds, from kat_vectors of Random123 1.14.
static void test_rng_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        for (RngPurpose purpose = RNG_SAMPLE_TOKEN; purpose <= RNG_VALIDATE_TOKEN; purpose++) {
            const uint32_t *c = vectors[i].counter, *k = vectors[i].key;
            uint32_t words[4];
            rng_words(words, seed_for_key(k[0], k[1], purpose), purpose, (RngCounter){c[0], c[1], c[2], c[3]});
            assert_memory_equal(words, vectors[i].expected, sizeof words);
        }
}

// Values that a run depends on: a change here changes what every seed means.
static void test_rng_golden_values(void **state) {
    (void)state;
    assert_int_equal(RNG_SAMPLE_TOKEN, 1);
    assert_int_equal(RNG_SHUFFLE, 2);
    assert_int_equal(RNG_QUESTION, 3);
    assert_int_equal(RNG_TEST_WEIGHTS, 4);
    assert_int_equal(RNG_VALIDATE_TOKEN, 5);
    uint32_t words[4];
    rng_words(words, 42, RNG_SAMPLE_TOKEN, (RngCounter){.step = 1, .prompt = 2, .sample = 3, .token = 4});
    static const uint32_t expected[4] = {0x71358c11, 0x6e1ccade, 0xf52e08df, 0xdfd8aa4b};
    assert_memory_equal(words, expected, sizeof words);
    assert_true(rng_uniform(42, RNG_SAMPLE_TOKEN, (RngCounter){.token = 9}) == 5149785 * 0x1p-24f);
    static const uint32_t order_expected[10] = {4, 3, 7, 1, 8, 0, 6, 9, 2, 5};
    uint32_t order[10];
    rng_shuffle(order, 10, 42, RNG_SHUFFLE, 1);
    assert_memory_equal(order, order_expected, sizeof order);
}

static void test_rng_every_coordinate_matters(void **state) {
    (void)state;
    static const RngCounter at[] = {{0}, {.step = 1}, {.prompt = 1}, {.sample = 1}, {.token = 1}};
    uint32_t words[8][4];
    for (int i = 0; i < 5; i++) rng_words(words[i], 7, RNG_QUESTION, at[i]);
    rng_words(words[5], 8, RNG_QUESTION, at[0]);
    rng_words(words[6], 7 + (1ull << 32), RNG_QUESTION, at[0]);
    rng_words(words[7], 7, RNG_SHUFFLE, at[0]);
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < i; k++) assert_memory_not_equal(words[i], words[k], sizeof words[0]);
}

static void test_rng_uniform_is_uniform(void **state) {
    (void)state;
    enum { COUNT = 200000, BINS = 20 };
    int bins[BINS] = {0};
    double sum = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        float u = rng_uniform(3, RNG_SAMPLE_TOKEN, (RngCounter){.step = i % 100, .token = i / 100});
        assert_true(u >= 0 && u < 1);
        assert_true(u * 0x1p24f == floorf(u * 0x1p24f));
        bins[(int)(u * BINS)]++;
        sum += u;
    }
    assert_true(fabs(sum / COUNT - 0.5) < 4 * 0.2887 / sqrt(COUNT));
    double chi = 0;
    for (int i = 0; i < BINS; i++) chi += pow(bins[i] - COUNT / BINS, 2) / (COUNT / BINS);
    assert_true(chi < 43.8); // 99.9 % of the chi-squared law of 19 degrees of freedom
}

static void test_rng_shuffle_is_a_fair_permutation(void **state) {
    (void)state;
    enum { COUNT = 1000, TRIALS = 24000 };
    uint32_t order[COUNT], other[COUNT];
    bool seen[COUNT] = {false};
    rng_shuffle(order, COUNT, 1, RNG_SHUFFLE, 0);
    for (int i = 0; i < COUNT; i++) {
        assert_true(order[i] < COUNT && !seen[order[i]]);
        seen[order[i]] = true;
    }
    rng_shuffle(other, COUNT, 1, RNG_SHUFFLE, 1);
    assert_memory_not_equal(order, other, sizeof order);
    rng_shuffle(other, COUNT, 1, RNG_SHUFFLE, 0);
    assert_memory_equal(order, other, sizeof order);
    rng_shuffle(order, 0, 1, RNG_SHUFFLE, 0);
    rng_shuffle(order, 1, 1, RNG_SHUFFLE, 0);
    assert_int_equal(order[0], 0);

    // All 24 orders of four things come up equally often.
    int counts[256] = {0};
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        uint32_t four[4];
        rng_shuffle(four, 4, 5, RNG_SHUFFLE, trial);
        counts[four[0] << 6 | four[1] << 4 | four[2] << 2 | four[3]]++;
    }
    int kinds = 0;
    double chi = 0;
    for (int i = 0; i < 256; i++)
        if (counts[i]) kinds++, chi += pow(counts[i] - TRIALS / 24, 2) / (TRIALS / 24);
    assert_int_equal(kinds, 24);
    assert_true(chi < 49.7); // 99.9 % at 23 degrees of freedom
}

// ---- log

static void test_log_seconds_go_forward(void **state) {
    (void)state;
    double before = log_seconds();
    usleep(2000);
    double after = log_seconds();
    assert_true(after - before >= 0.002 && after - before < 10);
}

static void test_log_progress_is_silent_without_a_terminal(void **state) {
    Arena arena = {0};
    Error error;
    char *text;
    const char *path = in_folder(&arena, state, "stderr");
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    assert_non_null(freopen(path, "w", stderr));
    Progress progress;
    progress_begin(&progress, "rollout", 0);
    progress_update(&progress, 1);
    progress_end(&progress);
    log_verbose("not at this level");
    log_info("line %d", 1);
    log_set_level(LOG_WARNINGS);
    log_info("not at this level");
    log_warn("line %d", 2);
    log_set_level(LOG_QUIET);
    log_warn("not at this level");
    log_set_level(LOG_NORMAL);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_true(file_read(&text, NULL, &arena, path, &error));
    assert_string_equal(text, "line 1\nwarning: line 2\n");
    arena_close(&arena);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_open, folder_close)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(test_arena_holds_little_more_than_it_was_asked_for),
        cmocka_unit_test(test_arena_reset_keeps_one_block),
        cmocka_unit_test(test_arena_strings),
        cmocka_unit_test(test_arena_refuses_sizes_that_overflow),
        cmocka_unit_test(test_error_texts),
        cmocka_unit_test(test_strbuf_grows),
        cmocka_unit_test(test_strbuf_nearest),
        IN_FOLDER(test_file_write_replaces_whole),
        IN_FOLDER(test_file_write_faults_leave_the_old),
        IN_FOLDER(test_file_map_refuses_what_is_no_file),
        IN_FOLDER(test_a_map_that_lost_its_file_ends_in_one_line),
        IN_FOLDER(test_file_append_line),
        IN_FOLDER(test_file_folders),
        IN_FOLDER(test_file_rename),
        IN_FOLDER(test_file_remove_tree_stays_inside),
        IN_FOLDER(test_jsonio_reads_integers_of_any_length),
        IN_FOLDER(test_jsonio_round_trip),
        IN_FOLDER(test_jsonio_refuses_what_is_too_large),
        cmocka_unit_test(test_jsonio_reals_stay_valid),
        IN_FOLDER(test_jsonio_refuses_bad_files),
        cmocka_unit_test(test_rng_known_answers),
        cmocka_unit_test(test_rng_golden_values),
        cmocka_unit_test(test_rng_every_coordinate_matters),
        cmocka_unit_test(test_rng_uniform_is_uniform),
        cmocka_unit_test(test_rng_shuffle_is_a_fair_permutation),
        cmocka_unit_test(test_log_seconds_go_forward),
        IN_FOLDER(test_log_progress_is_silent_without_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
