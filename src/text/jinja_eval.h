// Evaluation of parsed templates. Private to the interpreter; callers use text/jinja.h.
#pragma once
#include "text/jinja.h"
#include "text/jinja_tree.h"

// A scope that was entered: its variables. A variable without a value is MISSING.
typedef struct JinjaFrame {
    struct JinjaFrame *parent;
    const JinjaScope *scope;
    JinjaValue *slots;
} JinjaFrame;

typedef struct JinjaMacro {
    const JinjaNode *node;
    JinjaFrame *frame; // around its definition
} JinjaMacro;

typedef struct JinjaMethod {
    JinjaValue self;
    int index; // in the table of jinja_method.c
} JinjaMethod;

typedef struct JinjaCycler { // cycler(…), joiner(…)
    JinjaValue items;        // a list
    size_t at;
} JinjaCycler;

// jinja2.runtime.LoopContext
typedef struct JinjaLoop {
    const JinjaNode *node;
    JinjaFrame *outer;
    JinjaValue source;
    JinjaIterator *iterator;
    bool filtered;                     // items still have to pass the loop's own test
    JinjaValue before, current, after; // after: peeked at, or MISSING
    JinjaValue changed;                // arguments of the last call of changed()
    int64_t index0, length;            // length: -1 when not known yet
    int depth0;
} JinjaLoop;

typedef enum JinjaFunction {
    JINJA_F_RANGE,
    JINJA_F_DICT,
    JINJA_F_NAMESPACE,
    JINJA_F_CYCLER,
    JINJA_F_JOINER,
    JINJA_F_LIPSUM,
    JINJA_F_RAISE_EXCEPTION,
    JINJA_F_STRFTIME_NOW,
} JinjaFunction;

// What one rendering has besides its run.
typedef struct JinjaRender {
    JinjaValue variables; // a DICT
    const JinjaClock *clock;
    JinjaBuffer text;
    JinjaSpan *spans; // of {% generation %} blocks
    size_t span_count, span_capacity;
    JinjaValue block; // text of the filter block whose filters are being applied
} JinjaRender;

typedef struct JinjaArguments {
    JinjaValue positional; // a TUPLE
    JinjaValue keywords;   // a DICT
} JinjaArguments;

// ---- jinja_eval.c ----
bool jinja_eval(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value);
JinjaFrame *jinja_eval_enter(JinjaRun *run, const JinjaScope *scope, JinjaFrame *parent);
bool jinja_eval_assign(JinjaRun *run, const JinjaNode *target, JinjaFrame *frame, JinjaValue value);

// ---- jinja_exec.c ----
typedef enum JinjaFlow { JINJA_GOES_ON, JINJA_BREAKS, JINJA_CONTINUES } JinjaFlow;
bool jinja_exec(JinjaRun *run, const JinjaNodes *body, JinjaFrame *frame, JinjaBuffer *out, JinjaFlow *flow);
bool jinja_exec_loop(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue items, int depth,
                     JinjaBuffer *out, JinjaFlow *flow);

// ---- jinja_loop.c ----
JinjaLoop *jinja_loop_open(JinjaRun *run, const JinjaNode *node, JinjaFrame *outer, JinjaValue items, int depth);
bool jinja_loop_next(JinjaRun *run, JinjaLoop *loop, JinjaValue *item);
// MISSING when there is no such attribute.
bool jinja_loop_attribute(JinjaRun *run, JinjaValue loop, JinjaValue name, JinjaValue *value);
bool jinja_loop_cycle(JinjaRun *run, JinjaLoop *loop, const JinjaArguments *arguments, JinjaValue *value);
bool jinja_loop_changed(JinjaRun *run, JinjaLoop *loop, const JinjaArguments *arguments, JinjaValue *value);

// ---- jinja_call.c ----
bool jinja_call_arguments(JinjaRun *run, const JinjaNodes *nodes, JinjaFrame *frame, JinjaArguments *arguments);
// caller: the macro of a call block, or MISSING.
bool jinja_call(JinjaRun *run, JinjaValue callee, JinjaArguments *arguments, JinjaValue caller, JinjaValue *value);
JinjaValue jinja_call_global(JinjaValue name);                                  // a FUNCTION, or MISSING
void jinja_call_describe(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value); // the inside of <…> in its repr()

// Puts arguments into bound by position and by name, as Python does; names are separated by blanks, the first
// `required` must be there, others that are not given become MISSING. Fails with Python's TypeErrors.
enum { JINJA_MOST_BOUND = 6 };
bool jinja_call_bind(JinjaRun *run, const char *function, const char *names, size_t required,
                     const JinjaArguments *arguments, JinjaValue bound[JINJA_MOST_BOUND]);

// An argument as an integer: absent or None gives otherwise; beyond 64 bits is cut there.
bool jinja_call_integer(JinjaRun *run, JinjaValue value, int64_t otherwise, int64_t *integer);

// ---- jinja_operate.c ----
bool jinja_operate(JinjaRun *run, JinjaOperator operator, JinjaValue a, JinjaValue b, JinjaValue *value);
bool jinja_operate_negate(JinjaRun *run, JinjaValue a, bool plus, JinjaValue *value);
bool jinja_operate_compare(JinjaRun *run, JinjaCompare compare, JinjaValue a, JinjaValue b, bool *truth);
bool jinja_operate_slice(JinjaRun *run, JinjaValue a, JinjaValue start, JinjaValue stop, JinjaValue step,
                         JinjaValue *value);

// ---- jinja_method.c: attributes, items, methods (jinja2.sandbox) ----
bool jinja_method_attribute(JinjaRun *run, JinjaValue object, JinjaValue name, JinjaValue *value);
bool jinja_method_own(JinjaRun *run, JinjaValue object, JinjaValue name, JinjaValue *value); // never an item
bool jinja_method_item(JinjaRun *run, JinjaValue object, JinjaValue key, JinjaValue *value);
bool jinja_method_call(JinjaRun *run, const JinjaMethod *method, const JinjaArguments *arguments, JinjaValue *value);
const char *jinja_method_name(const JinjaMethod *method);

// ---- jinja_filter.c, jinja_test.c ----
int jinja_filter_find(JinjaValue name); // -1 when there is none
bool jinja_filter_apply(JinjaRun *run, int filter, JinjaValue subject, const JinjaArguments *arguments,
                        JinjaValue *value);
int jinja_test_find(JinjaValue name);
bool jinja_test_apply(JinjaRun *run, int test, JinjaValue subject, const JinjaArguments *arguments, bool *truth);
