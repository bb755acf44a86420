// Tests of jinja2: what stands behind `is`.
#include "text/jinja_eval.h"
#include "text/jinja_string.h"
#include "text/jinja_text.h"

typedef enum TestKind {
    TEST_TYPE, // of the value alone
    TEST_COMPARE,
    TEST_REMAINDER, // odd, even, divisibleby
    TEST_SAMEAS,
    TEST_FILTER,
    TEST_TEST,
    TEST_CASE,
} TestKind;

typedef bool TypeTest(JinjaValue value);

static bool is_defined(JinjaValue value) {
    return value.kind != JINJA_UNDEFINED;
}
static bool is_undefined(JinjaValue value) {
    return value.kind == JINJA_UNDEFINED;
}
static bool is_none(JinjaValue value) {
    return value.kind == JINJA_NONE;
}
static bool is_boolean(JinjaValue value) {
    return value.kind == JINJA_BOOL;
}
static bool is_true(JinjaValue value) {
    return value.kind == JINJA_BOOL && value.truth;
}
static bool is_false(JinjaValue value) {
    return value.kind == JINJA_BOOL && !value.truth;
}
static bool is_integer(JinjaValue value) {
    return value.kind == JINJA_INT || value.kind == JINJA_BIG;
}
static bool is_float(JinjaValue value) {
    return value.kind == JINJA_FLOAT;
}
static bool is_number(JinjaValue value) {
    return is_integer(value) || is_float(value) || is_boolean(value);
}
static bool is_string(JinjaValue value) {
    return value.kind == JINJA_STRING;
}
static bool is_mapping(JinjaValue value) {
    return value.kind == JINJA_DICT;
}
static bool is_sequence(JinjaValue value) { // has a length and items: a dict and an undefined value, too
    return value.kind == JINJA_STRING || value.kind == JINJA_LIST || value.kind == JINJA_TUPLE ||
           value.kind == JINJA_DICT || value.kind == JINJA_RANGE || value.kind == JINJA_UNDEFINED;
}
static bool is_callable(JinjaValue value) {
    return value.kind == JINJA_UNDEFINED || value.kind == JINJA_MACRO || value.kind == JINJA_FUNCTION ||
           value.kind == JINJA_METHOD || value.kind == JINJA_LOOP || value.kind == JINJA_JOINER;
}
static bool is_escaped(JinjaValue value) {
    return value.kind == JINJA_STRING && value.safe;
}

static const struct Row {
    const char *name;
    TestKind kind;
    TypeTest *type;
    int detail; // a JinjaCompare, a JinjaClass, or the divisor and 10 times the remainder
} rows[] = {
    {"defined", TEST_TYPE, is_defined, 0},
    {"undefined", TEST_TYPE, is_undefined, 0},
    {"none", TEST_TYPE, is_none, 0},
    {"boolean", TEST_TYPE, is_boolean, 0},
    {"true", TEST_TYPE, is_true, 0},
    {"false", TEST_TYPE, is_false, 0},
    {"integer", TEST_TYPE, is_integer, 0},
    {"float", TEST_TYPE, is_float, 0},
    {"number", TEST_TYPE, is_number, 0},
    {"string", TEST_TYPE, is_string, 0},
    {"mapping", TEST_TYPE, is_mapping, 0},
    {"sequence", TEST_TYPE, is_sequence, 0},
    {"iterable", TEST_TYPE, jinja_value_iterable, 0},
    {"callable", TEST_TYPE, is_callable, 0},
    {"escaped", TEST_TYPE, is_escaped, 0},
    {"odd", TEST_REMAINDER, NULL, 12},
    {"even", TEST_REMAINDER, NULL, 2},
    {"divisibleby", TEST_REMAINDER, NULL, 0},
    {"lower", TEST_CASE, NULL, JINJA_IS_LOWER},
    {"upper", TEST_CASE, NULL, JINJA_IS_UPPER},
    {"sameas", TEST_SAMEAS, NULL, 0},
    {"filter", TEST_FILTER, NULL, 0},
    {"test", TEST_TEST, NULL, 0},
    {"in", TEST_COMPARE, NULL, JINJA_IN},
    {"eq", TEST_COMPARE, NULL, JINJA_EQ},
    {"equalto", TEST_COMPARE, NULL, JINJA_EQ},
    {"==", TEST_COMPARE, NULL, JINJA_EQ},
    {"ne", TEST_COMPARE, NULL, JINJA_NE},
    {"!=", TEST_COMPARE, NULL, JINJA_NE},
    {"gt", TEST_COMPARE, NULL, JINJA_GT},
    {"greaterthan", TEST_COMPARE, NULL, JINJA_GT},
    {">", TEST_COMPARE, NULL, JINJA_GT},
    {"ge", TEST_COMPARE, NULL, JINJA_GE},
    {">=", TEST_COMPARE, NULL, JINJA_GE},
    {"lt", TEST_COMPARE, NULL, JINJA_LT},
    {"lessthan", TEST_COMPARE, NULL, JINJA_LT},
    {"<", TEST_COMPARE, NULL, JINJA_LT},
    {"le", TEST_COMPARE, NULL, JINJA_LE},
    {"<=", TEST_COMPARE, NULL, JINJA_LE},
};

int jinja_test_find(JinjaValue name) {
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++)
        if (jinja_value_is(name, rows[i].name)) return i;
    return -1;
}

static bool test_remainder(JinjaRun *run, JinjaValue subject, JinjaValue divisor, int remainder, bool *truth) {
    JinjaValue rest;
    return jinja_operate(run, JINJA_MOD, subject, divisor, &rest) &&
           jinja_value_equal(run, rest, jinja_value_int(remainder), truth);
}

// Python's `is`: one object. Equal scalars of one type are taken for one.
static bool test_sameas(JinjaRun *run, JinjaValue a, JinjaValue b, bool *truth) {
    *truth = false;
    if (a.kind != b.kind) return true;
    if (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE || a.kind == JINJA_DICT) {
        *truth = a.list == b.list;
        return true;
    }
    return jinja_value_equal(run, a, b, truth);
}

bool jinja_test_apply(JinjaRun *run, int test, JinjaValue subject, const JinjaArguments *arguments, bool *truth) {
    const struct Row *row = &rows[test];
    JinjaValue bound[JINJA_MOST_BOUND], text;
    bool hashable, divisible = row->kind == TEST_REMAINDER && !row->detail;
    bool binary = row->kind == TEST_COMPARE || row->kind == TEST_SAMEAS || divisible;
    if (!jinja_call_bind(run, row->name,
                         divisible                  ? "num"
                         : row->kind == TEST_SAMEAS ? "other"
                         : binary                   ? "seq"
                                                    : "",
                         binary, arguments, bound))
        return false;
    switch (row->kind) {
    case TEST_TYPE: *truth = row->type(subject); return true;
    case TEST_COMPARE: return jinja_operate_compare(run, (JinjaCompare)row->detail, subject, bound[0], truth);
    case TEST_REMAINDER:
        return test_remainder(run, subject, divisible ? bound[0] : jinja_value_int(row->detail % 10), row->detail / 10,
                              truth);
    case TEST_SAMEAS: return test_sameas(run, subject, bound[0], truth);
    case TEST_FILTER:
    case TEST_TEST:
        if (!jinja_value_hashable(run, subject, &hashable)) return false;
        if (!hashable) return jinja_run_fault(run, "TypeError", "unhashable type: '%s'", jinja_value_type(subject));
        *truth = subject.kind == JINJA_STRING &&
                 (row->kind == TEST_FILTER ? jinja_filter_find(subject) : jinja_test_find(subject)) >= 0;
        return true;
    case TEST_CASE:
        if (!jinja_text_of(run, subject, &text)) return false;
        *truth = jinja_string_is(text, (JinjaClass)row->detail);
        return jinja_run_step(run, text.size / 32);
    }
    return true;
}
