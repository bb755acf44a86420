#include "text/jinja_text.h"
#include "text/jinja_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SOURCE_DEPTH = 200, NODE_DEPTH = JINJA_DEPTH / 2, MOST_PARAMETERS = 255 }; // Python gives up earlier

typedef struct JinjaOpenTag {
    JinjaValue name;
    const struct JinjaOpenTag *outer;
} JinjaOpenTag;

typedef struct JinjaWanted {
    const char *const *tags; // NULL-closed
    const struct JinjaWanted *outer;
} JinjaWanted;

bool jinja_parse_fail(JinjaParser *parser, int line, const char *format, ...) {
    char text[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    parser->run->line = line;
    return jinja_run_fault(parser->run, "TemplateSyntaxError", "%s", text);
}

const char *jinja_parse_describe(JinjaParser *parser, JinjaToken token) {
    switch (token.type) {
    case JINJA_T_END: return "end of template";
    case JINJA_T_DATA: return "template data / text";
    case JINJA_T_BLOCK_BEGIN: return "begin of statement block";
    case JINJA_T_BLOCK_END: return "end of statement block";
    case JINJA_T_PRINT_BEGIN: return "begin of print statement";
    case JINJA_T_PRINT_END: return "end of print statement";
    case JINJA_T_STRING: return "string";
    case JINJA_T_INTEGER: return "integer";
    case JINJA_T_FLOAT: return "float";
    default: return jinja_value_copy(parser->run, token.value.text, token.value.size).text;
    }
}

bool jinja_parse_advance(JinjaParser *parser) {
    if (!jinja_run_step(parser->run, 1)) return false;
    if (parser->has_ahead) {
        parser->current = parser->ahead;
        parser->has_ahead = false;
        return true;
    }
    return jinja_lex_next(&parser->lexer, &parser->current);
}

bool jinja_parse_look(JinjaParser *parser, JinjaToken *token) {
    if (!parser->has_ahead && !jinja_lex_next(&parser->lexer, &parser->ahead)) return false;
    parser->has_ahead = true;
    *token = parser->ahead;
    return true;
}

bool jinja_parse_enter(JinjaParser *parser) {
    if (parser->run->depth < SOURCE_DEPTH) return jinja_run_enter(parser->run);
    return jinja_parse_fail(parser, parser->current.line, "nested more than %d levels deep", SOURCE_DEPTH);
}

static bool is_token(JinjaToken token, JinjaTokenType type, const char *text) {
    return token.type == type && (!text || jinja_value_is(token.value, text));
}

bool jinja_parse_at(const JinjaParser *parser, JinjaTokenType type, const char *text) {
    return is_token(parser->current, type, text);
}

bool jinja_parse_skip(JinjaParser *parser, JinjaTokenType type, const char *text, bool *skipped) {
    *skipped = jinja_parse_at(parser, type, text);
    return !*skipped || jinja_parse_advance(parser);
}

bool jinja_parse_expect(JinjaParser *parser, JinjaTokenType type, const char *text, JinjaToken *token) {
    JinjaToken found = parser->current;
    if (token) *token = found;
    if (is_token(found, type, text)) return jinja_parse_advance(parser);
    const char *wanted = text                   ? text
                         : type == JINJA_T_NAME ? "name"
                                                : jinja_parse_describe(parser, (JinjaToken){.type = type});
    if (found.type == JINJA_T_END)
        return jinja_parse_fail(parser, found.line, "unexpected end of template, expected '%s'.", wanted);
    return jinja_parse_fail(parser, found.line, "expected token '%s', got '%s'", wanted,
                            jinja_parse_describe(parser, found));
}

JinjaNode *jinja_parse_node(JinjaParser *parser, JinjaNodeType type, int line) {
    JinjaNode *node = jinja_run_new(parser->run, JinjaNode);
    node->type = type;
    node->line = line;
    node->loop_slot = node->caller_slot = node->varargs_slot = node->keywords_slot = node->builtin = -1;
    return node;
}

void jinja_parse_push(JinjaParser *parser, JinjaNodes *nodes, JinjaNode *node) {
    if (nodes->count == nodes->capacity) {
        size_t capacity = nodes->capacity ? nodes->capacity * 2 : 4;
        JinjaNode **grown = jinja_run_alloc(parser->run, capacity * sizeof *grown);
        if (nodes->count) memcpy(grown, nodes->at, nodes->count * sizeof *grown);
        nodes->at = grown;
        nodes->capacity = capacity;
    }
    nodes->at[nodes->count++] = node;
}

static int deeper(const JinjaNode *node, int depth) {
    return node && node->depth + 1 > depth ? node->depth + 1 : depth;
}

bool jinja_parse_close(JinjaParser *parser, JinjaNode *node) {
    int depth = deeper(node->third, deeper(node->second, deeper(node->first, 0)));
    const JinjaNodes *const lists[] = {&node->items, &node->body, &node->other};
    for (size_t l = 0; l < 3; l++)
        for (size_t i = 0; i < lists[l]->count; i++) depth = deeper(lists[l]->at[i], depth);
    node->depth = depth;
    return depth < NODE_DEPTH || jinja_parse_fail(parser, node->line, "nested more than %d levels deep", NODE_DEPTH);
}

// "'elif' or 'else' or 'endif'"
static void join_tags(char *text, size_t size, const char *const *tags) {
    size_t length = 0;
    text[0] = 0;
    for (size_t i = 0; tags[i] && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s'%s'", i ? " or " : "", tags[i]);
}

static bool fail_tag(JinjaParser *parser, const JinjaValue *name, const JinjaWanted *wanted) {
    char start[300], looking[200] = "", hint[400] = "", inner[300] = "";
    bool expected = false;
    if (name)
        snprintf(start, sizeof start, "Encountered unknown tag '%.*s'.", (int)(name->size < 200 ? name->size : 200),
                 name->text);
    else
        snprintf(start, sizeof start, "Unexpected end of template.");
    for (const JinjaWanted *level = wanted; level; level = level->outer)
        for (size_t i = 0; name && level->tags[i]; i++) expected |= jinja_value_is(*name, level->tags[i]);
    if (wanted) join_tags(looking, sizeof looking, wanted->tags);
    if (wanted && expected)
        snprintf(hint, sizeof hint,
                 " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for %s.",
                 looking);
    else if (wanted)
        snprintf(hint, sizeof hint, " Jinja was looking for the following tags: %s.", looking);
    if (parser->tags)
        snprintf(inner, sizeof inner, " The innermost block that needs to be closed is '%.*s'.",
                 (int)(parser->tags->name.size < 200 ? parser->tags->name.size : 200), parser->tags->name.text);
    return jinja_parse_fail(parser, parser->current.line, "%s%s%s", start, hint, inner);
}

static bool parse_statement(JinjaParser *parser, JinjaNodes *body);

static bool at_any(const JinjaParser *parser, const char *const *tags) {
    for (size_t i = 0; tags && tags[i]; i++)
        if (jinja_parse_at(parser, JINJA_T_NAME, tags[i])) return true;
    return false;
}

static bool parse_print(JinjaParser *parser, JinjaNode *output) {
    JinjaNode *node;
    if (!jinja_parse_advance(parser) || !jinja_expression_tuple(parser, true, &node)) return false;
    jinja_parse_push(parser, &output->items, node);
    return jinja_parse_expect(parser, JINJA_T_PRINT_END, NULL, NULL);
}

// Statements up to one of the tags (which becomes the current token) or the end of the template.
static bool parse_body(JinjaParser *parser, const char *const *tags, JinjaNodes *body) {
    JinjaWanted wanted = {tags, parser->wanted};
    JinjaNode *output = NULL; // texts and expressions since the last statement
    if (tags) parser->wanted = &wanted;
    for (;;) {
        JinjaToken token = parser->current;
        if (token.type == JINJA_T_DATA || token.type == JINJA_T_PRINT_BEGIN) {
            if (!output) jinja_parse_push(parser, body, output = jinja_parse_node(parser, JINJA_N_OUTPUT, token.line));
        } else if (output) {
            if (!jinja_parse_close(parser, output)) return false;
            output = NULL;
        }
        if (token.type == JINJA_T_END) break;
        if (token.type == JINJA_T_PRINT_BEGIN) {
            if (!parse_print(parser, output)) return false;
        } else if (token.type == JINJA_T_DATA) {
            JinjaNode *text = jinja_parse_node(parser, JINJA_N_CONST, token.line);
            text->value = token.value;
            if (token.value.size) jinja_parse_push(parser, &output->items, text);
            if (!jinja_parse_advance(parser)) return false;
        } else {
            if (!jinja_parse_advance(parser)) return false;
            if (at_any(parser, tags)) break;
            if (!parse_statement(parser, body) || !jinja_parse_expect(parser, JINJA_T_BLOCK_END, NULL, NULL))
                return false;
        }
    }
    parser->wanted = tags ? wanted.outer : parser->wanted;
    return jinja_run_good(parser->run);
}

// The body of a statement: behind its tag, up to and with one of the end tags, whose name goes to *end.
static bool parse_block(JinjaParser *parser, const char *const *tags, JinjaNodes *body, JinjaToken *end) {
    bool skipped;
    if (!jinja_parse_skip(parser, JINJA_T_OPERATOR, ":", &skipped)) return false;
    if (!jinja_parse_expect(parser, JINJA_T_BLOCK_END, NULL, NULL) || !parse_body(parser, tags, body)) return false;
    if (parser->current.type == JINJA_T_END) {
        JinjaWanted wanted = {tags, parser->wanted};
        return fail_tag(parser, NULL, &wanted);
    }
    if (end) *end = parser->current;
    return jinja_parse_advance(parser);
}

// The body of what Python sees as a function of its own: loops outside cannot be left from there.
static bool parse_function(JinjaParser *parser, const char *const *tags, JinjaNodes *body) {
    int loops = parser->loops;
    parser->loops = 0;
    bool good = parse_block(parser, tags, body, NULL);
    parser->loops = loops;
    return good;
}

static bool parse_set(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = {"endset", NULL};
    bool assigned;
    if (!jinja_expression_target(parser, true, &node->first)) return false;
    if (!jinja_parse_skip(parser, JINJA_T_OPERATOR, "=", &assigned)) return false;
    if (assigned) return jinja_expression_tuple(parser, true, &node->second);
    node->type = JINJA_N_SET_BLOCK;
    return jinja_expression_filters(parser, &node->second) && parse_block(parser, ends, &node->body, NULL);
}

static bool parse_for(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = {"endfor", "else", NULL}, *const last[] = {"endfor", NULL};
    bool filtered;
    JinjaToken end;
    if (!jinja_expression_target(parser, false, &node->first) ||
        !jinja_parse_expect(parser, JINJA_T_NAME, "in", NULL) ||
        !jinja_expression_tuple(parser, false, &node->second) ||
        !jinja_parse_skip(parser, JINJA_T_NAME, "if", &filtered))
        return false;
    if (filtered && !jinja_expression_parse(parser, true, &node->third)) return false;
    if (!jinja_parse_skip(parser, JINJA_T_NAME, "recursive", &node->flag)) return false;
    parser->loops++;
    bool good = parse_block(parser, ends, &node->body, &end);
    parser->loops--;
    return good && (jinja_value_is(end.value, "endfor") || parse_block(parser, last, &node->other, NULL));
}

static bool parse_if(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    JinjaToken end;
    do {
        JinjaNode *branch = jinja_parse_node(parser, JINJA_N_BRANCH, parser->current.line);
        if (!jinja_expression_tuple(parser, false, &branch->first) || !parse_block(parser, ends, &branch->body, &end) ||
            !jinja_parse_close(parser, branch))
            return false;
        jinja_parse_push(parser, &node->items, branch);
    } while (jinja_value_is(end.value, "elif"));
    return jinja_value_is(end.value, "endif") || parse_block(parser, last, &node->other, NULL);
}

static bool parse_with(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = {"endwith", NULL};
    while (!jinja_parse_at(parser, JINJA_T_BLOCK_END, NULL)) {
        JinjaNode *target, *value;
        if (node->items.count && !jinja_parse_expect(parser, JINJA_T_OPERATOR, ",", NULL)) return false;
        if (!jinja_expression_target(parser, false, &target) ||
            !jinja_parse_expect(parser, JINJA_T_OPERATOR, "=", NULL) || !jinja_expression_parse(parser, true, &value))
            return false;
        jinja_parse_push(parser, &node->items, target);
        jinja_parse_push(parser, &node->other, value);
    }
    return parse_block(parser, ends, &node->body, NULL);
}

static bool parse_name(JinjaParser *parser, JinjaValue *name) {
    JinjaToken token;
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    if (!jinja_parse_expect(parser, JINJA_T_NAME, NULL, &token)) return false;
    for (size_t i = 0; i < 6; i++)
        if (jinja_value_is(token.value, constants[i]))
            return jinja_parse_fail(parser, token.line, "can't assign to 'name'");
    *name = token.value;
    return true;
}

static bool is_parameter(const JinjaNode *macro, JinjaValue name) {
    for (size_t i = 0; i < macro->items.count; i++) {
        JinjaValue known = macro->items.at[i]->name;
        if (known.size == name.size && !memcmp(known.text, name.text, name.size)) return true;
    }
    return false;
}

static bool parse_signature(JinjaParser *parser, JinjaNode *node) {
    if (!jinja_parse_expect(parser, JINJA_T_OPERATOR, "(", NULL)) return false;
    while (!jinja_parse_at(parser, JINJA_T_OPERATOR, ")")) {
        bool assigned;
        JinjaNode *value, *parameter = jinja_parse_node(parser, JINJA_N_NAME, parser->current.line);
        if (node->items.count && !jinja_parse_expect(parser, JINJA_T_OPERATOR, ",", NULL)) return false;
        if (!parse_name(parser, &parameter->name) || !jinja_parse_skip(parser, JINJA_T_OPERATOR, "=", &assigned))
            return false;
        if (is_parameter(node, parameter->name) || node->items.count >= MOST_PARAMETERS)
            return jinja_parse_fail(parser, parameter->line, "duplicate argument, or too many, in a definition");
        if (assigned) {
            if (!jinja_expression_parse(parser, true, &value)) return false;
            jinja_parse_push(parser, &node->other, value);
        } else if (node->other.count) {
            return jinja_parse_fail(parser, parser->current.line, "non-default argument follows default argument");
        }
        parameter->flag = true;
        jinja_parse_push(parser, &node->items, parameter);
    }
    return jinja_parse_advance(parser);
}

static bool parse_macro(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = {"endmacro", NULL};
    node->first = jinja_parse_node(parser, JINJA_N_NAME, parser->current.line);
    if (!parse_name(parser, &node->name) || !parse_signature(parser, node)) return false;
    node->first->name = node->name;
    node->first->flag = true;
    return parse_function(parser, ends, &node->body);
}

static bool parse_call_block(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = {"endcall", NULL};
    if (jinja_parse_at(parser, JINJA_T_OPERATOR, "(") && !parse_signature(parser, node)) return false;
    if (!jinja_expression_parse(parser, true, &node->first)) return false;
    if (node->first->type != JINJA_N_CALL) return jinja_parse_fail(parser, node->line, "expected call");
    return parse_function(parser, ends, &node->body);
}

static bool parse_filter_block(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = {"endfilter", NULL};
    return jinja_expression_filter(parser, NULL, true, &node->first) && parse_block(parser, ends, &node->body, NULL);
}

static bool parse_generation(JinjaParser *parser, JinjaNode *node) {
    static const char *const ends[] = {"endgeneration", NULL};
    return parse_function(parser, ends, &node->body);
}

static bool parse_output(JinjaParser *parser, JinjaNode *node) {
    while (!jinja_parse_at(parser, JINJA_T_BLOCK_END, NULL)) {
        JinjaNode *item;
        if (node->items.count && !jinja_parse_expect(parser, JINJA_T_OPERATOR, ",", NULL)) return false;
        if (!jinja_expression_parse(parser, true, &item)) return false;
        jinja_parse_push(parser, &node->items, item);
    }
    return true;
}

static bool parse_leave(JinjaParser *parser, JinjaNode *node) {
    if (parser->loops) return true;
    return jinja_parse_fail(parser, node->line,
                            node->type == JINJA_N_BREAK ? "'break' outside loop" : "'continue' not properly in loop");
}

static const struct Statement {
    const char *name;
    JinjaNodeType type;
    bool (*parse)(JinjaParser *, JinjaNode *);
} statements[] = {
    {"set", JINJA_N_SET, parse_set},
    {"for", JINJA_N_FOR, parse_for},
    {"if", JINJA_N_IF, parse_if},
    {"with", JINJA_N_WITH, parse_with},
    {"macro", JINJA_N_MACRO, parse_macro},
    {"call", JINJA_N_CALL_BLOCK, parse_call_block},
    {"filter", JINJA_N_FILTER_BLOCK, parse_filter_block},
    {"generation", JINJA_N_GENERATION, parse_generation},
    {"print", JINJA_N_OUTPUT, parse_output},
    {"break", JINJA_N_BREAK, parse_leave},
    {"continue", JINJA_N_CONTINUE, parse_leave},
};

static bool parse_named(JinjaParser *parser, JinjaNodes *body, JinjaToken name) {
    static const char *const foreign[] = {"block", "extends", "include", "import", "from", "autoescape", NULL};
    if (at_any(parser, foreign))
        return jinja_parse_fail(parser, name.line, "the tag '%s' is not supported in chat templates",
                                jinja_parse_describe(parser, name));
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!jinja_value_is(name.value, statements[i].name)) continue;
        JinjaNode *node = jinja_parse_node(parser, statements[i].type, name.line);
        if (!jinja_parse_advance(parser) || !statements[i].parse(parser, node)) return false;
        jinja_parse_push(parser, body, node);
        return jinja_parse_close(parser, node);
    }
    parser->tags = parser->tags->outer;
    return fail_tag(parser, &name.value, parser->wanted);
}

static bool parse_statement(JinjaParser *parser, JinjaNodes *body) {
    JinjaToken name = parser->current;
    if (name.type != JINJA_T_NAME) return jinja_parse_fail(parser, name.line, "tag name expected");
    JinjaOpenTag tag = {name.value, parser->tags};
    parser->tags = &tag;
    if (!jinja_parse_enter(parser) || !parse_named(parser, body, name)) return false;
    jinja_run_leave(parser->run);
    parser->tags = tag.outer;
    return true;
}

bool jinja_parse(JinjaRun *run, const char *source, size_t size, JinjaNodes *body) {
    JinjaParser parser = {.run = run};
    return jinja_lex_open(&parser.lexer, run, source, size) && jinja_parse_advance(&parser) &&
           parse_body(&parser, NULL, body);
}
