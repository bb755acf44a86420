// Which variable a name means. jinja2 settles that before rendering: a `set` in a loop makes a variable of the loop,
// which begins as a copy of the outer one; a branch of `if` has no variables of its own; a macro sees the variables
// around its definition. Two walks per scope: the first collects the names of the scope itself (jinja2.idtracking),
// the second binds them and enters the scopes inside (jinja2.compiler).
#include "text/jinja_eval.h"
#include "text/jinja_tree.h"

#include <string.h>

typedef struct Walk {
    JinjaRun *run;
    JinjaScope *scope;
    bool soft; // in a branch of the scope itself: unknown filters are an error only when they are used
} Walk;

static bool same(JinjaValue a, JinjaValue b) {
    return a.size == b.size && !memcmp(a.text, b.text, a.size);
}

static int find_here(const JinjaScope *scope, JinjaValue name) {
    for (int i = 0; i < scope->count; i++)
        if (same(scope->symbols[i].name, name)) return i;
    return -1;
}

// The variable called name, seen from scope: false when no scope knows it.
static bool find(Walk *walk, const JinjaScope *scope, JinjaValue name, int *hops, int *slot) {
    *hops = 0;
    for (; scope; scope = scope->parent, ++*hops) {
        walk->run->steps += scope->count / 8;
        if ((*slot = find_here(scope, name)) >= 0) return true;
    }
    return false;
}

static int define(Walk *walk, JinjaValue name, JinjaLoad load) {
    JinjaScope *scope = walk->scope;
    if (scope->count == scope->capacity) {
        int capacity = scope->capacity ? scope->capacity * 2 : 8;
        JinjaSymbol *grown = jinja_run_alloc(walk->run, (size_t)capacity * sizeof *grown);
        if (scope->count) memcpy(grown, scope->symbols, (size_t)scope->count * sizeof *grown);
        scope->symbols = grown;
        scope->capacity = capacity;
    }
    scope->symbols[scope->count] = (JinjaSymbol){.name = name, .load = load};
    return scope->count++;
}

// How a variable that is stored here begins: as the outer one, if there is one.
static void begin_stored(Walk *walk, JinjaSymbol *symbol, JinjaLoad otherwise) {
    symbol->load = otherwise;
    if (walk->scope->parent && find(walk, walk->scope->parent, symbol->name, &symbol->hops, &symbol->slot)) {
        symbol->load = JINJA_LOAD_ALIAS;
        symbol->hops++;
    }
}

static void store(Walk *walk, JinjaValue name) {
    int slot = find_here(walk->scope, name);
    if (slot < 0) {
        slot = define(walk, name, JINJA_LOAD_NOTHING);
        begin_stored(walk, &walk->scope->symbols[slot], JINJA_LOAD_NOTHING);
    }
    walk->scope->symbols[slot].stored = true;
}

static int parameter(Walk *walk, JinjaValue name) {
    int slot = find_here(walk->scope, name);
    if (slot < 0) slot = define(walk, name, JINJA_LOAD_PARAMETER);
    walk->scope->symbols[slot].load = JINJA_LOAD_PARAMETER;
    walk->scope->symbols[slot].stored = true;
    return slot;
}

static void load(Walk *walk, JinjaValue name) {
    int hops, slot;
    if (!find(walk, walk->scope, name, &hops, &slot)) define(walk, name, JINJA_LOAD_CONTEXT);
}

// ---- First walk: the names of one scope ----

static bool collect(Walk *walk, JinjaNode *node);

static bool collect_all(Walk *walk, const JinjaNodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++)
        if (!collect(walk, nodes->at[i])) return false;
    return true;
}

static void collect_target(Walk *walk, const JinjaNode *target, bool as_parameter) {
    if (target->type == JINJA_N_NAME && as_parameter)
        parameter(walk, target->name);
    else if (target->type == JINJA_N_NAME)
        store(walk, target->name);
    else if (target->type == JINJA_N_NSREF)
        load(walk, target->name);
    for (size_t i = 0; i < target->items.count; i++) collect_target(walk, target->items.at[i], as_parameter);
}

// A variable that a branch stores and nothing stored before begins as if there were no branch.
static bool collect_if(Walk *walk, JinjaNode *node) {
    JinjaScope *scope = walk->scope;
    int before = scope->count;
    bool *stored = jinja_run_alloc(walk->run, (size_t)before + 1);
    for (int i = 0; i < before; i++) stored[i] = scope->symbols[i].stored;
    for (size_t i = 0; i < node->items.count; i++) {
        JinjaNode *branch = node->items.at[i];
        if (!collect(walk, branch->first) || !collect_all(walk, &branch->body)) return false;
    }
    if (!collect_all(walk, &node->other)) return false;
    for (int i = 0; i < scope->count; i++) {
        bool new = scope->symbols[i].stored && (i >= before || !stored[i]);
        if (new) begin_stored(walk, &scope->symbols[i], JINJA_LOAD_CONTEXT);
    }
    return true;
}

// Names in the order in which jinja2 visits them: whether a variable is first read or first stored matters.
static bool collect(Walk *walk, JinjaNode *node) {
    if (!node) return true;
    if (!jinja_run_step(walk->run, 1)) return false;
    switch (node->type) {
    case JINJA_N_NAME: load(walk, node->name); return true;
    case JINJA_N_IF: return collect_if(walk, node);
    case JINJA_N_FOR: return collect(walk, node->second);
    case JINJA_N_SET:
        if (!collect(walk, node->second)) return false;
        collect_target(walk, node->first, false);
        return true;
    case JINJA_N_SET_BLOCK: collect_target(walk, node->first, false); return true;
    case JINJA_N_WITH: return collect_all(walk, &node->other);
    case JINJA_N_MACRO: store(walk, node->name); return true;
    case JINJA_N_CALL_BLOCK:
    case JINJA_N_FILTER_BLOCK: return collect(walk, node->first);
    case JINJA_N_GENERATION: return true;
    default:
        return collect(walk, node->first) && collect(walk, node->second) && collect(walk, node->third) &&
               collect_all(walk, &node->items);
    }
}

// ---- Second walk ----

static bool bind(Walk *walk, JinjaNode *node);

static bool bind_all(Walk *walk, const JinjaNodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++)
        if (!bind(walk, nodes->at[i])) return false;
    return true;
}

static Walk inner(const Walk *walk) {
    JinjaScope *scope = jinja_run_new(walk->run, JinjaScope);
    scope->parent = walk->scope;
    return (Walk){walk->run, scope, false};
}

// Whether the nodes read name before they store it themselves; *decided stops the search.
static bool reads(Walk *walk, const JinjaNode *node, const char *name, bool *decided) {
    if (!node || *decided || !jinja_run_step(walk->run, 1)) return false;
    if (node->type == JINJA_N_NAME && jinja_value_is(node->name, name)) {
        *decided = true;
        return !node->flag;
    }
    const JinjaNode *const singles[] = {node->type == JINJA_N_MACRO ? NULL : node->first, node->second, node->third};
    const JinjaNodes *const lists[] = {&node->items, &node->body, &node->other};
    for (size_t i = 0; i < 3; i++)
        if (reads(walk, singles[i], name, decided)) return true;
    for (size_t l = 0; l < 3; l++)
        for (size_t i = 0; i < lists[l]->count; i++)
            if (reads(walk, lists[l]->at[i], name, decided)) return true;
    return false;
}

static bool stores(Walk *walk, const JinjaNode *node, const char *name) {
    if (!node || !jinja_run_step(walk->run, 1)) return false;
    if (node->type == JINJA_N_NAME) return node->flag && jinja_value_is(node->name, name);
    const JinjaNodes *const lists[] = {&node->items, &node->body, &node->other};
    if (stores(walk, node->first, name) || stores(walk, node->second, name) || stores(walk, node->third, name))
        return true;
    for (size_t l = 0; l < 3; l++)
        for (size_t i = 0; i < lists[l]->count; i++)
            if (stores(walk, lists[l]->at[i], name)) return true;
    return false;
}

static bool reads_any(Walk *walk, const JinjaNodes *nodes, const char *name) {
    bool decided = false;
    for (size_t i = 0; i < nodes->count; i++)
        if (reads(walk, nodes->at[i], name, &decided)) return true;
    return false;
}

static bool bind_for(Walk *walk, JinjaNode *node) {
    Walk body = inner(walk), test = inner(walk), other = inner(walk);
    if (!bind(walk, node->second)) return false;
    walk->run->line = node->line;
    if (stores(walk, node, "loop"))
        return jinja_run_fault(walk->run, "TemplateAssertionError",
                               "Can't assign to special loop variable in for-loop target");
    if (node->flag || reads_any(walk, &node->body, "loop"))
        node->loop_slot = parameter(&body, jinja_value_string("loop"));
    collect_target(&body, node->first, true);
    node->scope = body.scope;
    if (!collect_all(&body, &node->body) || !bind(&body, node->first) || !bind_all(&body, &node->body)) return false;
    node->other_scope = other.scope;
    if (!collect_all(&other, &node->other) || !bind_all(&other, &node->other)) return false;
    if (!node->third) return jinja_run_good(walk->run);
    node->test_scope = test.scope;
    // One target serves both scopes, so that its variables must have the same places; here `loop` is the outer one.
    if (node->loop_slot >= 0) parameter(&test, jinja_value_string(""));
    collect_target(&test, node->first, true);
    return collect(&test, node->third) && bind(&test, node->third);
}

// The place of a variable that a macro has only if its body reads it, or -1: also when it is an ordinary parameter.
static int special(Walk *walk, const JinjaNode *node, const char *name) {
    if (!reads_any(walk, &node->body, name)) return -1;
    for (size_t i = 0; i < node->items.count; i++) {
        if (!jinja_value_is(node->items.at[i]->name, name)) continue;
        walk->run->line = node->line;
        if (!strcmp(name, "caller") && i < node->items.count - node->other.count)
            jinja_run_fault(walk->run, "TemplateAssertionError",
                            "When defining macros or call blocks the special \"caller\" argument must be omitted or "
                            "be given a default.");
        return -1;
    }
    return parameter(walk, jinja_value_string(name));
}

// A macro or what calls one: parameters, then caller, kwargs and varargs when the body asks for them.
static bool bind_macro(Walk *walk, JinjaNode *node) {
    Walk body = inner(walk);
    for (size_t i = 0; i < node->items.count; i++) parameter(&body, node->items.at[i]->name);
    node->caller_slot = special(&body, node, "caller");
    node->keywords_slot = special(&body, node, "kwargs");
    node->varargs_slot = special(&body, node, "varargs");
    node->scope = body.scope;
    return collect_all(&body, &node->other) && collect_all(&body, &node->body) && bind_all(&body, &node->items) &&
           bind_all(&body, &node->other) && bind_all(&body, &node->body);
}

// A block with variables of its own whose text is captured.
static bool bind_capture(Walk *walk, JinjaNode *node, JinjaNode *filter) {
    Walk body = inner(walk);
    node->scope = body.scope;
    return collect_all(&body, &node->body) && collect(&body, filter) && bind_all(&body, &node->body) &&
           (!filter || bind(&body, filter));
}

static bool bind_with(Walk *walk, JinjaNode *node) {
    if (!bind_all(walk, &node->other)) return false;
    Walk body = inner(walk);
    for (size_t i = 0; i < node->items.count; i++) collect_target(&body, node->items.at[i], true);
    node->scope = body.scope;
    return collect_all(&body, &node->body) && bind_all(&body, &node->items) && bind_all(&body, &node->body);
}

static bool bind_if(Walk *walk, JinjaNode *node) {
    Walk soft = *walk;
    soft.soft = true;
    for (size_t i = 0; i < node->items.count; i++)
        if (!bind(&soft, node->items.at[i]->first) || !bind_all(&soft, &node->items.at[i]->body)) return false;
    return bind_all(&soft, &node->other);
}

static bool bind_builtin(Walk *walk, JinjaNode *node) {
    bool filter = node->type == JINJA_N_FILTER;
    node->builtin = filter ? jinja_filter_find(node->name) : jinja_test_find(node->name);
    if (node->builtin >= 0 || walk->soft) return true;
    walk->run->line = node->line;
    return jinja_run_fault(walk->run, "TemplateAssertionError", "No %s named '%.*s'.", filter ? "filter" : "test",
                           (int)(node->name.size < 200 ? node->name.size : 200), node->name.text);
}

static bool bind_children(Walk *walk, JinjaNode *node) {
    JinjaNode *const children[] = {node->first, node->second, node->third};
    for (size_t i = 0; i < 3; i++)
        if (children[i] && !bind(walk, children[i])) return false;
    return bind_all(walk, &node->items);
}

static bool bind(Walk *walk, JinjaNode *node) {
    Walk soft = *walk;
    soft.soft = true;
    switch (node->type) {
    case JINJA_N_NAME:
    case JINJA_N_NSREF:
        CHECK(find(walk, walk->scope, node->name, &node->hops, &node->slot), "the name in line %d is not bound",
              node->line);
        return true;
    case JINJA_N_IF: return bind_if(walk, node);
    case JINJA_N_FOR: return bind_for(walk, node);
    case JINJA_N_SET_BLOCK: return bind(walk, node->first) && bind_capture(walk, node, node->second);
    case JINJA_N_FILTER_BLOCK: return bind_capture(walk, node, node->first);
    case JINJA_N_WITH: return bind_with(walk, node);
    case JINJA_N_MACRO: return bind(walk, node->first) && bind_macro(walk, node);
    case JINJA_N_CALL_BLOCK: return bind(walk, node->first) && bind_macro(walk, node);
    case JINJA_N_GENERATION: return bind_macro(walk, node);
    case JINJA_N_CONDITION: return bind_children(&soft, node);
    case JINJA_N_FILTER:
    case JINJA_N_TEST: return bind_builtin(walk, node) && bind_children(walk, node);
    default: return bind_children(walk, node);
    }
}

bool jinja_scope_resolve(JinjaRun *run, JinjaNodes *body, JinjaScope **root) {
    *root = jinja_run_new(run, JinjaScope);
    Walk walk = {run, *root, false};
    return collect_all(&walk, body) && bind_all(&walk, body) && jinja_run_good(run);
}
