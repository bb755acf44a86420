// Recipes: YAML with places, inheritance, interpolation, overrides, the settings table, and what is printed of them.
#include "base/file.h"
#include "base/rng.h"
#include "config/explain.h"
#include "config/interpolate.h"
#include "config/override.h"
#include "config/recipe.h"
#include "config/settings.h"
#include "config/settings_table.h"
#include "config/yaml.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// The least that a recipe must say, all else being default.
#define TASK "data:\n  default: {env_name: last_integer}\n  train: {dataset_name: arithmetic}\n"

static Arena arena;
static Error error;
static char folder[] = "/tmp/whet-test-config-XXXXXX";

static const char *write_recipe(const char *name, const char *text) {
    const char *path = arena_format(&arena, "%s/%s", folder, name);
    FILE *file = fopen(path, "w"); // file_write would wait for the disk
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

static void expect_in(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("'%s' is not in: %s", part, text);
    if (strchr(text, '\n')) fail_msg("more than one line: %s", text);
}

static Settings *load_with(const char *text, int count, char **overrides) {
    Settings *settings = NULL;
    if (!settings_load(&settings, &arena, write_recipe("recipe.yaml", text), count, overrides, &error))
        fail_msg("%s", error.text);
    return settings;
}

static Settings *load(const char *text) {
    return load_with(text, 0, NULL);
}

static void refuse(const char *text, char *override, const char *part) {
    Settings *settings;
    if (settings_load(&settings, &arena, write_recipe("recipe.yaml", text), override != NULL, &override, &error))
        fail_msg("loaded, where '%s' was expected: %s %s", part, text, override ? override : "");
    expect_in(error.text, part);
}

// ---- values and YAML

static void test_plain_scalars(void **state) {
    (void)state;
    static const struct {
        const char *text;
        ValueKind kind;
        double number;
    } cases[] = {
        {"", VALUE_NULL, 0},
        {"null", VALUE_NULL, 0},
        {"~", VALUE_NULL, 0},
        {"true", VALUE_BOOL, 1},
        {"False", VALUE_BOOL, 0},
        {"yes", VALUE_BOOL, 1},
        {"off", VALUE_BOOL, 0},
        {"0", VALUE_INTEGER, 0},
        {"-17", VALUE_INTEGER, -17},
        {"+3", VALUE_INTEGER, 3},
        {"1_000", VALUE_INTEGER, 1000},
        {"0x1F", VALUE_INTEGER, 31},
        {"10000000000", VALUE_INTEGER, 1e10},
        {"9223372036854775808", VALUE_REAL, 9223372036854775808.0},
        {"1e-8", VALUE_REAL, 1e-8},
        {"1E5", VALUE_REAL, 1e5},
        {"5.0e-6", VALUE_REAL, 5e-6},
        {".5", VALUE_REAL, 0.5},
        {"2.", VALUE_REAL, 2},
        {"01.5", VALUE_REAL, 1.5},
        {".inf", VALUE_REAL, (double)INFINITY},
        {"-.inf", VALUE_REAL, -(double)INFINITY},
        {"010", VALUE_TEXT, 0},
        {"1:30", VALUE_TEXT, 0},
        {"1.2.3", VALUE_TEXT, 0},
        {"e5", VALUE_TEXT, 0},
        {".", VALUE_TEXT, 0},
        {"-", VALUE_TEXT, 0},
        {"1e", VALUE_TEXT, 0},
        {"0x", VALUE_TEXT, 0},
        {"inf", VALUE_TEXT, 0},
        {"nan", VALUE_TEXT, 0},
        {"2024-01-01", VALUE_TEXT, 0},
        {"True story", VALUE_TEXT, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const Value *value = value_plain(&arena, cases[i].text, (Origin){0});
        if (value->kind != cases[i].kind) fail_msg("'%s' is of kind %d", cases[i].text, (int)value->kind);
        double number = value->kind == VALUE_BOOL ? value->boolean : value->real;
        if (number != cases[i].number) fail_msg("'%s' is %g", cases[i].text, number);
    }
    assert_string_equal(value_real(&arena, 128, (Origin){0})->text, "128.0");
    assert_string_equal(value_real(&arena, 0.1, (Origin){0})->text, "0.1");
}

static void test_yaml_places(void **state) {
    (void)state;
    static const char text[] =
        "# comment\na:\n  b: &x {c: 1, d: 'two'}\n\n  e: [1, 2]\nf: *x\ng:\n  <<: *x\n  c: 3\nh:\n";
    Value *root;
    assert_true(yaml_parse(&root, &arena, text, sizeof text - 1, "r.yaml", &error));
    assert_int_equal(value_find(root, "a.b.c")->origin.line, 3);
    assert_int_equal(value_find(root, "a.e")->origin.line, 5);
    assert_int_equal(value_find(root, "a.e[1]")->integer, 2);
    assert_int_equal(value_find(root, "a.e.1")->integer, 2);
    assert_string_equal(value_find(root, "f.d")->text, "two");
    assert_int_equal(value_find(root, "g.c")->integer, 3);
    assert_string_equal(value_find(root, "g.d")->text, "two");
    assert_int_equal(value_find(root, "h")->kind, VALUE_NULL);
    assert_int_equal(value_find(root, "h")->origin.line, 10);
    assert_null(value_find(root, "a.e.2"));
    assert_null(value_find(root, "a..b"));
    assert_null(value_find(root, "a.e[1"));
    assert_string_equal(value_path(&arena, value_find(root, "a.e[1]")), "a.e.1");
    assert_true(yaml_parse(&root, &arena, "", 0, "r.yaml", &error) && !root->first);
    assert_true(yaml_parse(&root, &arena, "# none\n", 7, "r.yaml", &error) && !root->first);
}

static void test_yaml_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a: 1\nb: 2\na: 3\n", "r.yaml:3: the key a stands twice in this mapping (first at line 1)"},
        {"a:\n  b: 1\n\tc: 2\n", "r.yaml:3: not valid YAML: "},
        {"a: {b: 1\n", "not valid YAML: "},
        {"a: \"x\n", "not valid YAML: "},
        {"- 1\n", "r.yaml:1: a recipe is a mapping"},
        {"just words\n", "r.yaml:1: a recipe is a mapping"},
        {"a: 1\n---\nb: 2\n", "r.yaml:2: a second document"},
        {"a: !!python/object:os.system x\n", "r.yaml:1: tags (!) are not taken"},
        {"[1, 2]: 3\n", "r.yaml:1: a key must be a word"},
        {"? {a: 1}\n: 3\n", "r.yaml:1: a key must be a word"},
        {"'': 3\n", "r.yaml:1: a key must be a word"},
        {"a: *nowhere\n", "r.yaml:1: alias *nowhere names no finished anchor"},
        {"a: &a [*a]\n", "r.yaml:1: alias *a names no finished anchor"},
        {"a: 1\nb: {<<: 3}\n", "r.yaml:2: << takes a mapping"},
        {"a: \x01\n", "r.yaml:1: byte 0x01: this is no text file"},
        {"a: 1\nb: \xff\n", "r.yaml:2: byte 0xff: not valid UTF-8"},
        {"a: \"\\0\"\n", "r.yaml:1: a zero byte in a text"},
    };
    Value *root;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (yaml_parse(&root, &arena, cases[i].text, strlen(cases[i].text), "r.yaml", &error))
            fail_msg("accepted: %s", cases[i].text);
        expect_in(error.text, cases[i].message);
    }
    assert_false(yaml_parse(&root, &arena, "a\0b: 1", 6, "r.yaml", &error));
    expect_in(error.text, "byte 0x00");
}

static void expect_refused_yaml(StrBuf *text, const char *message) {
    Value *root;
    assert_false(yaml_parse(&root, &arena, text->text, text->length, "r.yaml", &error));
    expect_in(error.text, message);
    strbuf_clear(text);
}

static void test_yaml_limits(void **state) {
    (void)state;
    StrBuf text = {0};
    strbuf_puts(&text, "a: ");
    for (int i = 0; i < 100000; i++) strbuf_putc(&text, '[');
    expect_refused_yaml(&text, "r.yaml:1: more than 32 lists and mappings in each other");
    for (int i = 0; i < 500; i++) strbuf_format(&text, "%*sa:\n", i, "");
    expect_refused_yaml(&text, "more than 32 lists and mappings in each other");
    strbuf_puts(&text, "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n");
    for (int i = 1; i < 20; i++)
        strbuf_format(&text, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1, i - 1, i - 1);
    expect_refused_yaml(&text, "aliases (*) expand to more than 100000 values");
    for (int i = 0; i < 2000; i++) strbuf_format(&text, "k%d: 1\n", i);
    expect_refused_yaml(&text, "r.yaml:1025: a mapping of more than 1024 keys");
    strbuf_puts(&text, "a: [");
    for (int i = 0; i < 110000; i++) strbuf_puts(&text, "1,");
    strbuf_puts(&text, "1]\n");
    expect_refused_yaml(&text, "r.yaml:1: more than 100000 values");
    strbuf_puts(&text, "a: ");
    for (int i = 0; i < 70000; i++) strbuf_putc(&text, 'x');
    expect_refused_yaml(&text, "r.yaml:1: a text of more than 64 KiB");
    for (int i = 0; i < 1100000; i++) strbuf_putc(&text, '#');
    expect_refused_yaml(&text, "1100000 bytes; a recipe has at most 1048576");
    strbuf_close(&text);
}

// Any bytes end in a tree or in one line.
static void test_yaml_mutations(void **state) {
    (void)state;
    static const char *const bits[] = {
        "[", "]",  "{",   "}",     ": ",  "- ",          "\n", "  ", "\"", "'",    "&a ",  "*a",           "|\n", ">",
        "#", "? ", "!t ", "---\n", "...", "%YAML 1.1\n", "${", "\t", ",",  "<<: ", "\xff", "\xe2\x80\xa8", "\r",  "\\"};
    static const char seed[] =
        "a: &a {b: 1, c: [x, 'y', \"z\\n\"]}\nd:\n  - e: |\n      text\n    f: *a\n  - ? g\n    : h\n"
        "i: ${mul:${a.b}, 2}\n";
    StrBuf text = {0};
    Arena scratch = {0};
    for (uint32_t round = 0; round < 3000; round++) {
        strbuf_clear(&text);
        strbuf_puts(&text, seed);
        for (uint32_t change = 0; change < 1 + round % 6; change++) {
            uint32_t word[4];
            rng_words(word, 1, RNG_QUESTION, (RngCounter){.step = round, .token = change});
            size_t at = word[0] % (text.length + 1), cut = word[1] % 8;
            char *tail = arena_string(&scratch, text.text + (at + cut > text.length ? text.length : at + cut));
            text.length = at;
            if (word[2] % 3) strbuf_puts(&text, bits[word[2] % COUNT(bits)]);
            strbuf_puts(&text, tail);
        }
        Value *root;
        error.text[0] = 0;
        if (yaml_parse(&root, &scratch, text.text, text.length, "r.yaml", &error)) {
            assert_int_equal(root->kind, VALUE_MAP);
            if (!interpolate_resolve(root, &scratch, &error)) expect_in(error.text, "r.yaml:");
        } else {
            expect_in(error.text, "r.yaml:");
        }
        arena_reset(&scratch);
    }
    arena_close(&scratch);
    strbuf_close(&text);
}

// ---- inheritance

static void test_inheritance(void **state) {
    (void)state;
    assert_true(file_make_folders(arena_format(&arena, "%s/sub", folder), &error));
    write_recipe("sub/grand.yaml", "a: {x: 1, y: 1, z: 1}\nlist: [1, 2, 3]\nkept: 1\nq: ???\n");
    write_recipe("sub/one.yaml", "defaults: grand.yaml\na: {y: 2, z: 2}\nmap: {old: 1}\ndeep: {m: {p: 1}}\n");
    write_recipe("two.yaml", "a: {z: 3}\nn: 3\n");
    Recipe recipe;
    const char *path =
        write_recipe("child.yaml", "defaults: [sub/one.yaml, two.yaml]\nlist: [9]\nmap: {_override_: true, new: 1}\n"
                                   "deep: {m: {_override_: true}}\nn: ???\nfresh: {_override_: true, k: 1}\n");
    assert_true(recipe_load(&recipe, &arena, path, &error));
    assert_int_equal(value_find(recipe.root, "a.x")->integer, 1);
    assert_int_equal(value_find(recipe.root, "a.y")->integer, 2);
    assert_int_equal(value_find(recipe.root, "a.z")->integer, 3);
    assert_int_equal(value_count(value_find(recipe.root, "list")), 1);
    assert_int_equal(value_find(recipe.root, "kept")->integer, 1);
    assert_int_equal(value_find(recipe.root, "n")->integer, 3); // ??? leaves it alone
    assert_string_equal(value_find(recipe.root, "q")->text, "???");
    assert_null(value_find(recipe.root, "map.old"));
    assert_null(value_find(recipe.root, "map._override_"));
    assert_int_equal(value_find(recipe.root, "map.new")->integer, 1);
    assert_null(value_find(recipe.root, "deep.m")->first);
    assert_int_equal(value_count(value_find(recipe.root, "fresh")), 1);
    assert_null(value_find(recipe.root, "defaults"));
    expect_in(value_origin(&arena, value_find(recipe.root, "a.x")->origin), "sub/grand.yaml:1");
}

static void test_inheritance_refusals(void **state) {
    (void)state;
    Recipe recipe;
    assert_false(recipe_load(&recipe, &arena, write_recipe("self.yaml", "defaults: self.yaml\n"), &error));
    expect_in(error.text, "self.yaml: defaults: the file inherits itself");
    write_recipe("ping.yaml", "defaults: pong.yaml\n");
    assert_false(recipe_load(&recipe, &arena, write_recipe("pong.yaml", "defaults: [ping.yaml]\n"), &error));
    expect_in(error.text, "inherits itself");
    assert_false(recipe_load(&recipe, &arena, write_recipe("lost.yaml", "a: 1\ndefaults: nowhere.yaml\n"), &error));
    expect_in(error.text, "lost.yaml:2: defaults: ");
    expect_in(error.text, "nowhere.yaml: cannot open");
    assert_false(recipe_load(&recipe, &arena, write_recipe("odd.yaml", "defaults: {a: 1}\n"), &error));
    expect_in(error.text, "odd.yaml:1: defaults: expected the name of a file, found a mapping");
    assert_false(recipe_load(&recipe, &arena, folder, &error));
    expect_in(error.text, "not a regular file");
    for (int i = 0; i < 7; i++)
        write_recipe(arena_format(&arena, "fan%d.yaml", i),
                     arena_format(&arena, "defaults: [fan%d.yaml, fan%d.yaml]\n", i + 1, i + 1));
    write_recipe("fan7.yaml", "a: 1\n");
    assert_false(recipe_load(&recipe, &arena, arena_format(&arena, "%s/fan0.yaml", folder), &error));
    expect_in(error.text, "more than 16 generations or 64 files");
}

// ---- interpolation

static const char *resolved(const char *text, const char *key) {
    Value *root;
    if (!yaml_parse(&root, &arena, text, strlen(text), "r.yaml", &error) || !interpolate_resolve(root, &arena, &error))
        return error.text;
    const Value *value = value_find(root, key);
    assert_non_null(value);
    static const char *const kinds[] = {"null", "bool", "integer", "real", "text", "list", "map"};
    return arena_format(&arena, "%s %s", kinds[value->kind], value->text ? value->text : "");
}

static void test_interpolation(void **state) {
    (void)state;
    setenv("WHET_TEST_HOME", "/home/x", 1);
    unsetenv("WHET_TEST_NONE");
    static const struct {
        const char *text, *expected; // of key x
    } cases[] = {
        {"a: {b: 5}\nx: ${a.b}\n", "integer 5"},
        {"a: {b: 1e-8}\nx: ${ a.b }\n", "real 1e-8"},
        {"a: null\nx: ${a}\n", "null null"},
        {"a: [1, 2]\nx: ${a.1}\n", "integer 2"},
        {"a: [1, {b: 7}]\nx: '${a[1].b}'\n", "integer 7"},
        {"a: 3\nx: n${a}m${a}\n", "text n3m3"},
        {"a: true\nb: null\nx: ${a}${b}\n", "text TrueNone"},
        {"x: ${mul:2,3}\n", "integer 6"},
        {"x: ${mul:2, 3.0}\n", "real 6.0"},
        {"x: '${add: 2 ,3}'\n", "integer 5"},
        {"x: ${div:512,4}\n", "real 128.0"},
        {"x: ${div:1,3}\n", "real 0.3333333333333333"},
        {"x: ${max:2,3.5}\n", "real 3.5"},
        {"x: ${max:4,3.5}\n", "integer 4"},
        {"a: 4\nb: 5\nx: ${mul:${a},${b}}\n", "integer 20"},
        {"a: 4\nx: ${add:${mul:${a}, ${a}}, ${div:${a},2}}\n", "real 18.0"},
        {"a: b\nb: 9\nx: ${${a}}\n", "integer 9"},
        {"which: two\nm: {one: 1, two: 2}\nx: ${m.${which}}\n", "integer 2"},
        {"x: \\${a}\n", "text ${a}"},
        {"a: 1\nx: \\\\${a}\n", "text \\1"},
        {"x: a\\b$c\n", "text a\\b$c"},
        {"x: ${oc.env:WHET_TEST_HOME}/data\n", "text /home/x/data"},
        {"x: ${oc.env:WHET_TEST_NONE,none}\n", "text none"},
        {"x: ${oc.env:WHET_TEST_NONE}\n", "r.yaml:1: x: ${oc.env:…}: the environment has no 'WHET_TEST_NONE'"},
        {"c: ${b}\nb: ${a}\na: 1\nx: ${c}\n", "integer 1"},
        {"a: {b: {c: 1}}\nd: ${a.b}\nx: ${d.c}\n", "integer 1"},
        {"x: ${x}\n", "r.yaml:1: x: interpolations that need each other in a circle"},
        {"x: ${a}\na: ${x}\n", "r.yaml:1: x: interpolations that need each other in a circle"},
        {"x: {y: '${x}'}\n", "r.yaml:1: x: interpolations that need each other in a circle"},
        {"x: ${a.b}\n", "r.yaml:1: x: ${a.b}: there is no such key"},
        {"x: ${.a}\n", "r.yaml:1: x: ${.a}: there is no such key"},
        {"x: ${..a}\n", "more dots than levels above"},
        {"a: ???\nx: ${a}\n", "r.yaml:2: x: ${a}: mandatory, and nothing gives it a value (r.yaml:1)"},
        {"x: ${mul:2,three}\n", "r.yaml:1: x: ${mul:…}: expected a number, found 'three'"},
        {"x: ${mul:2,true}\n", "expected a number, found true"},
        {"x: ${mul:2}\n", "takes two arguments, found 1"},
        {"x: ${mul:1,2,3}\n", "takes two arguments, found 3"},
        {"x: ${pow:2,3}\n", "${pow:…}: there is no such resolver"},
        {"x: ${div:1,0}\n", "division by zero"},
        {"x: ${mul:9223372036854775807,2}\n", "more than 64 bits"},
        {"x: ${mul:1,2\n", "a brace is not closed"},
        {"x: '${'\n", "a brace is not closed"},
        {"x: ${}\n", "${}: names nothing"},
        {"a: [1]\nx: v${a}\n", "a list cannot stand inside a text"},
        {"x: '${mul:\"2,3}'\n", "a quote is not closed"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) expect_in(resolved(cases[i].text, "x"), cases[i].expected);
    assert_string_equal(resolved("g: {t: 1, v: '${.t}', w: {u: '${..t}'}}\n", "g.v"), "integer 1");
    assert_string_equal(resolved("g: {t: 1, v: '${.t}', w: {u: '${..t}'}}\n", "g.w.u"), "integer 1");
    assert_string_equal(resolved("a: {b: {c: 1}}\nx: ${a.b}\n", "x.c"), "integer 1");
    assert_string_equal(resolved("policy: {automodel_cfg: {k: 2}}\nx: ${policy.dtensor_cfg.k}\n", "x"), "integer 2");
}

static void test_interpolation_bombs(void **state) {
    (void)state;
    StrBuf text = {0};
    strbuf_puts(&text, "a0: xxxxxxxxxxxxxxxx\n");
    for (int i = 1; i < 40; i++) strbuf_format(&text, "a%d: ${a%d}${a%d}\n", i, i - 1, i - 1);
    expect_in(resolved(text.text, "a39"), "more than 64 KiB");
    strbuf_clear(&text);
    strbuf_puts(&text, "a0: {b: 1, c: 1}\n");
    for (int i = 1; i < 30; i++) strbuf_format(&text, "a%d: {b: '${a%d}', c: '${a%d}'}\n", i, i - 1, i - 1);
    expect_in(resolved(text.text, "a1"), "expand to more than 100000 values");
    strbuf_clear(&text);
    for (int i = 0; i < 900; i++) strbuf_format(&text, "a%d: ${a%d}\n", i, i + 1);
    strbuf_puts(&text, "a900: 1\n");
    expect_in(resolved(text.text, "a0"), "a chain of more than 64 interpolations");
    strbuf_clear(&text);
    strbuf_puts(&text, "x: ");
    for (int i = 0; i < 10000; i++) strbuf_puts(&text, "${");
    expect_in(resolved(text.text, "x"), "more than 16 interpolations in each other");
    strbuf_close(&text);
}

// ---- overrides

// One override on a recipe; returns "kind text" of the key, or the error.
static const char *overridden(const char *override, const char *key) {
    static const char text[] = "grpo: {seed: 1, extra: {k: 1}}\npolicy: {dtensor_cfg: {cpu_offload: false}, scheduler: "
                               "[{name: x}, {name: y}]}\n";
    Recipe recipe;
    assert_true(recipe_load(&recipe, &arena, write_recipe("over.yaml", text), &error));
    if (!override_apply(recipe.root, &arena, override, &error)) return error.text;
    const Value *value = value_find(recipe.root, key);
    static const char *const kinds[] = {"null", "bool", "integer", "real", "text", "list", "map"};
    return value ? arena_format(&arena, "%s %s", kinds[value->kind], value->text ? value->text : "") : "absent";
}

static void test_overrides(void **state) {
    (void)state;
    static const struct {
        const char *override, *key, *expected;
    } cases[] = {
        {"grpo.seed=7", "grpo.seed", "integer 7"},
        {"grpo.seed=null", "grpo.seed", "null null"},
        {"grpo.seed=1e-8", "grpo.seed", "real 1e-8"},
        {"grpo.seed=True", "grpo.seed", "bool True"},
        {"grpo.seed=", "grpo.seed", "text "},
        {"grpo.seed=a b", "grpo.seed", "text a b"},
        {"grpo.seed='7'", "grpo.seed", "text 7"},
        {"grpo.seed=\"a,b\"", "grpo.seed", "text a,b"},
        {"grpo.seed=a\\,b", "grpo.seed", "text a,b"},
        {"grpo.seed=a=b:c", "grpo.seed", "text a=b:c"},
        {"grpo.seed=[1,[2,x],{a:b}]", "grpo.seed.1.1", "text x"},
        {"grpo.seed=[ 1 , 2 ]", "grpo.seed.1", "integer 2"},
        {"grpo.seed=[]", "grpo.seed", "list "},
        {"grpo.seed={a:1,b:[2]}", "grpo.seed.b.0", "integer 2"},
        {"grpo.seed=${mul:${a},${b}}", "grpo.seed", "text ${mul:${a},${b}}"},
        {"grpo.seed=[${mul:1,2},3]", "grpo.seed.0", "text ${mul:1,2}"},
        {"grpo.max_num_steps=5", "grpo.max_num_steps", "integer 5"}, // in the table, not in the recipe
        {"grpo.extra={m:2}", "grpo.extra.k", "integer 1"},           // mappings merge
        {"grpo.extra={m:2}", "grpo.extra.m", "integer 2"},
        {"policy.scheduler.1.name=z", "policy.scheduler.1.name", "text z"},
        {"policy.scheduler[0].name=z", "policy.scheduler.0.name", "text z"},
        {"policy.dtensor_cfg.cpu_offload=true", "policy.automodel_cfg.cpu_offload", "bool true"},
        {"+grpo.anew.b.c=3", "grpo.anew.b.c", "integer 3"},
        {"++grpo.seed=3", "grpo.seed", "integer 3"},
        {"++grpo.anew=3", "grpo.anew", "integer 3"},
        {"+grpo.extra={n:1}", "grpo.extra.n", "integer 1"},
        {"~grpo.extra.k", "grpo.extra.k", "absent"},
        {"~grpo.extra.k=1", "grpo.extra.k", "absent"},
        {"~grpo.seed", "grpo.seed", "integer 42"},              // the built-in default
        {"~policy.scheduler", "policy.scheduler", "null null"}, // may be null
        {"~grpo.extra.k=2", "", "override ~grpo.extra.k=2: grpo.extra.k is 1"},
        {"~grpo.nothing", "", "override ~grpo.nothing: unknown key grpo.nothing"},
        {"+grpo.seed=3", "", "override +grpo.seed=3: grpo.seed is in the recipe already; ++ changes it"},
        {"grpo.sed=3", "", "override grpo.sed=3: unknown key grpo.sed; did you mean grpo.seed?"},
        {"fsdp_output_dtype=bf16", "", "did you mean policy.automodel_cfg.fsdp_output_dtype?"},
        {"policy.generation.vllm_kwargs.x=1", "", "policy.generation.vllm_kwargs.x is not in the recipe; + adds it"},
        {"grpo.seed", "", "override grpo.seed: expected key=value, found 'grpo.seed'"},
        {"=3", "", "is no key"},
        {"grpo..seed=3", "", "is no key"},
        {"grpo.seed.=3", "", "is no key"},
        {"grpo seed=3", "", "is no key"},
        {"grpo.seed=1,2", "", "several values (a sweep) are not taken"},
        {"grpo.seed=[1,2", "", "a list is not closed by ]"},
        {"grpo.seed={a:1", "", "a mapping is not closed by }"},
        {"grpo.seed={a}", "", "expected {key:value,…}"},
        {"grpo.seed={a:1,a:2}", "", "a key stands twice"},
        {"grpo.seed='x", "", "a quote is not closed"},
        {"grpo.seed=[1]2", "", "'2' stands behind the value"},
        {"grpo.seed=${a", "", "${ is not closed"},
        {"+grpo.seed.x=1", "", "grpo.seed is no mapping"},
        {"++policy.scheduler.7.name=1", "", "the list has no element 7"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *found = overridden(cases[i].override, cases[i].key);
        if (!strstr(found, cases[i].expected))
            fail_msg("%s: '%s' instead of '%s'", cases[i].override, found, cases[i].expected);
    }
    StrBuf deep = {0};
    strbuf_puts(&deep, "grpo.seed=");
    for (int i = 0; i < 60000; i++) strbuf_putc(&deep, '[');
    assert_non_null(strstr(overridden(deep.text, ""), "more than 32 lists and mappings in each other"));
    strbuf_close(&deep);
}

// ---- settings

static void test_defaults(void **state) {
    (void)state;
    const Settings *s = load(TASK);
    assert_int_equal(s->grpo.num_prompts_per_step, 32);
    assert_int_equal(s->grpo.num_generations_per_prompt, 16);
    assert_int_equal(s->grpo.seed, 42);
    assert_int_equal(s->grpo.val_start_at, -1);
    assert_int_equal(s->policy.train_global_batch_size, 512);
    assert_int_equal(s->policy.logprob_batch_size, 4);
    assert_int_equal(s->policy.logprob_chunk_size, 0);
    assert_int_equal(s->generation.max_new_tokens, 512);
    assert_int_equal(s->generation.max_length, 512);
    assert_int_equal(s->generation.top_k, 0);
    assert_string_equal(s->policy.tokenizer_name, "Qwen/Qwen2.5-1.5B");
    assert_int_equal(s->policy.dtypes.compute, DTYPE_BF16);
    assert_int_equal(s->policy.dtypes.output, DTYPE_F32);
    assert_true(s->adv_estimator.normalize_rewards && s->adv_estimator.use_leave_one_out_baseline);
    assert_true(s->adv_estimator.advantage_clip_low == -(double)INFINITY);
    assert_true(s->adv_estimator.advantage_clip_high == (double)INFINITY);
    assert_true(s->optimizer.eps == 1e-8 && s->optimizer.beta2 == 0.999 && s->optimizer.max_grad_norm == 1);
    assert_int_equal(s->scheduler.part_count, 2);
    assert_int_equal(s->scheduler.milestones[0], 50);
    assert_true(fabs(optimizer_learning_rate(&s->scheduler, s->optimizer.lr, 0) - 5e-7) < 1e-18);
    assert_true(fabs(optimizer_learning_rate(&s->scheduler, s->optimizer.lr, 60) - 5e-6) < 1e-17);
    assert_int_equal(s->checkpointing.keep_top_k, 3);
    assert_string_equal(s->checkpointing.metric_name, "val:accuracy");
    assert_int_equal(s->data.arithmetic.held_out, 41); // 5 % of 810, rounded up
    assert_int_equal(s->note_count, 0);
    LossOptions loss = loss_options_default();
    assert_true(s->loss_fn.kl_input_clamp_value == loss.kl_input_clamp_value &&
                s->loss_fn.ratio_clip_c == loss.ratio_clip_c);
    assert_true(s->loss_fn.reference_policy_kl_penalty == loss.reference_policy_kl_penalty);
    assert_true(s->loss_fn.token_level_loss && !s->loss_fn.truncated_importance_sampling_type);
    assert_string_equal(settings_origin(s, &arena, "grpo.seed"), "built-in default");
}

// Defaults that name another key follow it, whoever sets it.
static void test_defaults_follow(void **state) {
    (void)state;
    char *overrides[] = {"grpo.seed=7", "policy.train_micro_batch_size=${div:16,2}"};
    const Settings *s =
        load_with("policy: {max_total_sequence_length: 100, model_name: m, generation: {temperature: 0.7}}\n"
                  "grpo: {normalize_rewards: false}\n" TASK,
                  2, overrides);
    assert_int_equal(s->generation.max_new_tokens, 100);
    assert_int_equal(s->generation.max_length, 100);
    assert_int_equal(s->data.max_input_seq_length, 100);
    assert_int_equal(s->policy.train_micro_batch_size, 8); // a whole real
    assert_int_equal(s->policy.logprob_batch_size, 8);
    assert_int_equal(s->data.arithmetic.seed, 7);
    assert_string_equal(s->policy.tokenizer_name, "m");
    assert_false(s->adv_estimator.normalize_rewards);
    assert_true(s->val_generation.temperature == 0.7);
    assert_int_equal(s->val_generation.max_new_tokens, 100);
    assert_string_equal(settings_origin(s, &arena, "grpo.seed"), "override grpo.seed=7");
    expect_in(settings_origin(s, &arena, "policy.model_name"), "recipe.yaml:1");
}

static void test_demo_recipes(void **state) {
    (void)state;
    Settings *s;
    if (!settings_load(&s, &arena, "recipes/arithmetic.yaml", 0, NULL, &error)) fail_msg("%s", error.text);
    assert_int_equal(s->grpo.num_prompts_per_step * s->grpo.num_generations_per_prompt, 64);
    assert_int_equal(s->policy.train_global_batch_size, 64);
    assert_int_equal(s->generation.max_new_tokens, 24);
    assert_true(s->generation.temperature == 1 && s->val_generation.temperature == 0);
    assert_true(s->optimizer.lr == 2e-5);
    assert_int_equal(s->policy.dtypes.compute, DTYPE_F32);
    assert_int_equal(s->data.arithmetic.left_max, 99);
    assert_string_equal(s->data.arithmetic.operations, "+");
    assert_true(settings_validates(s));
    assert_string_equal(s->logger.log_dir, "results/arithmetic");
    assert_int_equal(s->note_count, 0);
    if (!settings_load(&s, &arena, "recipes/arithmetic_smoke.yaml", 0, NULL, &error)) fail_msg("%s", error.text);
    assert_int_equal(s->data.arithmetic.left_min, 0);
    assert_int_equal(s->grpo.num_prompts_per_step, 8);
}

static void test_output_dtype(void **state) {
    (void)state;
    static const struct {
        char *override;
        DType dtype;
    } cases[] = {
        {"policy.automodel_cfg.fsdp_output_dtype=bfloat16", DTYPE_BF16},
        {"policy.automodel_cfg.fsdp_output_dtype=\" BF16 \"", DTYPE_BF16},
        {"policy.automodel_cfg.fsdp_output_dtype=fp16", DTYPE_F16},
        {"policy.automodel_cfg.fsdp_output_dtype=param", DTYPE_BF16},
        {"policy.automodel_cfg.fsdp_output_dtype=null", DTYPE_F32},
        {"+policy.automodel_cfg.fsdp_output_dtype=bf16", DTYPE_BF16},
        {"++policy.dtensor_cfg.fsdp_output_dtype=bf16", DTYPE_BF16},
        {"~policy.automodel_cfg.fsdp_output_dtype", DTYPE_F32},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(load_with(TASK, 1, (char *[]){cases[i].override})->policy.dtypes.output, cases[i].dtype);
    refuse("policy:\n  automodel_cfg:\n    fsdp_output_dtype: int8\n" TASK, NULL,
           "recipe.yaml:3: policy.automodel_cfg.fsdp_output_dtype: 'int8' is none of float32 (fp32), bfloat16 (bf16), "
           "float16 (fp16), param");
    refuse(
        TASK, "policy.automodel_cfg.fsdp_output_dtype=32",
        "override policy.automodel_cfg.fsdp_output_dtype=32: policy.automodel_cfg.fsdp_output_dtype: '32' is none of");
    refuse(TASK, "policy.automodel_cfg.fsdp_output_dtype=[bf16]", "expected a text, or null, found a list");
    refuse(TASK, "policy.automodel_cfg.fsdp_output_dtype=''", "expected a text, or null, found ''");
    refuse("policy: {generation: {fsdp_output_dtype: bf16}}\n" TASK, NULL,
           "recipe.yaml:1: unknown key policy.generation.fsdp_output_dtype; did you mean "
           "policy.automodel_cfg.fsdp_output_dtype?");
}

static void test_alias(void **state) {
    (void)state;
    const Settings *s = load("policy:\n  dtensor_cfg: {_v2: true, fsdp_output_dtype: bf16}\n" TASK);
    assert_int_equal(s->policy.dtypes.output, DTYPE_BF16);
    expect_in(s->alias, "recipe.yaml:2");
    assert_null(load(TASK)->alias);
    refuse("policy:\n  dtensor_cfg: {}\n  automodel_cfg: {}\n" TASK, NULL,
           "recipe.yaml:2: policy.dtensor_cfg: the older name of policy.automodel_cfg, which stands at line 3 too");
    refuse("policy: {automodel_cfg: {_v2: true}}\n" TASK, NULL, "unknown key policy.automodel_cfg._v2");
    // An old parent and a new child are one mapping.
    write_recipe("old.yaml",
                 "policy: {dtensor_cfg: {_v2: true, fsdp_output_dtype: float32, activation_checkpointing: true}}\n");
    s = load("defaults: old.yaml\npolicy: {automodel_cfg: {fsdp_output_dtype: param}}\n" TASK);
    assert_int_equal(s->policy.dtypes.output, DTYPE_BF16);
    assert_true(s->policy.activation_checkpointing);
}

static void test_unknown_keys(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"grpo:\n  num_promts_per_step: 3\n",
         "recipe.yaml:2: unknown key grpo.num_promts_per_step; did you mean grpo.num_prompts_per_step?"},
        {"grop: {seed: 3}\n", "recipe.yaml:1: unknown key grop; did you mean grpo?"},
        {"seed: 3\n", "recipe.yaml:1: unknown key seed"},
        {"lr: 3\n", "unknown key lr; did you mean policy.optimizer.kwargs.lr?"},
        {"policy: {max_num_steps: 3}\n", "unknown key policy.max_num_steps; did you mean grpo.max_num_steps?"},
        {"policy: {optimiser: {kwargs: {lr: 1}}}\n", "did you mean policy.optimizer?"},
        {"policy: {automodel_cfg: {fsdp_ouput_dtype: bf16}}\n", "did you mean policy.automodel_cfg.fsdp_output_dtype?"},
        {"qqqqqqqq: 1\n", "recipe.yaml:1: unknown key qqqqqqqq"},
        {"grpo.seed: 3\n", "recipe.yaml:1: grpo.seed: a key with a dot; write it as nested mappings"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        refuse(cases[i].text, NULL, cases[i].message);
    }
    refuse(TASK, "+grpo.num_promts_per_step=3", "did you mean grpo.num_prompts_per_step?");
}

static void test_kinds_and_ranges(void **state) {
    (void)state;
    static const struct {
        char *override;
        const char *message;
    } cases[] = {
        {"grpo.seed=x", "override grpo.seed=x: grpo.seed: expected an integer from 0 to 9e+18, found 'x'"},
        {"grpo.seed='42'", "expected an integer from 0 to 9e+18, found '42'"},
        {"grpo.seed=1.5", "expected an integer from 0 to 9e+18, found 1.5"},
        {"grpo.seed=true", "expected an integer"},
        {"grpo.seed=null", "expected an integer from 0 to 9e+18, found null"},
        {"grpo.seed=-1", "expected an integer from 0"},
        {"grpo.seed=1e300", "expected an integer from 0"},
        {"grpo.seed=.nan", "expected an integer from 0"},
        {"grpo.num_prompts_per_step=0", "expected an integer from 1 to 1000000, found 0"},
        {"grpo.val_at_start=1", "grpo.val_at_start: expected true or false, found 1"},
        {"grpo.normalize_rewards=maybe", "grpo.normalize_rewards: expected true or false, found 'maybe'"},
        {"policy.optimizer.kwargs.lr=fast", "expected a number from 0 to 1000000, found 'fast'"},
        {"policy.optimizer.kwargs.lr=.inf", "expected a number from 0 to 1000000, found .inf"},
        {"policy.optimizer.kwargs.betas=[0.9]", "expected a list of two numbers, found a list"},
        {"policy.optimizer.kwargs.betas=[0.9,x]", "policy.optimizer.kwargs.betas.1: expected a number, found 'x'"},
        {"policy.optimizer.kwargs.betas=[0.9,1.0]",
         "override policy.optimizer.kwargs.betas=[0.9,1.0]: policy.optimizer.kwargs.betas[1]: "},
        {"policy.model_name=null", "policy.model_name: expected a text, found null"},
        {"policy.model_name=", "policy.model_name: expected a text, found ''"},
        {"policy.precision=float64", "override policy.precision=float64: policy.precision: 'float64' is none of"},
        {"policy.precision=float16", "not supported yet"},
        {"loss_fn.reference_policy_kl_type=k4",
         "loss_fn.reference_policy_kl_type: 'k4' is not supported; choose one of k1, k2, k3"},
        {"loss_fn.ratio_clip_min=-1", "override loss_fn.ratio_clip_min=-1: loss_fn.ratio_clip_min"},
        {"loss_fn.token_level_loss=false", "override loss_fn.token_level_loss=false: loss_fn.token_level_loss"},
        {"policy.generation.top_p=0", "override policy.generation.top_p=0: policy.generation.top_p"},
        {"policy.generation.temperature=0", "policy.generation.temperature: 0 (greedy)"},
        {"policy.generation.val_temperature=-1", "policy.generation.val_temperature: expected a number from 0"},
        {"policy.generation.stop_token_ids=[1,-1]",
         "policy.generation.stop_token_ids.1: expected a token number, found -1"},
        {"policy.generation.stop_token_ids=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "more than 16 tokens"},
        {"data.train.dataset_name=gsm8k", "data.train.dataset_name: 'gsm8k' is not supported; choose arithmetic"},
        {"data.train.operations=['/']", "data.train.operations.0: expected one of '+', '-', '*', found '/'"},
        {"data.train.operations=['+','+']", "'+' stands twice"},
        {"data.train.operations=[]", "expected a list of '+', '-', '*', found a list"},
        {"data.train.left=[9,1]", "[9, 1] is no range"},
        {"data.train.left=5", "expected a list of two integers"},
        {"data.train.left=null", "expected a list of two integers"},
        {"data.train.left=[0,1000000000]", "more than 2147483647 questions"},
        {"data.validation=3", "data.validation: expected a mapping, or null, found 3"},
        {"data.validation={dataset_name:gsm8k}", "'gsm8k' is not supported; choose arithmetic"},
        {"env.math=null", NULL},
        {"grpo.async_grpo=null", NULL},
        {"grpo.async_grpo=3", "grpo.async_grpo: expected a mapping, found 3"},
        {"policy=null", "policy: expected a mapping, found null"},
        {"policy.optimizer.name=torch.optim.SGD", "'torch.optim.SGD' is not supported; choose one of"},
        {"policy.scheduler=3", "policy.scheduler: expected a scheduler or a list of schedulers, or null, found 3"},
        {"policy.scheduler=[{kwargs:{}}]", "policy.scheduler.0: a scheduler needs a name"},
        {"policy.scheduler=[{name:torch.optim.lr_scheduler.StepLR}]",
         "policy.scheduler.0.name: 'torch.optim.lr_scheduler.StepLR' is not supported"},
        {"policy.scheduler.0.kwargs.total_iter=3", "unknown key"},
        {"+policy.scheduler.0.kwargs.total_iter=3",
         "policy.scheduler.0.kwargs.total_iter: unknown key; did you mean total_iters?"},
        {"policy.scheduler.0.kwargs.start_factor=0",
         "policy.scheduler.0.kwargs.start_factor=0: policy.scheduler[0].kwargs.start_factor"},
        {"policy.scheduler.2.milestones=[5,6]", "2 schedulers need 1 milestones, found 2"},
        {"policy.scheduler={name:torch.optim.lr_scheduler.CosineAnnealingLR}", "needs kwargs.T_max"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (cases[i].message)
            refuse(TASK, cases[i].override, cases[i].message);
        else
            load_with(TASK, 1, (char *[]){cases[i].override});
    }
    refuse("grpo: {seed: ???}\n" TASK, NULL, "recipe.yaml:1: grpo.seed: a value is mandatory");
    refuse("policy:\n", NULL, "recipe.yaml:1: policy: expected a mapping, found null");
    refuse("", NULL,
           "built-in default: data.train.dataset_name: 'OpenMathInstruct-2' is not supported; choose arithmetic");
}

static void test_schedules(void **state) {
    (void)state;
    char *cosine = "policy.scheduler={name:torch.optim.lr_scheduler.CosineAnnealingLR,kwargs:{T_max:10,eta_min:1e-7}}";
    const Settings *s = load_with(TASK, 1, &cosine);
    assert_int_equal(s->scheduler.part_count, 1);
    assert_int_equal(s->scheduler.parts[0].kind, SCHEDULE_COSINE);
    assert_true(s->scheduler.parts[0].total_iters == 10 && s->scheduler.parts[0].eta_min == 1e-7);
    char *constant = "policy.scheduler=null";
    assert_int_equal(load_with(TASK, 1, &constant)->scheduler.part_count, 0);
    char *torch_defaults = "policy.scheduler=[{name:torch.optim.lr_scheduler.LinearLR}]";
    s = load_with(TASK, 1, &torch_defaults);
    assert_true(s->scheduler.parts[0].start_factor == 1.0 / 3 && s->scheduler.parts[0].total_iters == 5);
    char *element = "policy.scheduler.0.kwargs.total_iters=7";
    assert_true(load_with(TASK, 1, &element)->scheduler.parts[0].total_iters == 7);
}

static void test_classes(void **state) {
    (void)state;
    const Settings *s =
        load("policy:\n  generation:\n    vllm_cfg: {enforce_eager: true}\n    vllm_kwargs: {a: {b: 1}}\n"
             "  megatron_cfg: {enabled: false, anything: [1]}\nlogger: {wandb_enabled: true}\n" TASK);
    assert_int_equal(s->note_count, 4);
    assert_string_equal(s->notes[0].key, "policy.megatron_cfg");
    assert_string_equal(s->notes[1].key, "policy.generation.vllm_cfg.enforce_eager");
    assert_string_equal(s->notes[1].value, "true");
    expect_in(s->notes[1].origin, "recipe.yaml:3");
    expect_in(s->notes[1].reason, "vLLM");
    assert_string_equal(s->notes[2].key, "policy.generation.vllm_kwargs");
    static const struct {
        char *override;
        const char *message;
    } cases[] = {
        {"grpo.use_dynamic_sampling=true", "grpo.use_dynamic_sampling: true is not supported yet; only false is"},
        {"grpo.reward_shaping.enabled=true", "grpo.reward_shaping.enabled: true is not supported yet"},
        {"policy.automodel_cfg.tensor_parallel_size=2", "2 is not supported yet; only 1 is"},
        {"policy.automodel_cfg.tensor_parallel_size=1.0", NULL},
        {"policy.automodel_cfg.enabled=false", "false is not supported yet; only true is"},
        {"policy.megatron_cfg.enabled=true", "policy.megatron_cfg.enabled: true is not supported yet"},
        {"++policy.megatron_cfg.whatever.x=true", NULL},
        {"grpo.async_grpo.enabled=true", "not supported yet"},
        {"policy.tokenizer.chat_template_kwargs={enable_thinking:false}",
         "a mapping is not supported yet; only null, {} is"},
        {"policy.tokenizer.chat_template_kwargs={}", NULL},
        {"policy.generation.stop_strings=['x']", "policy.generation.stop_strings: a list is not supported yet"},
        {"checkpointing.model_save_format=null", NULL},
        {"checkpointing.model_save_format=torch_save", "'torch_save' is not supported yet; only safetensors, null is"},
        {"+policy.automodel_cfg.automodel_kwargs.freeze_config={x:1}", "freeze_config: a mapping is not supported yet"},
        {"+policy.automodel_cfg.automodel_kwargs.force_hf=true", NULL},
        {"data.default.prompt_file=cot.txt", "data.train.prompt_file: 'cot.txt' is not supported yet"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (cases[i].message)
            refuse(TASK, cases[i].override, cases[i].message);
        else
            load_with(TASK, 1, (char *[]){cases[i].override});
    }
}

static void test_cross_checks(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"policy: {train_global_batch_size: 100}\n",
         "recipe.yaml:1: policy.train_global_batch_size: 100 does not divide"},
        {"grpo: {max_val_samples: 32}\n", "grpo.val_batch_size: 256 is more than grpo.max_val_samples, 32"},
        {"grpo: {skip_reference_policy_logprobs_calculation: true}\n", "needs loss_fn.reference_policy_kl_penalty 0"},
        {"policy: {train_global_batch_size: 256}\nloss_fn: {force_on_policy_ratio: true}\n",
         "recipe.yaml:2: loss_fn.force_on_policy_ratio: true needs"},
        {"checkpointing: {metric_name: val_reward}\n", "'val_reward' is neither val:<metric> nor train:<metric>"},
        {"checkpointing: {metric_name: 'val:'}\n", "is neither val:<metric> nor train:<metric>"},
        {"policy: {generation: {vllm_cfg: {precision: fp8}}}\n", "'fp8' is not policy.precision 'bfloat16'"},
        {"grpo: {advantage_clip_low: 1, advantage_clip_high: 0}\n",
         "recipe.yaml:1: grpo.advantage_clip_low: 1 is above"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        refuse(arena_format(&arena, "%s%s", cases[i].text, TASK), NULL, cases[i].message);
    refuse(TASK, "data.train.split_validation_size=810", "leaves no training question of the 810 there are");
    refuse(TASK, "data.train.split_validation_size=1.5", "neither a share below 1 nor a whole number");
    refuse(TASK, "data.train.split_validation_size=0", "leaves no question for validation");
    char *without[] = {"data.train.split_validation_size=0", "grpo.val_period=0"};
    assert_int_equal(load_with(TASK, 2, without)->data.arithmetic.held_out, 0);
    char *counted[] = {"data.train.split_validation_size=${div:128,2}"};
    assert_int_equal(load_with(TASK, 1, counted)->data.arithmetic.held_out, 64);
    char *skipped[] = {"++grpo.skip_reference_policy_logprobs_calculation=true",
                       "loss_fn.reference_policy_kl_penalty=0"};
    assert_true(load_with(TASK, 2, skipped)->grpo.skip_reference_policy_logprobs_calculation);
}

// ---- the table and what is printed

static void test_table(void **state) {
    (void)state;
    for (size_t i = 0; i < settings_table_count; i++) {
        const Setting *row = &settings_table[i];
        if (settings_table_find(row->key) != row) fail_msg("%s stands twice", row->key);
        if (!row->help || !*row->help) fail_msg("%s says nothing", row->key);
        bool sentence = row->help[strlen(row->help) - 1] == '.';
        if (row->class == SETTING_HONOURED && !sentence) fail_msg("%s: the help is no sentence", row->key);
        if (row->class == SETTING_REFUSED && !row->allowed) fail_msg("%s accepts nothing", row->key);
    }
}

static void test_plain_yaml_loads_again(void **state) {
    (void)state;
    char *overrides[] = {"policy.model_name=\"a: \\\"b\\\" \\${c} 100%\"", "policy.generation.stop_token_ids=[1,2]",
                         "+policy.generation.vllm_kwargs.yes={on:'off',n:'1'}", "policy.optimizer.kwargs.lr=1e-5"};
    const Settings *first = load_with(
        "grpo: {max_num_steps: 3}\npolicy: {dtensor_cfg: {_v2: true}, megatron_cfg: {'${k}': 1}}\n" TASK, 4, overrides);
    StrBuf one = {0}, two = {0};
    explain_yaml(&one, first);
    const Settings *second = load(one.text);
    explain_yaml(&two, second);
    assert_string_equal(one.text, two.text);
    assert_string_equal(second->policy.model_name, first->policy.model_name);
    assert_int_equal(second->generation.stop_ids[1], 2);
    assert_int_equal(second->scheduler.milestones[0], 50);
    assert_true(second->optimizer.lr == 1e-5 && second->optimizer.eps == 1e-8);
    assert_non_null(strstr(one.text, "eps: 1.0e-08\n"));
    assert_non_null(strstr(one.text, "max_num_steps: 3\n"));
    assert_non_null(strstr(one.text, "vllm_kwargs:\n      \"yes\":\n        \"on\": \"off\"\n        n: \"1\"\n"));
    assert_non_null(strstr(one.text, "\"${k}\": 1\n"));
    assert_null(strstr(one.text, "enforce_eager")); // no effect, and no one wrote it
    strbuf_close(&one);
    strbuf_close(&two);
}

static void test_annotated_yaml(void **state) {
    (void)state;
    char *overrides[] = {"policy.max_total_sequence_length=64", "policy.generation.vllm_cfg.enforce_eager=true"};
    StrBuf text = {0};
    explain_settings(&text, load_with(TASK, 2, overrides));
    assert_non_null(
        strstr(text.text, "# override policy.max_total_sequence_length=64; Tokens of prompt and answer at most."));
    assert_non_null(strstr(text.text, "max_new_tokens: 64 "));
    assert_non_null(
        strstr(text.text, "# built-in default, ${policy.max_total_sequence_length}; Tokens of an answer at most."));
    assert_non_null(strstr(text.text, "; no effect: an internal of vLLM"));
    assert_non_null(strstr(text.text, "; only 1 is supported yet: Ranks that share each matrix."));
    Value *root;
    if (!yaml_parse(&root, &arena, text.text, text.length, "r.yaml", &error)) fail_msg("%s", error.text);
    strbuf_close(&text);
}

// docs/config.md is written from the table: WHET_WRITE_DOCS=1 build/tests/test_config writes it anew.
static void test_manual_is_current(void **state) {
    (void)state;
    StrBuf manual = {0};
    explain_manual(&manual);
    if (getenv("WHET_WRITE_DOCS")) assert_true(file_write("docs/config.md", manual.text, manual.length, &error));
    char *written;
    if (!file_read(&written, NULL, &arena, "docs/config.md", &error)) fail_msg("%s", error.text);
    if (strcmp(written, manual.text)) fail_msg("docs/config.md is not what the table says; write it anew");
    strbuf_close(&manual);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    arena_close(&arena);
    return file_remove_tree(folder, &error) ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_scalars),
        cmocka_unit_test(test_yaml_places),
        cmocka_unit_test(test_yaml_refusals),
        cmocka_unit_test(test_yaml_limits),
        cmocka_unit_test(test_yaml_mutations),
        cmocka_unit_test(test_inheritance),
        cmocka_unit_test(test_inheritance_refusals),
        cmocka_unit_test(test_interpolation),
        cmocka_unit_test(test_interpolation_bombs),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_defaults_follow),
        cmocka_unit_test(test_demo_recipes),
        cmocka_unit_test(test_output_dtype),
        cmocka_unit_test(test_alias),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_kinds_and_ranges),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_cross_checks),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_plain_yaml_loads_again),
        cmocka_unit_test(test_annotated_yaml),
        cmocka_unit_test(test_manual_is_current),
    };
    return cmocka_run_group_tests_name("config", tests, set_up, tear_down);
}
