// Names of the hub, the folders of the caches, and what of the hub's cache counts as there.
#include "base/cache_folder.h"
#include "base/checksum.h"
#include "base/file.h"
#include "model/hub_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const variables[] = {"WHET_CACHE",   "XDG_CACHE_HOME",        "HOME", "HF_HOME",
                                        "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", NULL};
static const char one_commit[] = "0123456789abcdef0123456789abcdef01234567";

static Arena arena;
static const char *hub; // a fresh cache

static int open_hub(void **state) {
    char folder[] = "/tmp/whet-hub-XXXXXX";
    if (!mkdtemp(folder)) return 1;
    *state = NULL;
    hub = arena_string(&arena, folder);
    for (int i = 0; variables[i]; i++) unsetenv(variables[i]);
    return setenv("HF_HUB_CACHE", hub, 1);
}

static int close_hub(void **state) {
    Error error;
    (void)state;
    bool good = file_remove_tree(hub, &error);
    arena_close(&arena);
    return good ? 0 : 1;
}

// Puts a file of the repository org/name into the cache.
static void put(const char *path, const char *text) {
    Error error = {0};
    const char *whole = arena_format(&arena, "%s/models--org--name/%s", hub, path);
    const char *folder = arena_format(&arena, "%.*s", (int)(strrchr(whole, '/') - whole), whole);
    if (!file_make_folders(folder, &error) || !file_write(whole, text, strlen(text), &error))
        fail_msg("%s", error.text);
}

static void put_snapshot(const char *name, const char *text) {
    put(arena_format(&arena, "snapshots/%s/%s", one_commit, name), text);
}

static void drop(const char *name) {
    assert_int_equal(unlink(arena_format(&arena, "%s/models--org--name/snapshots/%s/%s", hub, one_commit, name)), 0);
}

// what: below the snapshot, "" the snapshot itself
static void finds(const char *name, HubPart part, const char *what) {
    Error error = {0};
    const char *path;
    if (!hub_cache_find(&path, name, part, &arena, &error)) fail_msg("%s", error.text);
    assert_string_equal(
        path, arena_format(&arena, "%s/models--org--name/snapshots/%s%s%s", hub, one_commit, *what ? "/" : "", what));
}

static void refuses(const char *name, HubPart part, const char *message) {
    Error error = {0};
    const char *path;
    assert_false(hub_cache_find(&path, name, part, &arena, &error));
    if (!strstr(error.text, message)) fail_msg("'%s' is not in: %s", message, error.text);
}

static void names(const char *text, const char *id, const char *revision, const char *file) {
    HubName name;
    if (!hub_name_parse(&name, text, &arena)) fail_msg("%s: not parsed", text);
    assert_string_equal(name.id, id);
    if (revision)
        assert_string_equal(name.revision, revision);
    else
        assert_null(name.revision);
    if (file)
        assert_string_equal(name.file, file);
    else
        assert_null(name.file);
}

static void test_names(void **state) {
    (void)state;
    names("org/name", "org/name", NULL, NULL);
    names("HuggingFaceTB/SmolLM2-135M-Instruct@v1.0", "HuggingFaceTB/SmolLM2-135M-Instruct", "v1.0", NULL);
    names("a/b/c/d.gguf", "a/b", NULL, "c/d.gguf");
    names("a/b_c.d@refs-1/e.gguf", "a/b_c.d", "refs-1", "e.gguf");
    const char *const others[] = {
        "",           "name",   "/",           "/a/b",       "./a/b",       "../a/b",   "a/",      "/a",
        "a/..",       "a/b/",   "a/b@",        "a/b//",      "a/b/../../c", "a/b@../c", "a/.b",    "a--b/c",
        "a/b..c",     "a/-b",   "a/b-",        "a b/c",      "a/b/c\\d",    "a/b\n",    "a/b/./c", "~/a",
        "a/b@x/\x1b", "a/b@..", "file:///etc", "http://x/y", "a/b?c",       "a/b#c",    "a/b%2e",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        HubName name;
        if (hub_name_parse(&name, others[i], &arena)) fail_msg("'%s' passed as %s", others[i], name.id);
    }
    char longest[120] = "org/";
    memset(longest + 4, 'x', 92);
    HubName name;
    assert_true(hub_name_parse(&name, longest, &arena));
    longest[96] = 'x';
    assert_false(hub_name_parse(&name, longest, &arena));
}

static void test_paths_stay_inside(void **state) {
    (void)state;
    const char *const inside[] = {"a", "a/b", "..a", "a..", ".hidden", "...", "a b", "é/ü"};
    const char *const outside[] = {"",     "/",      "/a",  "a/",  "a//b",  ".",    "..",    "../a",
                                   "a/..", "a/../b", "./a", "a/.", "a\\..", "a\nb", "a\x7f", "\x01"};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) assert_true(hub_name_is_inside(inside[i]));
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) assert_false(hub_name_is_inside(outside[i]));
    char part[1100];
    memset(part, 'a', sizeof part);
    part[255] = 0;
    assert_true(hub_name_is_inside(part));
    part[255] = 'a';
    part[256] = 0;
    assert_false(hub_name_is_inside(part));
    memset(part, 'a', sizeof part);
    for (int i = 100; i < 1025; i += 100) part[i] = '/';
    part[1025] = 0;
    assert_false(hub_name_is_inside(part));
    assert_true(hub_name_is_commit(one_commit));
    assert_false(hub_name_is_commit("0123456789ABCDEF0123456789ABCDEF01234567"));
    assert_false(hub_name_is_commit("0123456789abcdef"));
}

static void in_folder(bool (*find)(const char **, Arena *, Error *), const char *wanted) {
    Error error = {0};
    const char *folder;
    if (!find(&folder, &arena, &error)) fail_msg("%s", error.text);
    assert_string_equal(folder, wanted);
}

static void test_cache_folders(void **state) {
    (void)state;
    Error error;
    const char *folder;
    unsetenv("HF_HUB_CACHE");
    assert_false(cache_folder_own(&folder, &arena, &error));
    assert_non_null(strstr(error.text, "neither WHET_CACHE nor HOME is set"));
    assert_false(cache_folder_hub(&folder, &arena, &error));
    setenv("HOME", "/h", 1);
    in_folder(cache_folder_own, "/h/.cache/whet");
    in_folder(cache_folder_hub, "/h/.cache/huggingface/hub");
    assert_true(cache_folder_data(&folder, "gsm8k", &arena, &error));
    assert_string_equal(folder, "/h/.cache/whet/data/gsm8k");
    setenv("XDG_CACHE_HOME", "/x", 1);
    in_folder(cache_folder_own, "/x/whet");
    in_folder(cache_folder_hub, "/x/huggingface/hub");
    setenv("HF_HOME", "~/hf", 1);
    in_folder(cache_folder_hub, "/h/hf/hub");
    setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
    in_folder(cache_folder_hub, "/old");
    setenv("HF_HUB_CACHE", "~", 1);
    in_folder(cache_folder_hub, "/h");
    in_folder(cache_folder_hugging_face, "/h/hf");
    setenv("WHET_CACHE", "~name", 1); // another user's home is not looked up
    in_folder(cache_folder_own, "~name");
    setenv("WHET_CACHE", "", 1);
    in_folder(cache_folder_own, "/x/whet");
}

static void test_what_is_there_is_taken_as_it_is(void **state) {
    (void)state;
    Error error = {0};
    const char *path;
    assert_true(hub_cache_find(&path, hub, HUB_MODEL, &arena, &error));
    assert_ptr_equal(path, hub);
    refuses("/no/such/folder", HUB_MODEL, "no such model; expected a GGUF file");
    refuses("model.gguf", HUB_MODEL, "no such model; expected a GGUF file");
    refuses("/dev/null/x", HUB_MODEL, "no such model; expected a GGUF file");
    refuses("org/name", HUB_MODEL, "not in the cache (");
    refuses("org/name", HUB_MODEL, "run `whet pull org/name`");
    refuses("org/name@v2", HUB_MODEL, "run `whet pull org/name@v2`");
}

static void test_a_snapshot_by_branch_tag_and_commit(void **state) {
    (void)state;
    put_snapshot("config.json", "{}");
    put_snapshot("tokenizer.json", "{}");
    put_snapshot("model.safetensors", "x");
    refuses("org/name", HUB_MODEL, "this revision is not, or not wholly, in the cache (");
    finds(arena_format(&arena, "org/name@%s", one_commit), HUB_MODEL, "");
    put("refs/main", one_commit);
    finds("org/name", HUB_MODEL, "");
    finds("org/name", HUB_TOKENIZER, "");
    finds("org/name/config.json", HUB_MODEL, "config.json");
    refuses("org/name/other.gguf", HUB_MODEL, "run `whet pull org/name/other.gguf`");
    refuses("org/name@v2", HUB_MODEL, "in the cache (");
    put("refs/v2", arena_format(&arena, "%s\n", one_commit));
    finds("org/name@v2", HUB_MODEL, "");
    put("refs/v3", "../../../../etc");
    refuses("org/name@v3", HUB_MODEL, "in the cache (");
    put("refs/v4", "ffffffffffffffffffffffffffffffffffffffff");
    refuses("org/name@v4", HUB_MODEL, "in the cache (");
}

static void test_what_a_snapshot_lacks_is_named(void **state) {
    (void)state;
    const char *const two =
        "{\"weight_map\": {\"a\": \"model-1-of-2.safetensors\", \"b\": \"model-2-of-2.safetensors\", "
        "\"c\": \"model-1-of-2.safetensors\"}}";
    put("refs/main", one_commit);
    put_snapshot("README.md", "");
    refuses("org/name", HUB_MODEL, "not complete, config.json is missing: run `whet pull org/name`");
    put_snapshot("config.json", "{}");
    refuses("org/name", HUB_MODEL, "tokenizer.json is missing");
    refuses("org/name", HUB_TOKENIZER, "tokenizer.json is missing");
    put_snapshot("tokenizer.json", "{}");
    finds("org/name", HUB_TOKENIZER, "");
    refuses("org/name", HUB_MODEL, "model.safetensors is missing");
    put_snapshot("model.safetensors.index.json", two);
    refuses("org/name", HUB_MODEL, "model-1-of-2.safetensors is missing");
    put_snapshot("model-1-of-2.safetensors", "");
    refuses("org/name", HUB_MODEL, "model-2-of-2.safetensors is missing");
    // A link whose blob is gone counts as missing.
    const char *link =
        arena_format(&arena, "%s/models--org--name/snapshots/%s/model-2-of-2.safetensors", hub, one_commit);
    assert_int_equal(symlink("../../blobs/abc", link), 0);
    refuses("org/name", HUB_MODEL, "model-2-of-2.safetensors is missing");
    put("blobs/abc", "x");
    finds("org/name", HUB_MODEL, "");
}

static void test_gguf_files(void **state) {
    (void)state;
    put("refs/main", one_commit);
    put_snapshot("b.Q4.gguf", "x");
    finds("org/name", HUB_MODEL, "b.Q4.gguf");
    put_snapshot("a.Q8.gguf", "x");
    refuses("org/name", HUB_MODEL, "2 GGUF files of it are in the cache; say which, like org/name/a.Q8.gguf");
    finds("org/name/b.Q4.gguf", HUB_MODEL, "b.Q4.gguf");
    finds(arena_format(&arena, "org/name@%s/a.Q8.gguf", one_commit), HUB_MODEL, "a.Q8.gguf");
    drop("a.Q8.gguf");
    finds("org/name", HUB_MODEL, "b.Q4.gguf");
}

static void test_hostile_indices(void **state) {
    (void)state;
    Error error = {0};
    const char *const *shards;
    size_t count;
    const char *const texts[] = {"[]",
                                 "{}",
                                 "{\"weight_map\": []}",
                                 "{\"weight_map\": {}}",
                                 "{\"weight_map\": {\"a\": 1}}",
                                 "{\"weight_map\": {\"a\": \"\"}}",
                                 "{\"weight_map\": {\"a\": \"x\", \"b\": \"../../x\"}}",
                                 "{\"weight_map\": {\"a\": \"/etc/passwd\"}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("index.json", texts[i]);
        const char *path = arena_format(&arena, "%s/models--org--name/index.json", hub);
        assert_false(hub_cache_shards(&shards, &count, path, &arena, &error));
        assert_non_null(
            strstr(error.text, i ? "index.json: weight_map" : "index.json: a list, expected a JSON object"));
    }
}

static void test_checksums(void **state) {
    (void)state;
    Error error = {0};
    char sha256[CHECKSUM_SHA256_HEX], blob[CHECKSUM_SHA1_HEX];
    const char *path = arena_format(&arena, "%s/models--org--name/text", hub);
    put("text", "hello\n"); // `sha256sum`, `git hash-object`
    assert_true(checksum_sha256(sha256, path, &error) && checksum_git_blob(blob, path, &error));
    assert_string_equal(sha256, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    assert_string_equal(blob, "ce013625030ba8dba906f756967f9e9ca394464a");
    put("text", "");
    assert_true(checksum_sha256(sha256, path, &error) && checksum_git_blob(blob, path, &error));
    assert_string_equal(sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(blob, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    assert_false(checksum_sha256(sha256, "/no/such/file", &error));
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, open_hub, close_hub)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_names),
        CASE(test_paths_stay_inside),
        CASE(test_cache_folders),
        CASE(test_what_is_there_is_taken_as_it_is),
        CASE(test_a_snapshot_by_branch_tag_and_commit),
        CASE(test_what_a_snapshot_lacks_is_named),
        CASE(test_gguf_files),
        CASE(test_hostile_indices),
        CASE(test_checksums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
