// A parsed template: tokens, nodes and scopes, as passed from lexer to parser to scopes to evaluation. Private to the
// interpreter; callers use text/jinja.h. Everything lives in the memory of the run that parsed it.
#pragma once
#include "text/jinja_number.h"
#include "text/jinja_value.h"

// ---- Tokens (jinja_lex.c; rules of jinja2.lexer with trim_blocks and lstrip_blocks) ----

typedef enum JinjaTokenType {
    JINJA_T_END, // of the template
    JINJA_T_DATA,
    JINJA_T_BLOCK_BEGIN,
    JINJA_T_BLOCK_END,
    JINJA_T_PRINT_BEGIN,
    JINJA_T_PRINT_END,
    JINJA_T_NAME,
    JINJA_T_STRING,
    JINJA_T_INTEGER,
    JINJA_T_FLOAT,
    JINJA_T_OPERATOR, // text tells which
} JinjaTokenType;

typedef struct JinjaToken {
    JinjaTokenType type;
    int line;
    JinjaValue value; // STRING: text of data, name, string or operator; INTEGER, FLOAT: the number
} JinjaToken;

typedef struct JinjaLexer {
    JinjaRun *run;
    const char *source; // line ends made "\n", the last one gone
    size_t size, at;
    int line;
    enum { JINJA_IN_DATA, JINJA_IN_BLOCK, JINJA_IN_PRINT, JINJA_IN_RAW } state;
    bool line_starting;     // the last match ended in a line break
    char open[JINJA_DEPTH]; // brackets to be closed
    int open_count;
    JinjaToken pending; // the tag behind the data that was returned first
    bool has_pending;
} JinjaLexer;

// source is checked to be UTF-8.
bool jinja_lex_open(JinjaLexer *lexer, JinjaRun *run, const char *source, size_t size);
bool jinja_lex_next(JinjaLexer *lexer, JinjaToken *token);

// ---- Nodes (jinja_parse.c, jinja_expression.c; names of jinja2.nodes) ----

typedef enum JinjaNodeType {
    // expressions
    JINJA_N_CONST,           // value
    JINJA_N_NAME,            // name; hops and slot; flag: it is stored, not loaded
    JINJA_N_NSREF,           // name.attribute as a target; hops and slot
    JINJA_N_LIST,            // items
    JINJA_N_TUPLE,           // items
    JINJA_N_DICT,            // items: key, value, key, value …
    JINJA_N_BINARY,          // first operator second
    JINJA_N_NEGATE,          // first
    JINJA_N_PLUS,            // first
    JINJA_N_NOT,             // first
    JINJA_N_AND,             // first, second
    JINJA_N_OR,              // first, second
    JINJA_N_CONCAT,          // items
    JINJA_N_COMPARE,         // first, then items: each an OPERAND
    JINJA_N_OPERAND,         // compare, first
    JINJA_N_CONDITION,       // second if first else third (may be NULL)
    JINJA_N_GETATTR,         // first.name
    JINJA_N_GETITEM,         // first[second]
    JINJA_N_SLICE,           // first:second:third, each may be NULL
    JINJA_N_CALL,            // first(items)
    JINJA_N_FILTER,          // first | name(items); first NULL: the text of the block
    JINJA_N_TEST,            // first is name(items)
    JINJA_N_KEYWORD,         // an argument name=first
    JINJA_N_SPREAD,          // an argument *first
    JINJA_N_SPREAD_KEYWORDS, // an argument **first
    // statements
    JINJA_N_OUTPUT,       // items; CONST of plain text or expressions
    JINJA_N_IF,           // items: each a BRANCH; other: else
    JINJA_N_BRANCH,       // first, body
    JINJA_N_FOR,          // first in second if third (may be NULL): body; else: other; flag: recursive
    JINJA_N_SET,          // first = second
    JINJA_N_SET_BLOCK,    // first = body, filtered by second (may be NULL)
    JINJA_N_WITH,         // items: targets, items of other: values; body
    JINJA_N_MACRO,        // name, first; parameters in items (NAME), defaults in other, for the last of them
    JINJA_N_CALL_BLOCK,   // first is the CALL; parameters and defaults as in MACRO
    JINJA_N_GENERATION,   // body
    JINJA_N_FILTER_BLOCK, // first is the FILTER, body
    JINJA_N_BREAK,
    JINJA_N_CONTINUE,
} JinjaNodeType;

typedef enum JinjaCompare {
    JINJA_EQ,
    JINJA_NE,
    JINJA_LT,
    JINJA_LE,
    JINJA_GT,
    JINJA_GE,
    JINJA_IN,
    JINJA_NOT_IN
} JinjaCompare;

typedef struct JinjaNode JinjaNode;
typedef struct JinjaScope JinjaScope;

typedef struct JinjaNodes {
    JinjaNode **at;
    size_t count, capacity;
} JinjaNodes;

struct JinjaNode {
    JinjaNodeType type;
    int line, depth; // depth: levels of nodes below this one
    JinjaOperator operator;
    JinjaCompare compare;
    bool flag;
    int hops, slot;             // of a name: scopes outwards, place there
    JinjaValue value;           // CONST
    JinjaValue name, attribute; // strings
    JinjaNode *first, *second, *third;
    JinjaNodes items, body, other;
    int builtin;             // FILTER, TEST: index in its table, -1 when there is no such
    JinjaScope *scope;       // of body (FOR, SET_BLOCK, WITH, MACRO, CALL_BLOCK, GENERATION, FILTER_BLOCK)
    JinjaScope *other_scope; // FOR: of other
    JinjaScope *test_scope;  // FOR: of third
    int loop_slot;           // FOR: place of `loop` in scope, -1 when the body does not use it
    int caller_slot, varargs_slot, keywords_slot; // MACRO: places of caller, varargs, kwargs, or -1
};

typedef struct JinjaParser {
    JinjaRun *run;
    JinjaLexer lexer;
    JinjaToken current, ahead;
    bool has_ahead;
    const struct JinjaOpenTag *tags;  // statements being parsed, innermost first
    const struct JinjaWanted *wanted; // end tags looked for, innermost first
    int loops;                        // loops that break and continue may leave
} JinjaParser;

// A list of statements: the whole template.
bool jinja_parse(JinjaRun *run, const char *source, size_t size, JinjaNodes *body);

// Used by statements and expressions alike. All fail with a TemplateSyntaxError at the current line.
bool jinja_parse_advance(JinjaParser *parser);
bool jinja_parse_look(JinjaParser *parser, JinjaToken *token); // the token behind the current one
bool jinja_parse_at(const JinjaParser *parser, JinjaTokenType type, const char *text); // text NULL: any
bool jinja_parse_skip(JinjaParser *parser, JinjaTokenType type, const char *text, bool *skipped);
bool jinja_parse_expect(JinjaParser *parser, JinjaTokenType type, const char *text, JinjaToken *token); // token or NULL
bool jinja_parse_fail(JinjaParser *parser, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *jinja_parse_describe(JinjaParser *parser, JinjaToken token);
bool jinja_parse_enter(JinjaParser *parser); // counts nesting of the source; undone by jinja_run_leave
JinjaNode *jinja_parse_node(JinjaParser *parser, JinjaNodeType type, int line);
void jinja_parse_push(JinjaParser *parser, JinjaNodes *nodes, JinjaNode *node);
bool jinja_parse_close(JinjaParser *parser, JinjaNode *node); // counts its depth: once all children are set

// jinja_expression.c
bool jinja_expression_parse(JinjaParser *parser, bool with_condition, JinjaNode **node);
bool jinja_expression_tuple(JinjaParser *parser, bool with_condition, JinjaNode **node);
bool jinja_expression_target(JinjaParser *parser, bool with_namespace, JinjaNode **node);
bool jinja_expression_filter(JinjaParser *parser, JinjaNode *subject, bool start_inline, JinjaNode **node);
bool jinja_expression_filters(JinjaParser *parser, JinjaNode **node); // of {% set x | a | b %}: NULL when none

// ---- Scopes (jinja_scope.c; rules of jinja2.idtracking) ----

typedef enum JinjaLoad {
    JINJA_LOAD_PARAMETER, // set by the statement itself
    JINJA_LOAD_CONTEXT,   // the variable of the render call, or a global
    JINJA_LOAD_ALIAS,     // a copy of an outer variable
    JINJA_LOAD_NOTHING,
} JinjaLoad;

// A variable of a scope and how it begins when the scope is entered.
typedef struct JinjaSymbol {
    JinjaValue name;
    JinjaLoad load;
    int hops, slot; // ALIAS: where from, seen from this scope
    bool stored;
} JinjaSymbol;

struct JinjaScope {
    JinjaScope *parent;
    JinjaSymbol *symbols;
    int count, capacity;
};

// Finds out which variable each name means, and that each filter and test exists.
bool jinja_scope_resolve(JinjaRun *run, JinjaNodes *body, JinjaScope **root);
