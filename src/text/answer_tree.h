// A mathematical answer as a tree: what answer_parse.c reads and answer_value.c, answer.c compare.
#pragma once
#include "base/arena.h"
#include "text/answer_number.h"

#include <stdint.h>

typedef enum NodeKind {
    // values
    NODE_NUMBER, // number
    NODE_SYMBOL, // name: a variable
    NODE_PI,
    NODE_E,
    NODE_I,
    NODE_INFINITY,
    NODE_ADD, // child[0] + child[1]
    NODE_SUBTRACT,
    NODE_MULTIPLY,
    NODE_DIVIDE,
    NODE_POWER,
    NODE_ROOT, // child[0] to the power 1 / child[1]; of a negative real number with an odd integer: the real root
    NODE_NEGATE,
    NODE_FACTORIAL,
    NODE_BINOMIAL,
    NODE_FUNCTION,   // function of child[0], and for FUNCTION_LOG the base child[1] when there is one
    NODE_PLUS_MINUS, // child[0] ± child[1]: two values. name "±" or "∓"
    NODE_PERCENT,    // child[0] %
    NODE_DEGREES,    // child[0] °
    // collections
    NODE_LIST,     // a, b, c or "a and b": no order
    NODE_SET,      // \{a, b\}: no order; without children the empty set
    NODE_TUPLE,    // (a, b): ordered; an interval when it has two children. open and close tell the brackets
    NODE_UNION,    // of sets and intervals: no order
    NODE_MATRIX,   // rows · columns children, row by row
    NODE_RATIO,    // a : b
    NODE_RELATION, // child[0] op child[1] (op child[2] …)
    NODE_WORD,     // name: a word that is no unit
} NodeKind;

typedef enum NodeFunction {
    FUNCTION_SIN,
    FUNCTION_COS,
    FUNCTION_TAN,
    FUNCTION_COT,
    FUNCTION_SEC,
    FUNCTION_CSC,
    FUNCTION_ASIN,
    FUNCTION_ACOS,
    FUNCTION_ATAN,
    FUNCTION_SINH,
    FUNCTION_COSH,
    FUNCTION_TANH,
    FUNCTION_EXP,
    FUNCTION_LN,
    FUNCTION_LOG, // without a base: 10
    FUNCTION_ABS,
    FUNCTION_FLOOR,
    FUNCTION_CEIL,
    FUNCTION_MIN, // children: two or more
    FUNCTION_MAX,
    FUNCTION_GCD,
    FUNCTION_LCM,
} NodeFunction;

typedef enum RelationOperator {
    RELATION_EQUAL,
    RELATION_UNEQUAL,
    RELATION_LESS,
    RELATION_LESS_EQUAL,
    RELATION_GREATER,
    RELATION_GREATER_EQUAL,
    RELATION_IN,
} RelationOperator;

typedef struct Node Node;
struct Node {
    NodeKind kind;
    int count;
    Node **child;
    const char *name;
    WrittenNumber number;
    NodeFunction function;
    char open, close;                  // of a tuple: ( [ < and ) ] >
    int columns;                       // of a matrix
    const RelationOperator *operators; // of a relation: [count - 1]
};
