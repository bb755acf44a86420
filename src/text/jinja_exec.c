#include "text/jinja_eval.h"
#include "text/jinja_text.h"

#include <string.h>

static bool exec_output(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaBuffer *out) {
    for (size_t i = 0; i < node->items.count; i++) {
        JinjaValue value;
        if (!jinja_eval(run, node->items.at[i], frame, &value)) return false;
        jinja_text_str(run, out, value);
    }
    return true;
}

static bool exec_if(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaBuffer *out, JinjaFlow *flow) {
    for (size_t i = 0; i < node->items.count; i++) {
        const JinjaNode *branch = node->items.at[i];
        JinjaValue test;
        if (!jinja_eval(run, branch->first, frame, &test)) return false;
        if (jinja_value_truth(test)) return jinja_exec(run, &branch->body, frame, out, flow);
    }
    return jinja_exec(run, &node->other, frame, out, flow);
}

bool jinja_exec_loop(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue items, int depth,
                     JinjaBuffer *out, JinjaFlow *flow) {
    JinjaLoop *loop = jinja_loop_open(run, node, frame, items, depth);
    bool completed = false; // jinja2 takes a loop whose every turn was left early for an empty one
    while (loop) {
        JinjaValue item;
        JinjaFlow turn = JINJA_GOES_ON;
        run->line = node->line;
        if (!jinja_loop_next(run, loop, &item)) return false;
        if (item.kind == JINJA_MISSING) break;
        JinjaFrame *body = jinja_eval_enter(run, node->scope, frame);
        if (node->loop_slot >= 0) body->slots[node->loop_slot] = (JinjaValue){.kind = JINJA_LOOP, .loop = loop};
        if (!jinja_eval_assign(run, node->first, body, item) || !jinja_exec(run, &node->body, body, out, &turn))
            return false;
        if (turn == JINJA_GOES_ON) completed = true;
        if (turn == JINJA_BREAKS) break;
    }
    if (!loop) return false;
    if (completed || !node->other.count) return true;
    return jinja_exec(run, &node->other, jinja_eval_enter(run, node->other_scope, frame), out, flow);
}

static bool exec_for(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaBuffer *out, JinjaFlow *flow) {
    JinjaValue items;
    return jinja_eval(run, node->second, frame, &items) && jinja_exec_loop(run, node, frame, items, 0, out, flow);
}

// That namespaces are namespaces is checked before the value is computed.
static bool check_namespaces(JinjaRun *run, const JinjaNode *target, JinjaFrame *frame) {
    for (size_t i = 0; i < target->items.count; i++)
        if (!check_namespaces(run, target->items.at[i], frame)) return false;
    if (target->type != JINJA_N_NSREF) return true;
    for (int hop = 0; hop < target->hops; hop++) frame = frame->parent;
    if (frame->slots[target->slot].kind == JINJA_NAMESPACE) return true;
    return jinja_run_fault(run, "TemplateRuntimeError", "cannot assign attribute on non-namespace object");
}

static bool exec_set(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame) {
    JinjaValue value;
    return check_namespaces(run, node->first, frame) && jinja_eval(run, node->second, frame, &value) &&
           jinja_eval_assign(run, node->first, frame, value);
}

// The text of the body with variables of its own, filtered. A break or continue inside leaves the block.
static bool capture(JinjaRun *run, const JinjaNode *node, const JinjaNode *filter, JinjaFrame *frame, JinjaValue *value,
                    JinjaFlow *flow) {
    JinjaBuffer buffer = {0};
    JinjaFrame *body = jinja_eval_enter(run, node->scope, frame);
    if (!jinja_exec(run, &node->body, body, &buffer, flow)) return false;
    *value = jinja_text_taken(&buffer);
    if (!filter || *flow != JINJA_GOES_ON) return true;
    JinjaValue outer = run->render->block;
    run->render->block = *value;
    bool good = jinja_eval(run, filter, body, value);
    run->render->block = outer;
    return good;
}

static bool exec_set_block(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaFlow *flow) {
    JinjaValue value;
    if (!capture(run, node, node->second, frame, &value, flow)) return false;
    if (*flow != JINJA_GOES_ON) return true;
    return check_namespaces(run, node->first, frame) && jinja_eval_assign(run, node->first, frame, value);
}

// What a block prints is not put through str().
static bool put_block(JinjaRun *run, JinjaBuffer *out, JinjaValue value) {
    if (value.kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "sequence item: expected str instance, %s found",
                               jinja_value_type(value));
    jinja_run_put(run, out, value.text, value.size);
    return true;
}

static bool exec_filter_block(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaBuffer *out,
                              JinjaFlow *flow) {
    JinjaValue value;
    if (!capture(run, node, node->first, frame, &value, flow)) return false;
    return *flow != JINJA_GOES_ON || put_block(run, out, value);
}

static bool exec_with(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaBuffer *out, JinjaFlow *flow) {
    JinjaFrame *body = jinja_eval_enter(run, node->scope, frame);
    for (size_t i = 0; i < node->items.count; i++) {
        JinjaValue value;
        if (!jinja_eval(run, node->other.at[i], frame, &value) ||
            !jinja_eval_assign(run, node->items.at[i], body, value))
            return false;
    }
    return jinja_exec(run, &node->body, body, out, flow);
}

static JinjaValue macro_of(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame) {
    JinjaMacro *macro = jinja_run_new(run, JinjaMacro);
    *macro = (JinjaMacro){node, frame};
    return (JinjaValue){.kind = JINJA_MACRO, .macro = macro};
}

static bool exec_call_block(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaBuffer *out) {
    JinjaValue callee, value;
    JinjaArguments arguments;
    const JinjaNode *call = node->first;
    if (!jinja_eval(run, call->first, frame, &callee) || !jinja_call_arguments(run, &call->items, frame, &arguments) ||
        !jinja_call(run, callee, &arguments, macro_of(run, node, frame), &value))
        return false;
    return put_block(run, out, value);
}

static void note_span(JinjaRun *run, size_t start, size_t size) {
    JinjaRender *render = run->render;
    if (render->span_count == render->span_capacity) {
        size_t capacity = render->span_capacity ? render->span_capacity * 2 : 16;
        JinjaSpan *grown = jinja_run_alloc(run, capacity * sizeof *grown);
        if (render->span_count) memcpy(grown, render->spans, render->span_count * sizeof *grown);
        render->spans = grown;
        render->span_capacity = capacity;
    }
    render->spans[render->span_count++] = (JinjaSpan){start, start + size};
}

// transformers counts from what the whole template has printed so far, also inside a macro.
static bool exec_generation(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaBuffer *out) {
    JinjaValue value;
    JinjaArguments none = {jinja_value_list(run, JINJA_TUPLE), jinja_value_dict(run)};
    if (!jinja_call(run, macro_of(run, node, frame), &none, (JinjaValue){.kind = JINJA_MISSING}, &value)) return false;
    note_span(run, run->render->text.length, value.size);
    jinja_text_str(run, out, value);
    return true;
}

static bool exec_node(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaBuffer *out, JinjaFlow *flow) {
    switch (node->type) {
    case JINJA_N_OUTPUT: return exec_output(run, node, frame, out);
    case JINJA_N_IF: return exec_if(run, node, frame, out, flow);
    case JINJA_N_FOR: return exec_for(run, node, frame, out, flow);
    case JINJA_N_SET: return exec_set(run, node, frame);
    case JINJA_N_SET_BLOCK: return exec_set_block(run, node, frame, flow);
    case JINJA_N_FILTER_BLOCK: return exec_filter_block(run, node, frame, out, flow);
    case JINJA_N_WITH: return exec_with(run, node, frame, out, flow);
    case JINJA_N_MACRO: return jinja_eval_assign(run, node->first, frame, macro_of(run, node, frame));
    case JINJA_N_CALL_BLOCK: return exec_call_block(run, node, frame, out);
    case JINJA_N_GENERATION: return exec_generation(run, node, frame, out);
    case JINJA_N_BREAK: *flow = JINJA_BREAKS; return true;
    case JINJA_N_CONTINUE: *flow = JINJA_CONTINUES; return true;
    default: CHECK(false, "node %d of line %d is no statement", (int)node->type, node->line); return false;
    }
}

bool jinja_exec(JinjaRun *run, const JinjaNodes *body, JinjaFrame *frame, JinjaBuffer *out, JinjaFlow *flow) {
    for (size_t i = 0; i < body->count && *flow == JINJA_GOES_ON; i++) {
        run->line = body->at[i]->line;
        if (!jinja_run_step(run, 1) || !jinja_run_enter(run)) return false;
        if (!exec_node(run, body->at[i], frame, out, flow) || !jinja_run_good(run)) return false;
        jinja_run_leave(run);
    }
    return true;
}
