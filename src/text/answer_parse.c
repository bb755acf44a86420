#include "text/answer_parse.h"

#include "text/answer_lex.h"

#include <string.h>

enum { MAX_DEPTH = 60, MAX_PARTS = 256 };

typedef struct Parser {
    Token *tokens;
    int at;
    size_t consumed; // digits of the token that arguments of one digit have taken (\frac12)
    int depth;
    bool in_bars;     // within |…|, where a bar closes
    bool in_function; // the argument of a function without brackets: ends before + and −, and at an explicit product
    Arena *arena;
} Parser;

Node *answer_node(Arena *arena, NodeKind kind, int count) {
    Node *node = arena_array(arena, Node, 1);
    *node = (Node){.kind = kind, .count = count, .child = count ? arena_array(arena, Node *, count) : NULL};
    return node;
}

Node *answer_node_of(Arena *arena, NodeKind kind, Node *first, Node *second) {
    Node *node = answer_node(arena, kind, second ? 2 : 1);
    node->child[0] = first;
    if (second) node->child[1] = second;
    return node;
}

static Node *pair(Parser *parser, NodeKind kind, Node *left, Node *right) {
    return left && right ? answer_node_of(parser->arena, kind, left, right) : NULL;
}
static Node *over(Parser *parser, NodeKind kind, Node *child) {
    return child ? answer_node_of(parser->arena, kind, child, NULL) : NULL;
}

static Token *peek(Parser *parser) {
    return &parser->tokens[parser->at];
}
static bool is_kind(Parser *parser, TokenKind kind) {
    return peek(parser)->kind == kind;
}
static bool is_sign(Parser *parser, char sign) {
    return is_kind(parser, TOKEN_SIGN) && peek(parser)->sign == sign;
}
static bool take_sign(Parser *parser, char sign) {
    bool found = is_sign(parser, sign);
    parser->at += found;
    return found;
}
static bool take_kind(Parser *parser, TokenKind kind) {
    bool found = is_kind(parser, kind);
    parser->at += found;
    return found;
}

static Node *parse_list(Parser *parser);
static Node *parse_sum(Parser *parser);
static Node *parse_factor(Parser *parser);

static Node *number_node(Parser *parser, WrittenNumber number) {
    Node *node = answer_node(parser->arena, NODE_NUMBER, 0);
    node->number = number;
    return node;
}

// A whole answer within brackets: what held outside holds no more.
static Node *nested(Parser *parser) {
    bool bars = parser->in_bars, function = parser->in_function;
    parser->in_bars = parser->in_function = false;
    Node *node = ++parser->depth > MAX_DEPTH ? NULL : parse_list(parser);
    parser->depth--;
    parser->in_bars = bars;
    parser->in_function = function;
    return node;
}

static Node *braces(Parser *parser) {
    Node *node = nested(parser);
    if (node && take_kind(parser, TOKEN_CHOOSE))
        node = pair(parser, NODE_BINOMIAL, node, nested(parser));
    else if (node && take_kind(parser, TOKEN_OVER))
        node = pair(parser, NODE_DIVIDE, node, nested(parser));
    return take_sign(parser, '}') ? node : NULL;
}

// The argument of a command: a group, or one token, of a number its first digit.
static Node *argument(Parser *parser) {
    if (take_sign(parser, '{')) return braces(parser);
    Token *token = peek(parser);
    if (token->kind == TOKEN_NUMBER && token->number.integer.size > parser->consumed) {
        WrittenNumber digit = {.integer = {token->number.integer.text + parser->consumed++, 1}};
        bool rest = token->number.decimals.size || token->number.exponent;
        if (parser->consumed == token->number.integer.size && !rest) parser->at++, parser->consumed = 0;
        return number_node(parser, digit);
    }
    if (token->kind == TOKEN_LETTER || token->kind == TOKEN_PI || token->kind == TOKEN_FRAC ||
        token->kind == TOKEN_SQRT || token->kind == TOKEN_BINOM) {
        bool function = parser->in_function;
        parser->in_function = true;
        Node *node = ++parser->depth > MAX_DEPTH ? NULL : parse_factor(parser);
        parser->depth--;
        parser->in_function = function;
        return node;
    }
    return NULL;
}

// An exponent may be a longer number than one digit, and have a sign, as in plain text.
static Node *exponent(Parser *parser) {
    if (is_sign(parser, '{')) return argument(parser);
    bool negative = take_sign(parser, '-');
    if (!negative) take_sign(parser, '+');
    Node *node;
    if (is_kind(parser, TOKEN_NUMBER)) {
        node = number_node(parser, peek(parser)->number);
        parser->at++;
    } else if (take_sign(parser, '(')) {
        node = nested(parser);
        if (!take_sign(parser, ')')) node = NULL;
    } else {
        node = argument(parser);
    }
    return negative ? over(parser, NODE_NEGATE, node) : node;
}

// ---- names and numbers

static Node *constant(Parser *parser, NodeKind kind) {
    parser->at++;
    return answer_node(parser->arena, kind, 0);
}

// The text of the tokens of a subscript, appended to a variable's name.
static const char *subscript(Parser *parser, const char *name) {
    bool group = take_sign(parser, '{');
    for (int taken = 0;; taken++) {
        Token *token = peek(parser);
        if (token->kind == TOKEN_END || (group ? is_sign(parser, '}') : taken == 1)) break;
        if (token->name)
            name = arena_format(parser->arena, "%s_%s", name, token->name);
        else if (token->kind == TOKEN_NUMBER)
            name = arena_format(parser->arena, "%s_%.*s", name, (int)token->number.integer.size,
                                token->number.integer.text);
        else
            name = arena_format(parser->arena, "%s_%c", name, token->sign ? token->sign : '?');
        parser->at++;
    }
    return !group || take_sign(parser, '}') ? name : NULL;
}

static Node *symbol(Parser *parser) {
    Token *token = peek(parser);
    parser->at++;
    bool indexed = is_sign(parser, '_');
    if (!indexed && !token->in_text && !strcmp(token->name, "e")) return answer_node(parser->arena, NODE_E, 0);
    if (!indexed && !token->in_text && !strcmp(token->name, "i")) return answer_node(parser->arena, NODE_I, 0);
    Node *node = answer_node(parser->arena, NODE_SYMBOL, 0);
    node->name = token->name;
    if (take_sign(parser, '_')) node->name = subscript(parser, node->name);
    return node->name ? node : NULL;
}

static Node *word(Parser *parser) {
    Node *node = answer_node(parser->arena, NODE_WORD, 0);
    node->name = "";
    while (is_kind(parser, TOKEN_WORD) || (is_kind(parser, TOKEN_UNIT) && node->name[0])) {
        node->name = arena_format(parser->arena, "%s%s%s", node->name, node->name[0] ? " " : "", peek(parser)->name);
        parser->at++;
    }
    return node;
}

// "0.1\overline{6}", "0.\overline{3}".
static bool repeating(Parser *parser, WrittenNumber *number) {
    if (!is_kind(parser, TOKEN_OVERLINE)) return true;
    Token *digits = peek(parser) + 2;
    bool good = peek(parser)[1].kind == TOKEN_SIGN && peek(parser)[1].sign == '{' && digits->kind == TOKEN_NUMBER &&
                !digits->number.decimals.size && !digits->number.exponent && digits[1].kind == TOKEN_SIGN &&
                digits[1].sign == '}';
    if (!good || digits->number.integer.size > ANSWER_MAX_DIGITS) return false;
    char *all = arena_format(parser->arena, "%.*s%.*s", (int)number->decimals.size,
                             number->decimals.text ? number->decimals.text : "", (int)digits->number.integer.size,
                             digits->number.integer.text);
    number->decimals = (TextSpan){all, strlen(all)};
    number->repeating = digits->number.integer.size;
    parser->at += 4;
    return true;
}

static bool whole(const Token *token) {
    return token->kind == TOKEN_NUMBER && token->number.integer.size && !token->number.decimals.text &&
           !token->number.exponent;
}

static int compare_digits(TextSpan a, TextSpan b) {
    if (a.size != b.size) return a.size < b.size ? -1 : 1;
    return memcmp(a.text, b.text, a.size);
}

// The fraction of a mixed number behind a whole one: "1/2" after a blank, or \frac of two whole numbers. NULL: none.
static Node *mixed_fraction(Parser *parser) {
    Token *t = peek(parser);
    if (whole(t) && t->blank_before && t[1].kind == TOKEN_SIGN && t[1].sign == '/' && whole(&t[2]) &&
        compare_digits(t->number.integer, t[2].number.integer) < 0) {
        parser->at += 3;
        return pair(parser, NODE_DIVIDE, number_node(parser, t->number), number_node(parser, t[2].number));
    }
    if (t->kind != TOKEN_FRAC) return NULL;
    int start = parser->at++;
    Node *over_part = argument(parser), *under = over_part ? argument(parser) : NULL;
    if (under && over_part->kind == NODE_NUMBER && under->kind == NODE_NUMBER)
        return pair(parser, NODE_DIVIDE, over_part, under);
    parser->at = start;
    parser->consumed = 0;
    return NULL;
}

static Node *number(Parser *parser) {
    Token *token = peek(parser);
    parser->at++;
    Node *node = number_node(parser, token->number);
    TextSpan *integer = &node->number.integer;
    if (parser->consumed) *integer = (TextSpan){integer->text + parser->consumed, integer->size - parser->consumed};
    bool fresh = !parser->consumed;
    parser->consumed = 0;
    if (!repeating(parser, &node->number)) return NULL;
    if (!fresh || !whole(token)) return node;
    Node *fraction = mixed_fraction(parser);
    return fraction ? pair(parser, NODE_ADD, node, fraction) : node;
}

// ---- brackets

static char closing(char open) {
    return open == '(' ? ')' : open == '[' ? ']' : '>';
}

// ( … ), [ … ], half-open intervals, \langle … \rangle. One value in them is itself; more are a tuple or an interval.
static Node *brackets(Parser *parser) {
    char open = peek(parser)->sign;
    parser->at++;
    Node *inner = nested(parser);
    char close = is_kind(parser, TOKEN_SIGN) ? peek(parser)->sign : 0;
    if (!inner || (close != closing(open) && !(close && strchr("])", close) && open != '<'))) return NULL;
    parser->at++;
    if (inner->kind != NODE_LIST) return close == closing(open) ? inner : NULL;
    inner->kind = NODE_TUPLE;
    inner->open = open;
    inner->close = close;
    return inner;
}

static Node *set(Parser *parser) {
    const char *rounding = peek(parser)->name;
    parser->at++;
    if (!rounding && take_kind(parser, TOKEN_CLOSE_SET)) return answer_node(parser->arena, NODE_SET, 0);
    Node *inner = nested(parser);
    const char *end = peek(parser)->name;
    if (!inner || !take_kind(parser, TOKEN_CLOSE_SET) || !rounding != !end || (rounding && strcmp(rounding, end)))
        return NULL;
    if (rounding) {
        Node *node = over(parser, NODE_FUNCTION, inner);
        node->function = !strcmp(rounding, "floor") ? FUNCTION_FLOOR : FUNCTION_CEIL;
        return node;
    }
    if (inner->kind != NODE_LIST) return over(parser, NODE_SET, inner);
    inner->kind = NODE_SET;
    return inner;
}

static Node *bars(Parser *parser) {
    parser->at++;
    bool before = parser->in_bars;
    parser->in_bars = true;
    Node *inner = ++parser->depth > MAX_DEPTH ? NULL : parse_sum(parser);
    parser->depth--;
    parser->in_bars = before;
    if (!take_sign(parser, '|')) return NULL;
    Node *node = over(parser, NODE_FUNCTION, inner);
    if (node) node->function = FUNCTION_ABS;
    return node;
}

static Node *matrix(Parser *parser) {
    const char *name = peek(parser)->name;
    parser->at++;
    if (!strstr(name, "matrix") && strcmp(name, "array")) return NULL;
    if (!strcmp(name, "array") && take_sign(parser, '{')) // the columns' alignment
        while (!is_kind(parser, TOKEN_END) && !take_sign(parser, '}')) parser->at++;
    Node *node = answer_node(parser->arena, NODE_MATRIX, MAX_PARTS);
    int in_row = 0;
    node->count = 0;
    for (bool more = true; more;) {
        Node *entry = nested(parser);
        if (!entry || node->count == MAX_PARTS) return NULL;
        node->child[node->count++] = entry;
        in_row++;
        if (take_sign(parser, '&')) continue;
        if (!node->columns) node->columns = in_row;
        if (in_row != node->columns) return NULL;
        in_row = 0;
        more = take_kind(parser, TOKEN_ROW) && !is_kind(parser, TOKEN_END_ENVIRONMENT);
    }
    bool good = is_kind(parser, TOKEN_END_ENVIRONMENT) && !strcmp(peek(parser)->name, name);
    parser->at++;
    return good ? node : NULL;
}

// ---- functions

static Node *root(Parser *parser) {
    parser->at++;
    Node *index = NULL, *inner;
    if (take_sign(parser, '[')) {
        index = nested(parser);
        if (!index || !take_sign(parser, ']')) return NULL;
    }
    if (take_sign(parser, '(')) {
        inner = nested(parser);
        if (!take_sign(parser, ')')) return NULL;
    } else {
        inner = argument(parser);
    }
    if (!index) index = number_node(parser, (WrittenNumber){.integer = {"2", 1}});
    return pair(parser, NODE_ROOT, inner, index);
}

static Node *arguments_of_function(Parser *parser) {
    Node *inner;
    if (take_sign(parser, '(')) {
        inner = nested(parser);
        return take_sign(parser, ')') ? inner : NULL;
    }
    if (take_sign(parser, '{')) return braces(parser);
    bool before = parser->in_function;
    parser->in_function = true;
    inner = ++parser->depth > MAX_DEPTH ? NULL : parse_sum(parser);
    parser->depth--;
    parser->in_function = before;
    return inner;
}

static Node *function(Parser *parser) {
    NodeFunction which = peek(parser)->function;
    parser->at++;
    Node *base = NULL, *power = NULL;
    if (which == FUNCTION_LOG && take_sign(parser, '_') && !(base = argument(parser))) return NULL;
    if (take_sign(parser, '^') && !(power = exponent(parser))) return NULL;
    Node *inner = arguments_of_function(parser);
    if (!inner) return NULL;
    bool several = which >= FUNCTION_MIN;
    if (several != (inner->kind == NODE_LIST)) return NULL;
    Node *node = several ? inner : base ? pair(parser, NODE_FUNCTION, inner, base) : over(parser, NODE_FUNCTION, inner);
    node->kind = NODE_FUNCTION;
    node->function = which;
    // sin^{-1} is the inverse, not the reciprocal.
    bool inverse = power && power->kind == NODE_NEGATE && which <= FUNCTION_TAN;
    if (inverse) {
        node->function = (NodeFunction)(FUNCTION_ASIN + (which - FUNCTION_SIN));
        return node;
    }
    return power ? pair(parser, NODE_POWER, node, power) : node;
}

// ---- products and sums

static Node *base_of(Parser *parser) {
    switch (peek(parser)->kind) {
    case TOKEN_NUMBER: return number(parser);
    case TOKEN_LETTER: return symbol(parser);
    case TOKEN_WORD: return word(parser);
    case TOKEN_PI: return constant(parser, NODE_PI);
    case TOKEN_INFINITY: return constant(parser, NODE_INFINITY);
    case TOKEN_EMPTY_SET: return constant(parser, NODE_SET);
    case TOKEN_FUNCTION: return function(parser);
    case TOKEN_SQRT: return root(parser);
    case TOKEN_OPEN_SET: return set(parser);
    case TOKEN_BEGIN: return matrix(parser);
    case TOKEN_FRAC:
    case TOKEN_BINOM: {
        NodeKind kind = peek(parser)->kind == TOKEN_FRAC ? NODE_DIVIDE : NODE_BINOMIAL;
        parser->at++;
        Node *first = argument(parser);
        return first ? pair(parser, kind, first, argument(parser)) : NULL;
    }
    case TOKEN_SIGN:
        if (strchr("([<", peek(parser)->sign)) return brackets(parser);
        if (take_sign(parser, '{')) return braces(parser);
        if (is_sign(parser, '|') && !parser->in_bars) return bars(parser);
        return NULL;
    default: return NULL;
    }
}

// Units behind a number: words, with exponents and "/" or "per" between them.
static bool is_unit(const Token *token, bool in_unit) {
    return token->kind == TOKEN_UNIT || token->kind == TOKEN_WORD ||
           (token->kind == TOKEN_LETTER && (token->in_text || in_unit));
}

static void skip_units(Parser *parser) {
    for (bool in_unit = false;; in_unit = true) {
        Token *token = peek(parser);
        bool between = token->kind == TOKEN_SIGN && strchr("/*", token->sign) && is_unit(&token[1], in_unit);
        if (!between && !is_unit(token, false)) return;
        parser->at += between ? 2 : 1;
        if (take_sign(parser, '^') && !exponent(parser)) return;
    }
}

static Node *parse_factor(Parser *parser) {
    Node *node = base_of(parser);
    for (bool more = true; node && more;) {
        if (take_sign(parser, '^'))
            node = pair(parser, NODE_POWER, node, exponent(parser));
        else if (take_sign(parser, '!'))
            node = over(parser, NODE_FACTORIAL, node);
        else if (take_sign(parser, '%'))
            node = over(parser, NODE_PERCENT, node);
        else if (take_kind(parser, TOKEN_DEGREE))
            node = over(parser, NODE_DEGREES, node);
        else
            more = false;
    }
    return node;
}

static bool begins_factor(Parser *parser) {
    Token *token = peek(parser);
    switch (token->kind) {
    case TOKEN_LETTER: return !token->in_text;
    case TOKEN_FUNCTION: return !parser->in_function;
    case TOKEN_PI:
    case TOKEN_SQRT:
    case TOKEN_FRAC:
    case TOKEN_BINOM:
    case TOKEN_INFINITY: return true;
    case TOKEN_SIGN: return token->sign == '(' || token->sign == '{' || (token->sign == '|' && !parser->in_bars);
    default: return false;
    }
}

static Node *parse_product(Parser *parser) {
    bool negative = false;
    while (is_sign(parser, '-') || is_sign(parser, '+')) negative ^= peek(parser)->sign == '-', parser->at++;
    Node *node = parse_factor(parser);
    while (node) {
        bool explicit_product = is_sign(parser, '*') || is_sign(parser, '/');
        if (parser->in_function && explicit_product) break;
        skip_units(parser);
        if (take_sign(parser, '*') || begins_factor(parser)) {
            bool minus = take_sign(parser, '-');
            Node *right = parse_factor(parser);
            node = pair(parser, NODE_MULTIPLY, node, minus ? over(parser, NODE_NEGATE, right) : right);
        } else if (take_sign(parser, '/')) {
            bool minus = take_sign(parser, '-');
            Node *right = parse_factor(parser);
            node = pair(parser, NODE_DIVIDE, node, minus ? over(parser, NODE_NEGATE, right) : right);
        } else {
            break;
        }
    }
    return negative ? over(parser, NODE_NEGATE, node) : node;
}

static Node *plus_minus(Parser *parser, Node *left) {
    const char *name = peek(parser)->name;
    parser->at++;
    if (!left) left = number_node(parser, (WrittenNumber){.integer = {"0", 1}});
    Node *node = pair(parser, NODE_PLUS_MINUS, left, parse_product(parser));
    if (node) node->name = name;
    return node;
}

static Node *parse_sum(Parser *parser) {
    Node *node = is_kind(parser, TOKEN_PLUS_MINUS) ? plus_minus(parser, NULL) : parse_product(parser);
    while (node && !parser->in_function) {
        if (take_sign(parser, '+'))
            node = pair(parser, NODE_ADD, node, parse_product(parser));
        else if (take_sign(parser, '-'))
            node = pair(parser, NODE_SUBTRACT, node, parse_product(parser));
        else if (is_kind(parser, TOKEN_PLUS_MINUS))
            node = plus_minus(parser, node);
        else
            break;
    }
    return node;
}

// ---- relations and lists

// Parts joined by something, as children of one node; one part alone is itself.
typedef struct Parts {
    Node *part[MAX_PARTS];
    int count;
} Parts;

static Node *join(Parser *parser, NodeKind kind, const Parts *parts) {
    if (parts->count == 1) return parts->part[0];
    Node *node = answer_node(parser->arena, kind, parts->count);
    memcpy(node->child, parts->part, (size_t)parts->count * sizeof(Node *));
    return node;
}

static bool add_part(Parts *parts, Node *part) {
    if (!part || parts->count == MAX_PARTS) return false;
    parts->part[parts->count++] = part;
    return true;
}

static Node *parse_union(Parser *parser) {
    Parts *parts = arena_array(parser->arena, Parts, 1);
    do {
        if (!add_part(parts, parse_sum(parser))) return NULL;
    } while (take_kind(parser, TOKEN_CUP));
    if (parts->count > 1) return join(parser, NODE_UNION, parts);
    while (take_sign(parser, ':'))
        if (!add_part(parts, parse_sum(parser))) return NULL;
    return join(parser, NODE_RATIO, parts);
}

static Node *parse_relation(Parser *parser) {
    Parts *parts = arena_array(parser->arena, Parts, 1);
    RelationOperator *operators = arena_array(parser->arena, RelationOperator, MAX_PARTS);
    if (!add_part(parts, parse_union(parser))) return NULL;
    while (is_kind(parser, TOKEN_RELATION)) {
        operators[parts->count - 1] = peek(parser)->relation;
        parser->at++;
        if (!add_part(parts, parse_union(parser))) return NULL;
    }
    Node *node = join(parser, NODE_RELATION, parts);
    if (parts->count > 1) node->operators = operators;
    return node;
}

static bool take_separator(Parser *parser) {
    bool comma = take_sign(parser, ',') || take_kind(parser, TOKEN_CONNECTOR);
    while (comma && take_kind(parser, TOKEN_CONNECTOR)) {
    } // ", and"
    return comma;
}

static Node *parse_list(Parser *parser) {
    Parts *parts = arena_array(parser->arena, Parts, 1);
    do {
        if (!add_part(parts, parse_relation(parser))) return NULL;
    } while (take_separator(parser) && !is_kind(parser, TOKEN_END));
    return join(parser, NODE_LIST, parts);
}

Node *answer_parse(TextSpan text, bool commas, Arena *arena) {
    Token *tokens = answer_lex(text, commas, arena);
    if (!tokens) return NULL;
    Parser parser = {.tokens = tokens, .arena = arena};
    Node *node = parse_list(&parser);
    return node && is_kind(&parser, TOKEN_END) ? node : NULL;
}
