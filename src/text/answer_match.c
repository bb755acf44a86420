#include "text/answer_match.h"

#include "base/strbuf.h"
#include "text/answer_parse.h"
#include "text/answer_value.h"

#include <string.h>
#include <strings.h>

enum { BUDGET = 300000, MAX_ITEMS = 256 };

typedef struct Matcher {
    AnswerBudget budget;
    Arena arena;
} Matcher;

static bool equal(Matcher *matcher, const Node *a, const Node *b);

// ---- ± and collections

static bool has_plus_minus(const Node *node) {
    if (node->kind == NODE_PLUS_MINUS) return true;
    for (int i = 0; i < node->count; i++)
        if (has_plus_minus(node->child[i])) return true;
    return false;
}

// The tree with every ± as + (upper) or as −, every ∓ the other way round.
static Node *choose_sign(Matcher *matcher, const Node *node, bool upper) {
    Node *copy = answer_node(&matcher->arena, node->kind, node->count);
    Node **children = copy->child;
    *copy = *node;
    copy->child = children;
    for (int i = 0; i < node->count; i++) children[i] = choose_sign(matcher, node->child[i], upper);
    if (node->kind == NODE_PLUS_MINUS) copy->kind = upper == !strcmp(node->name, "±") ? NODE_ADD : NODE_SUBTRACT;
    return copy;
}

// The members of a collection; a single answer is the only one of its own.
typedef struct Items {
    const Node *item[MAX_ITEMS];
    int count;
    bool good; // not too many
} Items;

static void add_item(Items *items, const Node *node) {
    if (items->count == MAX_ITEMS)
        items->good = false;
    else
        items->item[items->count++] = node;
}

static void add_signed(Matcher *matcher, Items *items, const Node *node) {
    if (!has_plus_minus(node)) {
        add_item(items, node);
        return;
    }
    add_item(items, choose_sign(matcher, node, true));
    add_item(items, choose_sign(matcher, node, false));
}

static bool is_collection(const Node *node) {
    return node->kind == NODE_LIST || node->kind == NODE_SET || node->kind == NODE_UNION;
}

static const Node *assigned(const Node *node, const char **name);

// "n = 2, 3, 4" is a list of values, and so is "x = 2 or x = 3"; but "a = 4, b = 6" is a list of equations.
static void strip_assignments(Items *items) {
    const char *first = NULL, *name = NULL;
    if (!items->count || !assigned(items->item[0], &first)) return;
    bool all = true, rest_plain = true;
    for (int i = 1; i < items->count; i++) {
        bool relation = items->item[i]->kind == NODE_RELATION;
        all = all && relation && assigned(items->item[i], &name) && !strcmp(name, first);
        rest_plain = rest_plain && !relation;
    }
    if (!all && !rest_plain) return;
    for (int i = 0; i < (all ? items->count : 1); i++) items->item[i] = assigned(items->item[i], &name);
}

static Items *items_of(Matcher *matcher, const Node *node, bool values) {
    Items *items = arena_array(&matcher->arena, Items, 1);
    items->good = true;
    if (is_collection(node))
        for (int i = 0; i < node->count; i++) add_signed(matcher, items, node->child[i]);
    else
        add_signed(matcher, items, node);
    if (values) strip_assignments(items);
    return items;
}

// In a list of several, a name on one side only does count: "a = 4, b = 6" is not "4, 6".
static bool same_member(Matcher *matcher, const Node *a, const Node *b) {
    const char *name;
    return !assigned(a, &name) == !assigned(b, &name) && equal(matcher, a, b);
}

// One to one in any order. Equality is transitive, so the first that fits will do.
static bool same_members(Matcher *matcher, const Items *a, const Items *b) {
    if (!a->good || !b->good || a->count != b->count) return false;
    bool taken[MAX_ITEMS] = {false};
    for (int i = 0; i < a->count; i++) {
        int j = 0;
        while (j < b->count && (taken[j] || !same_member(matcher, a->item[i], b->item[j]))) j++;
        if (j == b->count) return false;
        taken[j] = true;
    }
    return true;
}

static bool same_order(Matcher *matcher, const Node *a, const Node *b) {
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++)
        if (!equal(matcher, a->child[i], b->child[i])) return false;
    return true;
}

// ---- relations

static bool mentions(const Node *node, const char *name) {
    if (node->kind == NODE_SYMBOL) return !strcmp(node->name, name);
    for (int i = 0; i < node->count; i++)
        if (mentions(node->child[i], name)) return true;
    return false;
}

// The name of a variable, of a function as in f(x), or of the first variable of a tuple.
static const char *name_of(const Node *node) {
    if (node->kind == NODE_SYMBOL) return node->name;
    if (node->kind == NODE_TUPLE) {
        bool names = true;
        for (int i = 0; i < node->count; i++) names = names && node->child[i]->kind == NODE_SYMBOL;
        return names ? node->child[0]->name : NULL;
    }
    bool applied =
        node->kind == NODE_MULTIPLY && node->child[0]->kind == NODE_SYMBOL && node->child[1]->kind == NODE_SYMBOL;
    return applied ? node->child[0]->name : NULL;
}

// The value that an equation gives its variable ("x = 5", "5 = x", "f(x) = x + 1", "x = 2 + 3 = 5",
// "(x, y) = (1, 2)"), or NULL.
static const Node *assigned(const Node *node, const char **name) {
    if (node->kind != NODE_RELATION) return NULL;
    for (int i = 0; i < node->count - 1; i++)
        if (node->operators[i] != RELATION_EQUAL) return NULL;
    const Node *first = node->child[0], *last = node->child[node->count - 1];
    if ((*name = name_of(first)) && !mentions(last, *name)) return last;
    if (node->count == 2 && last->kind == NODE_SYMBOL && (*name = last->name) && !mentions(first, *name)) return first;
    return NULL;
}

static Node *difference(Matcher *matcher, const Node *relation) {
    return answer_node_of(&matcher->arena, NODE_SUBTRACT, relation->child[0], relation->child[1]);
}

static bool is_order(RelationOperator operator) {
    return operator>= RELATION_LESS && operator<= RELATION_GREATER_EQUAL;
}
static bool is_greater(RelationOperator operator) {
    return operator== RELATION_GREATER || operator== RELATION_GREATER_EQUAL;
}
static bool is_strict(RelationOperator operator) {
    return operator== RELATION_LESS || operator== RELATION_GREATER;
}

// The only variable of a tree, or NULL when there is none or there are several (*several).
static const char *only_symbol(const Node *node, const char *known, bool *several) {
    if (node->kind == NODE_SYMBOL) {
        if (known && strcmp(known, node->name)) *several = true;
        return node->name;
    }
    for (int i = 0; i < node->count; i++) {
        const char *name = only_symbol(node->child[i], known, several);
        if (name) known = name;
    }
    return known;
}

static Node *integer(Matcher *matcher, const char *digits) {
    Node *node = answer_node(&matcher->arena, NODE_NUMBER, 0);
    node->number.integer = (TextSpan){digits, strlen(digits)};
    return node;
}

static Node *substitute(Matcher *matcher, const Node *node, Node *value) {
    if (node->kind == NODE_SYMBOL) return value;
    Node *copy = answer_node(&matcher->arena, node->kind, node->count);
    Node **children = copy->child;
    *copy = *node;
    copy->child = children;
    for (int i = 0; i < node->count; i++) children[i] = substitute(matcher, node->child[i], value);
    return copy;
}

// The bound that "left op right", linear in one variable, puts on it. False when it is not of that kind.
static bool bound_of(Matcher *matcher, Node **bound, bool *below, Node *left, Node *right, RelationOperator operator) {
    Arena *arena = &matcher->arena;
    Node *f = answer_node_of(arena, NODE_SUBTRACT, left, right);
    Node *at[3];
    const char *const points[] = {"0", "1", "2"};
    for (int p = 0; p < 3; p++) at[p] = substitute(matcher, f, integer(matcher, points[p]));
    Node *slope = answer_node_of(arena, NODE_SUBTRACT, at[1], at[0]);
    Node *again = answer_node_of(arena, NODE_SUBTRACT, at[2], at[1]);
    int sign = answer_value_sign(slope, &matcher->budget);
    if (!sign || !answer_value_equal(slope, again, &matcher->budget)) return false;
    *bound = answer_node_of(arena, NODE_NEGATE, answer_node_of(arena, NODE_DIVIDE, at[0], slope), NULL);
    *below = is_greater(operator) == (sign > 0);
    return true;
}

// An inequality in one variable, or a chain a < x < b, as the interval that it leaves; NULL: not of that kind.
static Node *interval_of(Matcher *matcher, const Node *relation, const char **name) {
    bool several = false;
    *name = only_symbol(relation, NULL, &several);
    if (!*name || several || relation->count > 3 || has_plus_minus(relation)) return NULL;
    Node *interval = answer_node(&matcher->arena, NODE_TUPLE, 2);
    Node *infinity = answer_node(&matcher->arena, NODE_INFINITY, 0);
    interval->child[0] = answer_node_of(&matcher->arena, NODE_NEGATE, infinity, NULL);
    interval->child[1] = infinity;
    interval->open = '(';
    interval->close = ')';
    for (int i = 0; i + 1 < relation->count; i++) {
        RelationOperator operator= relation->operators[i];
        Node *bound;
        bool below;
        if (!is_order(operator) || is_greater(operator) != is_greater(relation->operators[0]) ||
            !bound_of(matcher, &bound, &below, relation->child[i], relation->child[i + 1], operator))
            return NULL;
        interval->child[below ? 0 : 1] = bound;
        if (below)
            interval->open = is_strict(operator) ? '(' : '[';
        else
            interval->close = is_strict(operator) ? ')' : ']';
    }
    return interval;
}

static bool same_relations(Matcher *matcher, const Node *a, const Node *b) {
    const char *name_a, *name_b;
    const Node *value_a = assigned(a, &name_a), *value_b = assigned(b, &name_b);
    if (value_a && value_b && !strcmp(name_a, name_b)) return equal(matcher, value_a, value_b);
    const Node *interval_a = interval_of(matcher, a, &name_a), *interval_b = interval_of(matcher, b, &name_b);
    if (interval_a && interval_b) return !strcmp(name_a, name_b) && equal(matcher, interval_a, interval_b);
    if (a->count != 2 || b->count != 2) {
        bool same = a->count == b->count;
        for (int i = 0; same && i < a->count - 1; i++) same = a->operators[i] == b->operators[i];
        return same && same_order(matcher, a, b);
    }
    RelationOperator p = a->operators[0], q = b->operators[0];
    if (p == RELATION_IN || q == RELATION_IN) return p == q && same_order(matcher, a, b);
    if (is_order(p) != is_order(q) || (is_order(p) && is_strict(p) != is_strict(q)) || (!is_order(p) && p != q))
        return false;
    int sign;
    if (!answer_value_proportional(&sign, difference(matcher, a), difference(matcher, b), &matcher->budget))
        return false;
    return !is_order(p) || (is_greater(p) == is_greater(q)) == (sign > 0);
}

// What a relation says to an answer that is none: the value it gives, the set it leaves.
static const Node *statement_of(Matcher *matcher, const Node *relation, const Node *other) {
    const char *name;
    const Node *value = assigned(relation, &name);
    if (value) return value;
    if (other->kind == NODE_TUPLE || other->kind == NODE_SET) return interval_of(matcher, relation, &name);
    // "9·2 = 18": both sides say it.
    if (relation->operators[0] != RELATION_EQUAL || relation->count != 2 || answer_value_has_symbols(relation))
        return NULL;
    return equal(matcher, relation->child[0], relation->child[1]) ? relation->child[1] : NULL;
}

// ---- values

static int infinite_sign(const Node *node) {
    if (node->kind == NODE_INFINITY) return 1;
    return node->kind == NODE_NEGATE ? -infinite_sign(node->child[0]) : 0;
}

// The number before a percent sign, or NULL.
static const Node *percentage(Matcher *matcher, const Node *node) {
    if (node->kind == NODE_PERCENT) return node->child[0];
    const Node *inner = node->kind == NODE_NEGATE ? percentage(matcher, node->child[0]) : NULL;
    return inner ? answer_node_of(&matcher->arena, NODE_NEGATE, (Node *)inner, NULL) : NULL;
}

static bool same_values(Matcher *matcher, const Node *a, const Node *b) {
    AnswerBudget *budget = &matcher->budget;
    if (infinite_sign(a) || infinite_sign(b)) return infinite_sign(a) == infinite_sign(b);
    if (answer_value_equal(a, b, budget) || answer_value_approximates(a, b, budget) ||
        answer_value_approximates(b, a, budget))
        return true;
    const Node *percent_a = percentage(matcher, a), *percent_b = percentage(matcher, b);
    if (!percent_a == !percent_b) return false;
    return answer_value_equal(percent_a ? percent_a : a, percent_b ? percent_b : b, budget);
}

// "5 m" is five metres where gold has no variable.
static const Node *without_unit(const Node *gold, const Node *answer) {
    static const char *const letters[] = {"m", "s", "g", "h", "L", "l", "N", "J", "W", "V", "K", "C", "F"};
    if (answer->kind != NODE_MULTIPLY || answer->child[1]->kind != NODE_SYMBOL || gold->kind > NODE_DEGREES ||
        answer_value_has_symbols(gold) || answer_value_has_symbols(answer->child[0]))
        return answer;
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (!strcmp(letters[i], answer->child[1]->name)) return answer->child[0];
    return answer;
}

static char round_bracket(char bracket) {
    return bracket == '<' ? '(' : bracket == '>' ? ')' : bracket;
}

static bool same_tuples(Matcher *matcher, const Node *a, const Node *b) {
    if (a->kind == NODE_TUPLE && b->kind == NODE_TUPLE && a->count == 2 &&
        (round_bracket(a->open) != round_bracket(b->open) || round_bracket(a->close) != round_bracket(b->close)))
        return false;
    return same_order(matcher, a, b);
}

static bool is_ordered(const Node *node) {
    return node->kind == NODE_TUPLE ||
           (node->kind == NODE_MATRIX && (node->columns == 1 || node->columns == node->count));
}

// "x \in A" says A to what is no relation itself.
static const Node *set_named(const Node *node, const Node *other) {
    bool names = node->kind == NODE_RELATION && other->kind != NODE_RELATION && node->count == 2 &&
                 node->operators[0] == RELATION_IN && node->child[0]->kind == NODE_SYMBOL;
    return names ? node->child[1] : node;
}

static bool equal(Matcher *matcher, const Node *a, const Node *b) {
    if (--matcher->budget.left <= 0) return false;
    a = set_named(a, b);
    b = set_named(b, a);
    while (a->kind == NODE_DEGREES) a = a->child[0];
    while (b->kind == NODE_DEGREES) b = b->child[0];
    // A bare list is as good as a tuple, if its order is the same.
    if ((a->kind == NODE_LIST && is_ordered(b)) || (b->kind == NODE_LIST && is_ordered(a)))
        return same_order(matcher, a, b);
    if (is_collection(a) || is_collection(b) || has_plus_minus(a) || has_plus_minus(b)) {
        if (same_members(matcher, items_of(matcher, a, false), items_of(matcher, b, false))) return true;
        return same_members(matcher, items_of(matcher, a, true), items_of(matcher, b, true));
    }
    if (a->kind == NODE_RELATION && b->kind == NODE_RELATION) return same_relations(matcher, a, b);
    if (a->kind == NODE_RELATION || b->kind == NODE_RELATION) {
        const Node *relation = a->kind == NODE_RELATION ? a : b, *other = relation == a ? b : a;
        const Node *said = statement_of(matcher, relation, other);
        return said && equal(matcher, said, other);
    }
    if (a->kind == NODE_MATRIX && b->kind == NODE_MATRIX && a->columns == b->columns) return same_order(matcher, a, b);
    if (is_ordered(a) && is_ordered(b) && (a->kind == NODE_TUPLE || b->kind == NODE_TUPLE))
        return same_tuples(matcher, a, b);
    if (a->kind != b->kind && (a->kind >= NODE_LIST || b->kind >= NODE_LIST)) return false;
    switch (a->kind) {
    case NODE_RATIO: return same_order(matcher, a, b);
    case NODE_WORD: return !strcasecmp(a->name, b->name);
    case NODE_MATRIX: return false;
    default: return same_values(matcher, a, b);
    }
}

// ---- text

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Without blanks (but between digits), braces, dollar signs and the commands that only dress a text.
static void undress(StrBuf *out, TextSpan text) {
    static const char *const dress[] = {
        "\\text", "\\mathrm", "\\textbf", "\\mathbf", "\\textit", "\\left", "\\right", "\\displaystyle",
        "\\,",    "\\;",      "\\!",      "\\:",      "\\ ",      "\\$",    "\\quad"};
    for (size_t i = 0; i < text.size;) {
        size_t skip = 0;
        for (size_t d = 0; d < sizeof dress / sizeof *dress; d++) {
            size_t length = strlen(dress[d]);
            if (text.size - i >= length && !memcmp(text.text + i, dress[d], length) && length > skip) skip = length;
        }
        if (!skip && strchr(" \t\r\n{}$~", text.text[i]) && text.text[i]) skip = 1;
        bool parted = skip == 1 && i + 1 < text.size && is_digit(text.text[i + 1]) && out->length &&
                      is_digit(out->text[out->length - 1]);
        if (parted) strbuf_putc(out, ' ');
        if (!skip) strbuf_putc(out, text.text[i]);
        i += skip ? skip : 1;
    }
}

static bool same_text(TextSpan gold, TextSpan answer, bool ignore_case) {
    StrBuf a = {0}, b = {0};
    undress(&a, gold);
    undress(&b, answer);
    bool same = a.length == b.length && a.length > 0 && (ignore_case || !memcmp(a.text, b.text, a.length));
    for (size_t i = 0; same && i < a.length; i++) {
        char x = a.text[i], y = b.text[i];
        same = x == y || (((x ^ y) == 32) && (x | 32) >= 'a' && (x | 32) <= 'z');
    }
    strbuf_close(&a);
    strbuf_close(&b);
    return same;
}

bool answer_match_text(TextSpan gold, TextSpan answer) {
    return same_text(gold, answer, true);
}

// The word or letter that an answer consists of, or NULL.
static const char *name_alone(const Node *node) {
    if (node->kind == NODE_E) return "e";
    if (node->kind == NODE_I) return "i";
    return node->kind == NODE_SYMBOL || node->kind == NODE_WORD ? node->name : NULL;
}

bool answer_match(bool *readable, TextSpan gold, TextSpan answer) {
    Matcher matcher = {.budget = {BUDGET}};
    *readable = true;
    bool same = same_text(gold, answer, false);
    // "1,234" is a number, or a list where the other side takes it for one.
    for (int commas = 1; commas >= 0 && !same; commas--) {
        const Node *a = answer_parse(gold, commas, &matcher.arena), *b = answer_parse(answer, commas, &matcher.arena);
        if (commas) *readable = b != NULL;
        // What cannot be read, and a choice such as "(b)", is text.
        if (!a || !b)
            same = answer_match_text(gold, answer);
        else if (name_alone(a) && name_alone(b))
            same = !strcasecmp(name_alone(a), name_alone(b));
        else
            same = equal(&matcher, a, without_unit(a, b));
        if (!memchr(gold.text, ',', gold.size) && !memchr(answer.text, ',', answer.size)) break;
    }
    arena_close(&matcher.arena);
    return same;
}

bool answer_match_number(mpq_t value, TextSpan answer) {
    Matcher matcher = {.budget = {BUDGET}};
    const Node *node = answer_parse(answer, true, &matcher.arena);
    bool good =
        node && answer_value_rational(value, node->kind == NODE_PERCENT ? node->child[0] : node, &matcher.budget);
    arena_close(&matcher.arena);
    return good;
}
