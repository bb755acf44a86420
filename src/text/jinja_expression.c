// Expressions of templates, from loosest to tightest: if-else, or, and, not, comparison and in, + -, ~, * / // %, **,
// unary - +, postfix and filters and tests. Each function is one level of jinja2.parser.
#include "text/jinja_text.h"
#include "text/jinja_tree.h"

#include <string.h>

static bool at_operator(const JinjaParser *parser, const char *text) {
    return jinja_parse_at(parser, JINJA_T_OPERATOR, text);
}

static bool at_name(const JinjaParser *parser, const char *text) {
    return jinja_parse_at(parser, JINJA_T_NAME, text);
}

// A node of one or two children in *node, which was the first.
static bool wrap(JinjaParser *parser, JinjaNodeType type, int line, JinjaNode *second, JinjaNode **node) {
    JinjaNode *outer = jinja_parse_node(parser, type, line);
    outer->first = *node;
    outer->second = second;
    *node = outer;
    return jinja_parse_close(parser, outer);
}

static bool parse_unary(JinjaParser *parser, bool with_filter, JinjaNode **node);

static bool parse_power(JinjaParser *parser, JinjaNode **node) {
    int line = parser->current.line;
    if (!parse_unary(parser, true, node)) return false;
    while (at_operator(parser, "**")) {
        JinjaNode *right;
        if (!jinja_parse_advance(parser) || !parse_unary(parser, true, &right)) return false;
        if (!wrap(parser, JINJA_N_BINARY, line, right, node)) return false;
        (*node)->operator= JINJA_POW;
        line = parser->current.line;
    }
    return true;
}

static bool at_binary(const JinjaParser *parser, const char *const *texts, const JinjaOperator *operators, size_t count,
                      JinjaOperator *operator) {
    for (size_t i = 0; i < count; i++)
        if (at_operator(parser, texts[i])) {
            *operator= operators[i];
            return true;
        }
    return false;
}

static bool parse_product(JinjaParser *parser, JinjaNode **node) {
    static const char *const texts[] = {"*", "/", "//", "%"};
    static const JinjaOperator operators[] = {JINJA_MUL, JINJA_DIV, JINJA_FLOORDIV, JINJA_MOD};
    JinjaOperator operator;
    int line = parser->current.line;
    if (!parse_power(parser, node)) return false;
    while (at_binary(parser, texts, operators, 4, &operator)) {
        JinjaNode *right;
        if (!jinja_parse_advance(parser) || !parse_power(parser, &right)) return false;
        if (!wrap(parser, JINJA_N_BINARY, line, right, node)) return false;
        (*node)->operator= operator;
        line = parser->current.line;
    }
    return true;
}

static bool parse_concat(JinjaParser *parser, JinjaNode **node) {
    int line = parser->current.line;
    if (!parse_product(parser, node)) return false;
    if (!at_operator(parser, "~")) return true;
    JinjaNode *concat = jinja_parse_node(parser, JINJA_N_CONCAT, line);
    jinja_parse_push(parser, &concat->items, *node);
    while (at_operator(parser, "~")) {
        JinjaNode *item;
        if (!jinja_parse_advance(parser) || !parse_product(parser, &item)) return false;
        jinja_parse_push(parser, &concat->items, item);
    }
    *node = concat;
    return jinja_parse_close(parser, concat);
}

static bool parse_sum(JinjaParser *parser, JinjaNode **node) {
    static const char *const texts[] = {"+", "-"};
    static const JinjaOperator operators[] = {JINJA_ADD, JINJA_SUB};
    JinjaOperator operator;
    int line = parser->current.line;
    if (!parse_concat(parser, node)) return false;
    while (at_binary(parser, texts, operators, 2, &operator)) {
        JinjaNode *right;
        if (!jinja_parse_advance(parser) || !parse_concat(parser, &right)) return false;
        if (!wrap(parser, JINJA_N_BINARY, line, right, node)) return false;
        (*node)->operator= operator;
        line = parser->current.line;
    }
    return true;
}

// The comparison at the current token, which may take two tokens; both are passed over.
static bool skip_compare(JinjaParser *parser, JinjaCompare *compare, bool *found) {
    static const char *const texts[] = {"==", "!=", "<", "<=", ">", ">="};
    *found = true;
    for (int i = 0; i < 6; i++)
        if (at_operator(parser, texts[i])) {
            *compare = (JinjaCompare)i;
            return jinja_parse_advance(parser);
        }
    if (at_name(parser, "in")) {
        *compare = JINJA_IN;
        return jinja_parse_advance(parser);
    }
    *found = false;
    JinjaToken ahead;
    if (!at_name(parser, "not")) return true;
    if (!jinja_parse_look(parser, &ahead)) return false;
    if (ahead.type != JINJA_T_NAME || !jinja_value_is(ahead.value, "in")) return true;
    *found = true;
    *compare = JINJA_NOT_IN;
    return jinja_parse_advance(parser) && jinja_parse_advance(parser);
}

static bool parse_compare(JinjaParser *parser, JinjaNode **node) {
    int line = parser->current.line;
    JinjaNode *chain = NULL;
    if (!parse_sum(parser, node)) return false;
    for (;;) {
        JinjaCompare compare = JINJA_EQ;
        bool found;
        int operand_line = parser->current.line;
        if (!skip_compare(parser, &compare, &found)) return false;
        if (!found) break;
        JinjaNode *operand = jinja_parse_node(parser, JINJA_N_OPERAND, operand_line);
        operand->compare = compare;
        if (!parse_sum(parser, &operand->first) || !jinja_parse_close(parser, operand)) return false;
        if (!chain) {
            chain = jinja_parse_node(parser, JINJA_N_COMPARE, line);
            chain->first = *node;
            *node = chain;
        }
        jinja_parse_push(parser, &chain->items, operand);
    }
    return !chain || jinja_parse_close(parser, chain);
}

static bool parse_not(JinjaParser *parser, JinjaNode **node) {
    if (!at_name(parser, "not")) return parse_compare(parser, node);
    int line = parser->current.line;
    if (!jinja_parse_enter(parser) || !jinja_parse_advance(parser) || !parse_not(parser, node)) return false;
    jinja_run_leave(parser->run);
    return wrap(parser, JINJA_N_NOT, line, NULL, node);
}

static bool parse_and(JinjaParser *parser, JinjaNode **node) {
    int line = parser->current.line;
    if (!parse_not(parser, node)) return false;
    while (at_name(parser, "and")) {
        JinjaNode *right;
        if (!jinja_parse_advance(parser) || !parse_not(parser, &right)) return false;
        if (!wrap(parser, JINJA_N_AND, line, right, node)) return false;
        line = parser->current.line;
    }
    return true;
}

static bool parse_or(JinjaParser *parser, JinjaNode **node) {
    int line = parser->current.line;
    if (!parse_and(parser, node)) return false;
    while (at_name(parser, "or")) {
        JinjaNode *right;
        if (!jinja_parse_advance(parser) || !parse_and(parser, &right)) return false;
        if (!wrap(parser, JINJA_N_OR, line, right, node)) return false;
        line = parser->current.line;
    }
    return true;
}

static bool parse_condition(JinjaParser *parser, JinjaNode **node) {
    int line = parser->current.line;
    bool skipped;
    if (!parse_or(parser, node)) return false;
    while (at_name(parser, "if")) {
        JinjaNode *test, *otherwise = NULL;
        if (!jinja_parse_advance(parser) || !parse_or(parser, &test) ||
            !jinja_parse_skip(parser, JINJA_T_NAME, "else", &skipped))
            return false;
        if (skipped && !jinja_expression_parse(parser, true, &otherwise)) return false;
        JinjaNode *condition = jinja_parse_node(parser, JINJA_N_CONDITION, line);
        condition->first = test;
        condition->second = *node;
        condition->third = otherwise;
        *node = condition;
        if (!jinja_parse_close(parser, condition)) return false;
        line = parser->current.line;
    }
    return true;
}

bool jinja_expression_parse(JinjaParser *parser, bool with_condition, JinjaNode **node) {
    if (!jinja_parse_enter(parser)) return false;
    if (!(with_condition ? parse_condition(parser, node) : parse_or(parser, node))) return false;
    jinja_run_leave(parser->run);
    return true;
}

static bool parse_list(JinjaParser *parser, JinjaNode **node) {
    *node = jinja_parse_node(parser, JINJA_N_LIST, parser->current.line);
    if (!jinja_parse_advance(parser)) return false;
    while (!at_operator(parser, "]")) {
        JinjaNode *item;
        if ((*node)->items.count && !jinja_parse_expect(parser, JINJA_T_OPERATOR, ",", NULL)) return false;
        if (at_operator(parser, "]")) break;
        if (!jinja_expression_parse(parser, true, &item)) return false;
        jinja_parse_push(parser, &(*node)->items, item);
    }
    return jinja_parse_advance(parser) && jinja_parse_close(parser, *node);
}

static bool parse_dict(JinjaParser *parser, JinjaNode **node) {
    *node = jinja_parse_node(parser, JINJA_N_DICT, parser->current.line);
    if (!jinja_parse_advance(parser)) return false;
    while (!at_operator(parser, "}")) {
        JinjaNode *key, *value;
        if ((*node)->items.count && !jinja_parse_expect(parser, JINJA_T_OPERATOR, ",", NULL)) return false;
        if (at_operator(parser, "}")) break;
        if (!jinja_expression_parse(parser, true, &key) || !jinja_parse_expect(parser, JINJA_T_OPERATOR, ":", NULL) ||
            !jinja_expression_parse(parser, true, &value))
            return false;
        jinja_parse_push(parser, &(*node)->items, key);
        jinja_parse_push(parser, &(*node)->items, value);
    }
    return jinja_parse_advance(parser) && jinja_parse_close(parser, *node);
}

static bool constant(JinjaParser *parser, JinjaValue value, int line, JinjaNode **node) {
    *node = jinja_parse_node(parser, JINJA_N_CONST, line);
    (*node)->value = value;
    return true;
}

static bool parse_strings(JinjaParser *parser, JinjaNode **node) {
    JinjaBuffer buffer = {0};
    int line = parser->current.line;
    while (parser->current.type == JINJA_T_STRING) {
        jinja_run_put(parser->run, &buffer, parser->current.value.text, parser->current.value.size);
        if (!jinja_parse_advance(parser)) return false;
    }
    return constant(parser, jinja_text_taken(&buffer), line, node);
}

static bool parse_name(JinjaParser *parser, bool with_namespace, JinjaNode **node) {
    JinjaToken token = parser->current, attribute;
    JinjaValue name = token.value;
    if (!jinja_parse_advance(parser)) return false;
    if (jinja_value_is(name, "true") || jinja_value_is(name, "True"))
        return constant(parser, jinja_value_bool(true), token.line, node);
    if (jinja_value_is(name, "false") || jinja_value_is(name, "False"))
        return constant(parser, jinja_value_bool(false), token.line, node);
    if (jinja_value_is(name, "none") || jinja_value_is(name, "None"))
        return constant(parser, jinja_value_none(), token.line, node);
    bool dotted = with_namespace && at_operator(parser, ".");
    *node = jinja_parse_node(parser, dotted ? JINJA_N_NSREF : JINJA_N_NAME, token.line);
    (*node)->name = name;
    if (!dotted) return true;
    if (!jinja_parse_advance(parser) || !jinja_parse_expect(parser, JINJA_T_NAME, NULL, &attribute)) return false;
    (*node)->attribute = attribute.value;
    return true;
}

static bool parse_tuple(JinjaParser *parser, bool simple, bool with_condition, bool parentheses, bool with_namespace,
                        JinjaNode **node);

static bool parse_primary(JinjaParser *parser, bool with_namespace, JinjaNode **node) {
    JinjaToken token = parser->current;
    if (token.type == JINJA_T_NAME) return parse_name(parser, with_namespace, node);
    if (token.type == JINJA_T_STRING) return parse_strings(parser, node);
    if (token.type == JINJA_T_INTEGER || token.type == JINJA_T_FLOAT)
        return jinja_parse_advance(parser) && constant(parser, token.value, token.line, node);
    if (at_operator(parser, "("))
        return jinja_parse_advance(parser) && parse_tuple(parser, false, true, true, false, node) &&
               jinja_parse_expect(parser, JINJA_T_OPERATOR, ")", NULL);
    if (at_operator(parser, "[")) return parse_list(parser, node);
    if (at_operator(parser, "{")) return parse_dict(parser, node);
    return jinja_parse_fail(parser, token.line, "unexpected '%s'", jinja_parse_describe(parser, token));
}

static bool at_tuple_end(const JinjaParser *parser) {
    return parser->current.type == JINJA_T_PRINT_END || parser->current.type == JINJA_T_BLOCK_END ||
           at_operator(parser, ")");
}

static bool parse_tuple(JinjaParser *parser, bool simple, bool with_condition, bool parentheses, bool with_namespace,
                        JinjaNode **node) {
    JinjaNode *tuple = jinja_parse_node(parser, JINJA_N_TUPLE, parser->current.line);
    bool is_tuple = false;
    for (;;) {
        JinjaNode *item;
        if (tuple->items.count && !jinja_parse_expect(parser, JINJA_T_OPERATOR, ",", NULL)) return false;
        if (at_tuple_end(parser)) break;
        if (!(simple ? parse_primary(parser, with_namespace, &item)
                     : jinja_expression_parse(parser, with_condition, &item)))
            return false;
        jinja_parse_push(parser, &tuple->items, item);
        if (!at_operator(parser, ",")) break;
        is_tuple = true;
        tuple->line = parser->current.line;
    }
    if (!is_tuple && tuple->items.count) {
        *node = tuple->items.at[0];
        return true;
    }
    if (!is_tuple && !parentheses)
        return jinja_parse_fail(parser, parser->current.line, "Expected an expression, got '%s'",
                                jinja_parse_describe(parser, parser->current));
    *node = tuple;
    return jinja_parse_close(parser, tuple);
}

bool jinja_expression_tuple(JinjaParser *parser, bool with_condition, JinjaNode **node) {
    return parse_tuple(parser, false, with_condition, false, false, node);
}

static const char *unassignable(const JinjaNode *node) {
    switch (node->type) {
    case JINJA_N_NAME:
    case JINJA_N_NSREF: return NULL;
    case JINJA_N_TUPLE:
        for (size_t i = 0; i < node->items.count; i++)
            if (unassignable(node->items.at[i])) return "tuple";
        return NULL;
    case JINJA_N_CONST: return "const";
    case JINJA_N_LIST: return "list";
    case JINJA_N_DICT: return "dict";
    default: return "expression";
    }
}

static void mark_stored(JinjaNode *target) {
    target->flag = true;
    for (size_t i = 0; i < target->items.count; i++) mark_stored(target->items.at[i]);
}

bool jinja_expression_target(JinjaParser *parser, bool with_namespace, JinjaNode **node) {
    if (!parse_tuple(parser, true, true, false, with_namespace, node)) return false;
    const char *what = unassignable(*node);
    mark_stored(*node);
    return !what || jinja_parse_fail(parser, (*node)->line, "can't assign to '%s'", what);
}

static bool parse_subscript(JinjaParser *parser, JinjaNode **node) {
    static const char *const after[] = {":", "]", ","};
    int line = parser->current.line, parts = 0;
    JinjaNode *slice = jinja_parse_node(parser, JINJA_N_SLICE, line);
    JinjaNode **at[] = {&slice->first, &slice->second, &slice->third};
    for (;;) {
        bool empty = false, colon;
        for (int i = 0; i < 3; i++) empty |= parts + (i == 0) && at_operator(parser, after[i]);
        if (!empty && !jinja_expression_parse(parser, true, at[parts])) return false;
        if (parts == 2) break;
        if (!jinja_parse_skip(parser, JINJA_T_OPERATOR, ":", &colon)) return false;
        if (!colon && !parts) {
            *node = slice->first;
            return true;
        }
        if (!colon) break;
        parts++;
    }
    *node = slice;
    return jinja_parse_close(parser, slice);
}

static bool parse_item(JinjaParser *parser, JinjaNode **node) {
    int line = parser->current.line;
    JinjaNode *subscripts = jinja_parse_node(parser, JINJA_N_TUPLE, line);
    if (!jinja_parse_advance(parser)) return false;
    while (!at_operator(parser, "]")) {
        JinjaNode *item;
        if (subscripts->items.count && !jinja_parse_expect(parser, JINJA_T_OPERATOR, ",", NULL)) return false;
        if (!parse_subscript(parser, &item)) return false;
        jinja_parse_push(parser, &subscripts->items, item);
    }
    if (!jinja_parse_advance(parser) || !jinja_parse_close(parser, subscripts)) return false;
    JinjaNode *item = subscripts->items.count == 1 ? subscripts->items.at[0] : subscripts;
    return wrap(parser, JINJA_N_GETITEM, line, item, node);
}

static bool parse_attribute(JinjaParser *parser, JinjaNode **node) {
    int line = parser->current.line;
    if (!jinja_parse_advance(parser)) return false;
    JinjaToken token = parser->current;
    if (!jinja_parse_advance(parser)) return false;
    if (token.type == JINJA_T_NAME) {
        if (!wrap(parser, JINJA_N_GETATTR, line, NULL, node)) return false;
        (*node)->name = token.value;
        return true;
    }
    if (token.type != JINJA_T_INTEGER) return jinja_parse_fail(parser, token.line, "expected name or number");
    JinjaNode *index;
    return constant(parser, token.value, token.line, &index) && wrap(parser, JINJA_N_GETITEM, line, index, node);
}

// The kind of argument at the current token: SPREAD, SPREAD_KEYWORDS, KEYWORD, or CONST for a plain one.
static bool argument_type(JinjaParser *parser, JinjaNodeType *type) {
    JinjaToken ahead;
    *type = at_operator(parser, "*")    ? JINJA_N_SPREAD
            : at_operator(parser, "**") ? JINJA_N_SPREAD_KEYWORDS
                                        : JINJA_N_CONST;
    if (!at_name(parser, NULL)) return true;
    if (!jinja_parse_look(parser, &ahead)) return false;
    if (ahead.type == JINJA_T_OPERATOR && jinja_value_is(ahead.value, "=")) *type = JINJA_N_KEYWORD;
    return true;
}

// last: the last kind of argument in the order plain, keyword, *, ** that was seen so far.
static bool parse_argument(JinjaParser *parser, JinjaNodes *arguments, JinjaNodeType *last, int line) {
    JinjaNodeType type;
    JinjaNode *argument, *value;
    JinjaValue name = parser->current.value;
    if (!argument_type(parser, &type)) return false;
    bool ordered = type == JINJA_N_CONST    ? *last == JINJA_N_CONST
                   : type == JINJA_N_SPREAD ? *last < JINJA_N_SPREAD
                                            : *last < JINJA_N_SPREAD_KEYWORDS;
    if (!ordered) return jinja_parse_fail(parser, line, "invalid syntax for function call expression");
    if (type > *last) *last = type;
    if (type != JINJA_N_CONST && !jinja_parse_advance(parser)) return false;
    if (type == JINJA_N_KEYWORD && !jinja_parse_advance(parser)) return false;
    if (!jinja_expression_parse(parser, true, &value)) return false;
    if (type == JINJA_N_CONST) {
        jinja_parse_push(parser, arguments, value);
        return true;
    }
    argument = jinja_parse_node(parser, type, value->line);
    argument->first = value;
    argument->name = name;
    jinja_parse_push(parser, arguments, argument);
    return jinja_parse_close(parser, argument);
}

static bool parse_arguments(JinjaParser *parser, JinjaNodes *arguments) {
    int line = parser->current.line;
    JinjaNodeType last = JINJA_N_CONST;
    if (!jinja_parse_expect(parser, JINJA_T_OPERATOR, "(", NULL)) return false;
    while (!at_operator(parser, ")")) {
        if (arguments->count) {
            if (!jinja_parse_expect(parser, JINJA_T_OPERATOR, ",", NULL)) return false;
            if (at_operator(parser, ")")) break;
        }
        if (!parse_argument(parser, arguments, &last, line)) return false;
    }
    return jinja_parse_advance(parser);
}

static bool parse_call(JinjaParser *parser, JinjaNode **node) {
    JinjaNode *call = jinja_parse_node(parser, JINJA_N_CALL, parser->current.line);
    call->first = *node;
    *node = call;
    return parse_arguments(parser, &call->items) && jinja_parse_close(parser, call);
}

static bool parse_postfix(JinjaParser *parser, JinjaNode **node) {
    for (;;) {
        if (at_operator(parser, ".")) {
            if (!parse_attribute(parser, node)) return false;
        } else if (at_operator(parser, "[")) {
            if (!parse_item(parser, node)) return false;
        } else if (at_operator(parser, "(")) {
            if (!parse_call(parser, node)) return false;
        } else {
            return true;
        }
    }
}

// name.name.name
static bool parse_dotted(JinjaParser *parser, JinjaValue *name) {
    JinjaToken token;
    JinjaBuffer buffer = {0};
    if (!jinja_parse_expect(parser, JINJA_T_NAME, NULL, &token)) return false;
    jinja_run_put(parser->run, &buffer, token.value.text, token.value.size);
    while (at_operator(parser, ".")) {
        if (!jinja_parse_advance(parser) || !jinja_parse_expect(parser, JINJA_T_NAME, NULL, &token)) return false;
        jinja_run_puts(parser->run, &buffer, ".");
        jinja_run_put(parser->run, &buffer, token.value.text, token.value.size);
    }
    *name = jinja_text_taken(&buffer);
    return true;
}

bool jinja_expression_filter(JinjaParser *parser, JinjaNode *subject, bool start_inline, JinjaNode **node) {
    *node = subject;
    while (start_inline || at_operator(parser, "|")) {
        if (!start_inline && !jinja_parse_advance(parser)) return false;
        JinjaNode *filter = jinja_parse_node(parser, JINJA_N_FILTER, parser->current.line);
        filter->first = *node;
        *node = filter;
        if (!parse_dotted(parser, &filter->name)) return false;
        if (at_operator(parser, "(") && !parse_arguments(parser, &filter->items)) return false;
        if (!jinja_parse_close(parser, filter)) return false;
        start_inline = false;
    }
    return true;
}

bool jinja_expression_filters(JinjaParser *parser, JinjaNode **node) {
    return jinja_expression_filter(parser, NULL, false, node);
}

static bool starts_argument(const JinjaParser *parser) {
    switch (parser->current.type) {
    case JINJA_T_NAME: return !at_name(parser, "else") && !at_name(parser, "or") && !at_name(parser, "and");
    case JINJA_T_STRING:
    case JINJA_T_INTEGER:
    case JINJA_T_FLOAT: return true;
    default: return at_operator(parser, "[") || at_operator(parser, "{");
    }
}

static bool parse_test(JinjaParser *parser, JinjaNode **node) {
    bool negated;
    JinjaNode *test = jinja_parse_node(parser, JINJA_N_TEST, parser->current.line), *argument;
    test->first = *node;
    *node = test;
    if (!jinja_parse_advance(parser) || !jinja_parse_skip(parser, JINJA_T_NAME, "not", &negated) ||
        !parse_dotted(parser, &test->name))
        return false;
    if (at_operator(parser, "(")) {
        if (!parse_arguments(parser, &test->items)) return false;
    } else if (starts_argument(parser)) {
        if (at_name(parser, "is"))
            return jinja_parse_fail(parser, parser->current.line, "You cannot chain multiple tests with is");
        if (!parse_primary(parser, false, &argument) || !parse_postfix(parser, &argument)) return false;
        jinja_parse_push(parser, &test->items, argument);
    }
    return jinja_parse_close(parser, test) && (!negated || wrap(parser, JINJA_N_NOT, test->line, NULL, node));
}

static bool parse_filters_and_tests(JinjaParser *parser, JinjaNode **node) {
    for (;;) {
        if (at_operator(parser, "|")) {
            if (!jinja_expression_filter(parser, *node, false, node)) return false;
        } else if (at_name(parser, "is")) {
            if (!parse_test(parser, node)) return false;
        } else if (at_operator(parser, "(")) {
            if (!parse_call(parser, node)) return false;
        } else {
            return true;
        }
    }
}

static bool parse_unary(JinjaParser *parser, bool with_filter, JinjaNode **node) {
    int line = parser->current.line;
    if (at_operator(parser, "-") || at_operator(parser, "+")) {
        JinjaNodeType type = at_operator(parser, "-") ? JINJA_N_NEGATE : JINJA_N_PLUS;
        if (!jinja_parse_enter(parser) || !jinja_parse_advance(parser) || !parse_unary(parser, false, node))
            return false;
        jinja_run_leave(parser->run);
        if (!wrap(parser, type, line, NULL, node)) return false;
    } else if (!parse_primary(parser, false, node)) {
        return false;
    }
    return parse_postfix(parser, node) && (!with_filter || parse_filters_and_tests(parser, node));
}
