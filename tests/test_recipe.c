// Recipes as trees: YAML with places, inheritance, interpolation, overrides.
#include "base/file.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "config/interpolate.h"
#include "config/override.h"
#include "config/recipe.h"
#include "config/yaml.h"
#include "support/recipes.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
        const Value *value = value_plain(&recipes.arena, cases[i].text, (Origin){0});
        if (value->kind != cases[i].kind) fail_msg("'%s' is of kind %d", cases[i].text, (int)value->kind);
        double number = value->kind == VALUE_BOOL ? value->boolean : value->real;
        if (number != cases[i].number) fail_msg("'%s' is %g", cases[i].text, number);
    }
    assert_string_equal(value_real(&recipes.arena, 128, (Origin){0})->text, "128.0");
    assert_string_equal(value_real(&recipes.arena, 0.1, (Origin){0})->text, "0.1");
}

static void test_yaml_places(void **state) {
    (void)state;
    static const char text[] =
        "# comment\na:\n  b: &x {c: 1, d: 'two'}\n\n  e: [1, 2]\nf: *x\ng:\n  <<: *x\n  c: 3\nh:\n";
    Value *root;
    assert_true(yaml_parse(&root, &recipes.arena, text, sizeof text - 1, "r.yaml", &recipes.error));
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
    assert_string_equal(value_path(&recipes.arena, value_find(root, "a.e[1]")), "a.e.1");
    static const char brackets[] = "a:\n  b: [\n    x,\n    y\n  ]\n  c: {\n  d: 1\n}\n"; // as PyYAML reads them
    assert_true(yaml_parse(&root, &recipes.arena, brackets, sizeof brackets - 1, "r.yaml", &recipes.error));
    assert_int_equal(value_count(value_find(root, "a.b")), 2);
    assert_int_equal(value_find(root, "a.c.d")->origin.line, 7);
    assert_true(yaml_parse(&root, &recipes.arena, "", 0, "r.yaml", &recipes.error) && !root->first);
    assert_true(yaml_parse(&root, &recipes.arena, "# none\n", 7, "r.yaml", &recipes.error) && !root->first);
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
        if (yaml_parse(&root, &recipes.arena, cases[i].text, strlen(cases[i].text), "r.yaml", &recipes.error))
            fail_msg("accepted: %s", cases[i].text);
        recipes_said(recipes.error.text, cases[i].message);
    }
    assert_false(yaml_parse(&root, &recipes.arena, "a\0b: 1", 6, "r.yaml", &recipes.error));
    recipes_said(recipes.error.text, "byte 0x00");
}

static void expect_refused_yaml(StrBuf *text, const char *message) {
    Value *root;
    assert_false(yaml_parse(&root, &recipes.arena, text->text, text->length, "r.yaml", &recipes.error));
    recipes_said(recipes.error.text, message);
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
        recipes.error.text[0] = 0;
        if (yaml_parse(&root, &scratch, text.text, text.length, "r.yaml", &recipes.error)) {
            assert_int_equal(root->kind, VALUE_MAP);
            if (!interpolate_resolve(root, &scratch, &recipes.error)) recipes_said(recipes.error.text, "r.yaml:");
        } else {
            recipes_said(recipes.error.text, "r.yaml:");
        }
        arena_reset(&scratch);
    }
    arena_close(&scratch);
    strbuf_close(&text);
}

// ---- inheritance

static void test_inheritance(void **state) {
    (void)state;
    assert_true(file_make_folders(recipes_path("sub"), &recipes.error));
    recipes_put("sub/grand.yaml", "a: {x: 1, y: 1, z: 1}\nlist: [1, 2, 3]\nkept: 1\nq: ???\n");
    recipes_put("sub/one.yaml", "defaults: grand.yaml\na: {y: 2, z: 2}\nmap: {old: 1}\ndeep: {m: {p: 1}}\n");
    recipes_put("two.yaml", "a: {z: 3}\nn: 3\n");
    Recipe recipe;
    const char *path =
        recipes_put("child.yaml", "defaults: [sub/one.yaml, two.yaml]\nlist: [9]\nmap: {_override_: true, new: 1}\n"
                                  "deep: {m: {_override_: true}}\nn: ???\nfresh: {_override_: true, k: 1}\n");
    assert_true(recipe_load(&recipe, &recipes.arena, path, &recipes.error));
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
    recipes_said(value_origin(&recipes.arena, value_find(recipe.root, "a.x")->origin), "sub/grand.yaml:1");
}

static void test_inheritance_refusals(void **state) {
    (void)state;
    Recipe recipe;
    assert_false(
        recipe_load(&recipe, &recipes.arena, recipes_put("self.yaml", "defaults: self.yaml\n"), &recipes.error));
    recipes_said(recipes.error.text, "self.yaml: defaults: the file inherits itself");
    recipes_put("ping.yaml", "defaults: pong.yaml\n");
    assert_false(
        recipe_load(&recipe, &recipes.arena, recipes_put("pong.yaml", "defaults: [ping.yaml]\n"), &recipes.error));
    recipes_said(recipes.error.text, "inherits itself");
    assert_false(recipe_load(&recipe, &recipes.arena, recipes_put("lost.yaml", "a: 1\ndefaults: nowhere.yaml\n"),
                             &recipes.error));
    recipes_said(recipes.error.text, "lost.yaml:2: defaults: ");
    recipes_said(recipes.error.text, "nowhere.yaml: cannot open");
    assert_false(recipe_load(&recipe, &recipes.arena, recipes_put("odd.yaml", "defaults: {a: 1}\n"), &recipes.error));
    recipes_said(recipes.error.text, "odd.yaml:1: defaults: expected the name of a file, found a mapping");
    assert_false(recipe_load(&recipe, &recipes.arena, recipes.folder, &recipes.error));
    recipes_said(recipes.error.text, "not a regular file");
    for (int i = 0; i < 7; i++)
        recipes_put(arena_format(&recipes.arena, "fan%d.yaml", i),
                    arena_format(&recipes.arena, "defaults: [fan%d.yaml, fan%d.yaml]\n", i + 1, i + 1));
    recipes_put("fan7.yaml", "a: 1\n");
    assert_false(recipe_load(&recipe, &recipes.arena, recipes_path("fan0.yaml"), &recipes.error));
    recipes_said(recipes.error.text, "more than 16 generations or 64 files");
}

// ---- interpolation

static const char *resolved(const char *text, const char *key) {
    Value *root;
    if (!yaml_parse(&root, &recipes.arena, text, strlen(text), "r.yaml", &recipes.error) ||
        !interpolate_resolve(root, &recipes.arena, &recipes.error))
        return recipes.error.text;
    const Value *value = value_find(root, key);
    assert_non_null(value);
    static const char *const kinds[] = {"null", "bool", "integer", "real", "text", "list", "map"};
    return arena_format(&recipes.arena, "%s %s", kinds[value->kind], value->text ? value->text : "");
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
    for (size_t i = 0; i < COUNT(cases); i++) recipes_said(resolved(cases[i].text, "x"), cases[i].expected);
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
    recipes_said(resolved(text.text, "a39"), "more than 64 KiB");
    strbuf_clear(&text);
    strbuf_puts(&text, "a0: {b: 1, c: 1}\n");
    for (int i = 1; i < 30; i++) strbuf_format(&text, "a%d: {b: '${a%d}', c: '${a%d}'}\n", i, i - 1, i - 1);
    recipes_said(resolved(text.text, "a1"), "expand to more than 100000 values");
    strbuf_clear(&text);
    for (int i = 0; i < 900; i++) strbuf_format(&text, "a%d: ${a%d}\n", i, i + 1);
    strbuf_puts(&text, "a900: 1\n");
    recipes_said(resolved(text.text, "a0"), "a chain of more than 64 interpolations");
    strbuf_clear(&text);
    strbuf_puts(&text, "x: ");
    for (int i = 0; i < 10000; i++) strbuf_puts(&text, "${");
    recipes_said(resolved(text.text, "x"), "more than 16 interpolations in each other");
    strbuf_close(&text);
}

// ---- overrides

// One override on a recipe; returns "kind text" of the key, or the error.
static const char *overridden(const char *override, const char *key) {
    static const char text[] = "grpo: {seed: 1, extra: {k: 1}}\npolicy: {dtensor_cfg: {cpu_offload: false}, scheduler: "
                               "[{name: x}, {name: y}]}\n";
    Recipe recipe;
    assert_true(recipe_load(&recipe, &recipes.arena, recipes_put("over.yaml", text), &recipes.error));
    if (!override_apply(recipe.root, &recipes.arena, override, &recipes.error)) return recipes.error.text;
    const Value *value = value_find(recipe.root, key);
    static const char *const kinds[] = {"null", "bool", "integer", "real", "text", "list", "map"};
    return value ? arena_format(&recipes.arena, "%s %s", kinds[value->kind], value->text ? value->text : "") : "absent";
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_scalars),        cmocka_unit_test(test_yaml_places),
        cmocka_unit_test(test_yaml_refusals),        cmocka_unit_test(test_yaml_limits),
        cmocka_unit_test(test_yaml_mutations),       cmocka_unit_test(test_inheritance),
        cmocka_unit_test(test_inheritance_refusals), cmocka_unit_test(test_interpolation),
        cmocka_unit_test(test_interpolation_bombs),  cmocka_unit_test(test_overrides),
    };
    return cmocka_run_group_tests_name("recipe", tests, recipes_open, recipes_close);
}
