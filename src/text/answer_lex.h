// The words of a formula in LaTeX or plain text, as models write it.
#pragma once
#include "text/answer_tree.h"

typedef enum TokenKind {
    TOKEN_END,
    TOKEN_NUMBER,
    TOKEN_LETTER,   // name: a single letter, Latin or Greek
    TOKEN_WORD,     // name: two letters or more that are no function, or any text in another script
    TOKEN_UNIT,     // a unit's name
    TOKEN_FUNCTION, // function
    TOKEN_PI,
    TOKEN_INFINITY,
    TOKEN_EMPTY_SET,
    TOKEN_FRAC,
    TOKEN_BINOM,
    TOKEN_CHOOSE,
    TOKEN_OVER, // {a \over b}
    TOKEN_SQRT,
    TOKEN_OVERLINE,
    TOKEN_BEGIN, // \begin{name}
    TOKEN_END_ENVIRONMENT,
    TOKEN_ROW, // "\\" in a matrix
    TOKEN_CUP,
    TOKEN_PLUS_MINUS, // name "±" or "∓"
    TOKEN_DEGREE,
    TOKEN_CONNECTOR, // "and", "or", ";"
    TOKEN_RELATION,  // relation
    TOKEN_OPEN_SET,  // \{
    TOKEN_CLOSE_SET,
    TOKEN_SIGN, // one of + - * / ^ _ ( ) [ ] { } < > | , : ! % & ; sign. < > are \langle, \rangle
} TokenKind;

typedef struct Token {
    TokenKind kind;
    char sign;
    bool blank_before;
    bool in_text; // within \text{…} or the like
    const char *name;
    WrittenNumber number;
    NodeFunction function;
    RelationOperator relation;
} Token;

enum { ANSWER_MAX_TOKENS = 1000 };

// The tokens of the text, the last of kind TOKEN_END, in the arena; NULL when there are more than ANSWER_MAX_TOKENS or a
// command that has no meaning here. With commas, "1,234" is one number.
Token *answer_lex(TextSpan text, bool commas, Arena *arena);
