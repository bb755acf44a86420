// Python's operators on values that are not both numbers.
#include "text/jinja_eval.h"
#include "text/jinja_format.h"
#include "text/jinja_string.h"
#include "text/jinja_text.h"

#include <string.h>

static bool is_number(JinjaValue value) {
    return value.kind == JINJA_INT || value.kind == JINJA_BOOL || value.kind == JINJA_FLOAT || value.kind == JINJA_BIG;
}

static bool is_sequence(JinjaValue value) {
    return value.kind == JINJA_STRING || value.kind == JINJA_LIST || value.kind == JINJA_TUPLE;
}

static bool unsupported(JinjaRun *run, JinjaOperator operator, JinjaValue a, JinjaValue b) {
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
    if (operator== JINJA_ADD && is_sequence(a))
        return jinja_run_fault(run, "TypeError", "can only concatenate %s (not \"%s\") to %s",
                               a.kind == JINJA_STRING ? "str" : jinja_value_type(a), jinja_value_type(b),
                               a.kind == JINJA_STRING ? "str" : jinja_value_type(a));
    return jinja_run_fault(run, "TypeError", "unsupported operand type(s) for %s: '%s' and '%s'", signs[operator],
                           jinja_value_type(a), jinja_value_type(b));
}

// Text marked safe escapes what it is joined with.
static bool add_strings(JinjaRun *run, JinjaValue a, JinjaValue b, JinjaValue *value) {
    bool safe = a.safe || b.safe;
    if (safe && !a.safe && !jinja_string_escape(run, a, &a)) return false;
    if (safe && !b.safe && !jinja_string_escape(run, b, &b)) return false;
    JinjaBuffer buffer = {0};
    jinja_run_put(run, &buffer, a.text, a.size);
    jinja_run_put(run, &buffer, b.text, b.size);
    *value = jinja_text_taken(&buffer);
    value->safe = safe;
    return true;
}

static bool add_lists(JinjaRun *run, JinjaValue a, JinjaValue b, JinjaValue *value) {
    *value = jinja_value_list(run, a.kind);
    if (!jinja_run_step(run, (a.list->count + b.list->count) / 8)) return false;
    for (size_t i = 0; i < a.list->count; i++) jinja_value_push(run, *value, a.list->items[i]);
    for (size_t i = 0; i < b.list->count; i++) jinja_value_push(run, *value, b.list->items[i]);
    return true;
}

static bool repeat(JinjaRun *run, JinjaValue a, JinjaValue count, JinjaValue *value) {
    int64_t times;
    if (!jinja_call_integer(run, count, 0, &times)) return false;
    if (times < 0) times = 0;
    if (a.kind == JINJA_STRING) return jinja_string_repeat(run, a, (size_t)times, value);
    *value = jinja_value_list(run, a.kind);
    if (!a.list->count) return true;
    if ((size_t)times > JINJA_STEPS / a.list->count) times = JINJA_STEPS / (int64_t)a.list->count + 1; // fails below
    if (!jinja_run_step(run, (size_t)times * a.list->count)) return false;
    for (int64_t t = 0; t < times; t++)
        for (size_t i = 0; i < a.list->count; i++) jinja_value_push(run, *value, a.list->items[i]);
    return true;
}

bool jinja_operate(JinjaRun *run, JinjaOperator operator, JinjaValue a, JinjaValue b, JinjaValue *value) {
    if (a.kind == JINJA_UNDEFINED) return jinja_value_fail(run, a);
    if (operator== JINJA_MOD && a.kind == JINJA_STRING) return jinja_format_percent(run, a, b, value);
    if (b.kind == JINJA_UNDEFINED) return jinja_value_fail(run, b);
    if (is_number(a) && is_number(b)) return jinja_number_operate(run, operator, a, b, value);
    if (operator== JINJA_ADD && a.kind == b.kind && a.kind == JINJA_STRING) return add_strings(run, a, b, value);
    if (operator== JINJA_ADD && a.kind == b.kind && is_sequence(a)) return add_lists(run, a, b, value);
    bool counts_a = a.kind == JINJA_INT || a.kind == JINJA_BOOL || a.kind == JINJA_BIG;
    bool counts_b = b.kind == JINJA_INT || b.kind == JINJA_BOOL || b.kind == JINJA_BIG;
    if (operator== JINJA_MUL && is_sequence(a) && counts_b) return repeat(run, a, b, value);
    if (operator== JINJA_MUL && is_sequence(b) && counts_a) return repeat(run, b, a, value);
    return unsupported(run, operator, a, b);
}

bool jinja_operate_negate(JinjaRun *run, JinjaValue a, bool plus, JinjaValue *value) {
    if (a.kind == JINJA_UNDEFINED) return jinja_value_fail(run, a);
    if (!is_number(a))
        return jinja_run_fault(run, "TypeError", "bad operand type for unary %c: '%s'", plus ? '+' : '-',
                               jinja_value_type(a));
    if (!plus) return jinja_number_negate(run, a, value);
    *value = a.kind == JINJA_BOOL ? jinja_value_int(a.truth) : a;
    return true;
}

bool jinja_operate_compare(JinjaRun *run, JinjaCompare compare, JinjaValue a, JinjaValue b, bool *truth) {
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    int order = 2;
    switch (compare) {
    case JINJA_EQ:
    case JINJA_NE:
        if (!jinja_value_equal(run, a, b, truth)) return false;
        *truth = *truth == (compare == JINJA_EQ);
        return true;
    case JINJA_IN:
    case JINJA_NOT_IN:
        if (!jinja_value_contains(run, b, a, truth)) return false;
        *truth = *truth == (compare == JINJA_IN);
        return true;
    default:
        if (!jinja_value_order(run, a, b, signs[compare], &order)) return false;
        *truth = order != 2 && (compare == JINJA_LT   ? order < 0
                                : compare == JINJA_LE ? order <= 0
                                : compare == JINJA_GT ? order > 0
                                                      : order >= 0);
        return true;
    }
}

// Python's slice.indices: start and stop of a walk over `length` items in steps of step.
static void slice_indices(int64_t length, int64_t step, bool has_start, int64_t *start, bool has_stop, int64_t *stop) {
    int64_t least = step < 0 ? -1 : 0, most = step < 0 ? length - 1 : length;
    int64_t *bounds[] = {start, stop};
    for (int i = 0; i < 2; i++) {
        if (!(i ? has_stop : has_start)) {
            *bounds[i] = (i == 0) == (step < 0) ? most : least;
        } else {
            if (*bounds[i] < 0) *bounds[i] += length;
            if (*bounds[i] < least) *bounds[i] = least;
            if (*bounds[i] > most) *bounds[i] = most;
        }
    }
}

static bool slice_string(JinjaRun *run, JinjaValue a, int64_t start, int64_t step, int64_t count, JinjaValue *value) {
    if (!jinja_run_step(run, a.size / 16 + (size_t)(step == 1 ? 0 : count))) return false;
    size_t from = jinja_text_offset(a, (size_t)(count ? start : 0));
    if (step == 1) {
        JinjaValue rest = jinja_text_part(a, from, a.size);
        *value = jinja_text_part(rest, 0, jinja_text_offset(rest, (size_t)count));
        return true;
    }
    JinjaBuffer buffer = {0};
    for (int64_t taken = 0; taken < count; taken++) {
        size_t size = jinja_text_size_at(a, from);
        jinja_run_put(run, &buffer, a.text + from, size);
        if (taken + 1 == count) break;
        for (int64_t i = step; i > 0; i--) from += jinja_text_size_at(a, from);
        for (int64_t i = step; i < 0; i++) do
                from--;
            while (((uint8_t)a.text[from] & 0xc0) == 0x80);
    }
    *value = jinja_text_taken(&buffer);
    value->safe = a.safe;
    return true;
}

static bool slice_range(JinjaRun *run, const JinjaRange *range, JinjaInteger from, JinjaInteger to, JinjaInteger step,
                        JinjaValue *value) {
    JinjaInteger sliced[] = {range->start + from * range->step, range->start + to * range->step, 0};
    const JinjaInteger most = (JinjaInteger)1 << 100;
    bool fits = !__builtin_mul_overflow(range->step, step, &sliced[2]);
    for (int i = 0; i < 3; i++) fits = fits && sliced[i] > -most && sliced[i] < most;
    if (!fits) return jinja_run_fault(run, "LimitError", "slice of a range that needs integers of over 100 bits");
    *value = jinja_value_range(run, sliced[0], sliced[1], sliced[2]);
    return true;
}

bool jinja_operate_slice(JinjaRun *run, JinjaValue a, JinjaValue start, JinjaValue stop, JinjaValue step,
                         JinjaValue *value) {
    if (a.kind == JINJA_UNDEFINED) return jinja_value_fail(run, a);
    if (a.kind == JINJA_DICT) return jinja_run_fault(run, "TypeError", "unhashable type: 'slice'");
    if (!is_sequence(a) && a.kind != JINJA_RANGE)
        return jinja_run_fault(run, "TypeError", "'%s' object is not subscriptable", jinja_value_type(a));
    int64_t from, to, by;
    size_t length;
    if (!jinja_call_integer(run, start, 0, &from) || !jinja_call_integer(run, stop, 0, &to) ||
        !jinja_call_integer(run, step, 1, &by))
        return false;
    if (!by) return jinja_run_fault(run, "ValueError", "slice step cannot be zero");
    jinja_value_length(a, &length);
    int64_t stride = by;
    if (by > (int64_t)length + 1) by = (int64_t)length + 1; // as good as any longer step
    if (by < -(int64_t)length - 1) by = -(int64_t)length - 1;
    slice_indices((int64_t)length, by, start.kind != JINJA_NONE, &from, stop.kind != JINJA_NONE, &to);
    int64_t distance = by > 0 ? to - from : from - to, size = by > 0 ? by : -by;
    int64_t count = distance <= 0 ? 0 : (distance + size - 1) / size;
    if (a.kind == JINJA_STRING) return slice_string(run, a, from, by, count, value);
    if (a.kind == JINJA_RANGE) return slice_range(run, a.range, from, to, stride, value);
    *value = jinja_value_list(run, a.kind);
    if (!jinja_run_step(run, (size_t)count / 8)) return false;
    for (int64_t i = 0; i < count; i++) jinja_value_push(run, *value, a.list->items[from + i * by]);
    return true;
}
