#include "text/answer_lex.h"

#include "text/utf8.h"

#include <string.h>

typedef struct Lexer {
    TextSpan text;
    size_t at;
    bool commas, blank;
    int text_depth; // braces that are open within \text{…}; 0: outside
    Arena *arena;
    Token *tokens;
    int count;
    bool good;
} Lexer;

typedef struct Meaning {
    const char *word;
    TokenKind kind;
    int value; // sign, function or relation
} Meaning;

// Commands, without the backslash. TOKEN_END: has no effect.
static const Meaning commands[] = {
    {"frac", TOKEN_FRAC, 0},
    {"dfrac", TOKEN_FRAC, 0},
    {"tfrac", TOKEN_FRAC, 0},
    {"cfrac", TOKEN_FRAC, 0},
    {"binom", TOKEN_BINOM, 0},
    {"dbinom", TOKEN_BINOM, 0},
    {"tbinom", TOKEN_BINOM, 0},
    {"choose", TOKEN_CHOOSE, 0},
    {"over", TOKEN_OVER, 0},
    {"sqrt", TOKEN_SQRT, 0},
    {"overline", TOKEN_OVERLINE, 0},
    {"bar", TOKEN_OVERLINE, 0},
    {"dot", TOKEN_OVERLINE, 0},
    {"pi", TOKEN_PI, 0},
    {"infty", TOKEN_INFINITY, 0},
    {"infin", TOKEN_INFINITY, 0},
    {"emptyset", TOKEN_EMPTY_SET, 0},
    {"varnothing", TOKEN_EMPTY_SET, 0},
    {"cup", TOKEN_CUP, 0},
    {"begin", TOKEN_BEGIN, 0},
    {"end", TOKEN_END_ENVIRONMENT, 0},
    {"circ", TOKEN_DEGREE, 0},
    {"degree", TOKEN_DEGREE, 0},
    {"times", TOKEN_SIGN, '*'},
    {"cdot", TOKEN_SIGN, '*'},
    {"ast", TOKEN_SIGN, '*'},
    {"div", TOKEN_SIGN, '/'},
    {"lbrack", TOKEN_SIGN, '['},
    {"rbrack", TOKEN_SIGN, ']'},
    {"langle", TOKEN_SIGN, '<'},
    {"rangle", TOKEN_SIGN, '>'},
    {"lvert", TOKEN_SIGN, '|'},
    {"rvert", TOKEN_SIGN, '|'},
    {"vert", TOKEN_SIGN, '|'},
    {"mid", TOKEN_SIGN, '|'},
    {"colon", TOKEN_SIGN, ':'},
    {"lbrace", TOKEN_OPEN_SET, 0},
    {"rbrace", TOKEN_CLOSE_SET, 0},
    {"le", TOKEN_RELATION, RELATION_LESS_EQUAL},
    {"leq", TOKEN_RELATION, RELATION_LESS_EQUAL},
    {"leqslant", TOKEN_RELATION, RELATION_LESS_EQUAL},
    {"ge", TOKEN_RELATION, RELATION_GREATER_EQUAL},
    {"geq", TOKEN_RELATION, RELATION_GREATER_EQUAL},
    {"geqslant", TOKEN_RELATION, RELATION_GREATER_EQUAL},
    {"lt", TOKEN_RELATION, RELATION_LESS},
    {"gt", TOKEN_RELATION, RELATION_GREATER},
    {"ne", TOKEN_RELATION, RELATION_UNEQUAL},
    {"neq", TOKEN_RELATION, RELATION_UNEQUAL},
    {"in", TOKEN_RELATION, RELATION_IN},
    {"approx", TOKEN_RELATION, RELATION_EQUAL},
    {"equiv", TOKEN_RELATION, RELATION_EQUAL},
    {"sin", TOKEN_FUNCTION, FUNCTION_SIN},
    {"cos", TOKEN_FUNCTION, FUNCTION_COS},
    {"tan", TOKEN_FUNCTION, FUNCTION_TAN},
    {"cot", TOKEN_FUNCTION, FUNCTION_COT},
    {"sec", TOKEN_FUNCTION, FUNCTION_SEC},
    {"csc", TOKEN_FUNCTION, FUNCTION_CSC},
    {"arcsin", TOKEN_FUNCTION, FUNCTION_ASIN},
    {"arccos", TOKEN_FUNCTION, FUNCTION_ACOS},
    {"arctan", TOKEN_FUNCTION, FUNCTION_ATAN},
    {"sinh", TOKEN_FUNCTION, FUNCTION_SINH},
    {"cosh", TOKEN_FUNCTION, FUNCTION_COSH},
    {"tanh", TOKEN_FUNCTION, FUNCTION_TANH},
    {"exp", TOKEN_FUNCTION, FUNCTION_EXP},
    {"ln", TOKEN_FUNCTION, FUNCTION_LN},
    {"log", TOKEN_FUNCTION, FUNCTION_LOG},
    {"lg", TOKEN_FUNCTION, FUNCTION_LOG},
    {"min", TOKEN_FUNCTION, FUNCTION_MIN},
    {"max", TOKEN_FUNCTION, FUNCTION_MAX},
    {"gcd", TOKEN_FUNCTION, FUNCTION_GCD},
    {"lcm", TOKEN_FUNCTION, FUNCTION_LCM},
    {"left", TOKEN_END, 0},
    {"right", TOKEN_END, 0},
    {"big", TOKEN_END, 0},
    {"bigl", TOKEN_END, 0},
    {"bigr", TOKEN_END, 0},
    {"Big", TOKEN_END, 0},
    {"Bigl", TOKEN_END, 0},
    {"Bigr", TOKEN_END, 0},
    {"bigg", TOKEN_END, 0},
    {"Bigg", TOKEN_END, 0},
    {"displaystyle", TOKEN_END, 0},
    {"textstyle", TOKEN_END, 0},
    {"limits", TOKEN_END, 0},
    {"quad", TOKEN_END, 0},
    {"qquad", TOKEN_END, 0},
    {"thinspace", TOKEN_END, 0},
    {"mathbf", TOKEN_END, 0},
    {"bf", TOKEN_END, 0},
    {"mathit", TOKEN_END, 0},
    {"mathsf", TOKEN_END, 0},
    {"mathbb", TOKEN_END, 0},
    {"mathcal", TOKEN_END, 0},
    {"boldsymbol", TOKEN_END, 0},
    {"bm", TOKEN_END, 0},
    {"boxed", TOKEN_END, 0},
    {"fbox", TOKEN_END, 0},
};

// Their group is text: words, units, connectors.
static const char *const text_commands[] = {"text",   "mathrm", "textrm", "textbf", "textit",       "textnormal",
                                            "textsf", "mbox",   "hbox",   "emph",   "operatorname", "rm"};

static const char *const greek[] = {
    "alpha",  "beta",  "gamma", "delta", "epsilon", "varepsilon", "zeta",  "eta", "theta",  "iota",  "kappa",
    "lambda", "mu",    "nu",    "xi",    "rho",     "sigma",      "tau",   "phi", "varphi", "chi",   "psi",
    "omega",  "Gamma", "Delta", "Theta", "Lambda",  "Xi",         "Sigma", "Phi", "Psi",    "Omega", "ell"};

// Words of plain text.
static const Meaning words[] = {
    {"and", TOKEN_CONNECTOR, 0},
    {"or", TOKEN_CONNECTOR, 0},
    {"pi", TOKEN_PI, 0},
    {"inf", TOKEN_INFINITY, 0},
    {"infinity", TOKEN_INFINITY, 0},
    {"sqrt", TOKEN_SQRT, 0},
    {"asin", TOKEN_FUNCTION, FUNCTION_ASIN},
    {"acos", TOKEN_FUNCTION, FUNCTION_ACOS},
    {"atan", TOKEN_FUNCTION, FUNCTION_ATAN},
    {"abs", TOKEN_FUNCTION, FUNCTION_ABS},
    {"floor", TOKEN_FUNCTION, FUNCTION_FLOOR},
    {"ceil", TOKEN_FUNCTION, FUNCTION_CEIL},
    {"percent", TOKEN_SIGN, '%'},
    {"degrees", TOKEN_DEGREE, 0},
    {"degree", TOKEN_DEGREE, 0},
};

// Units of two or three letters; longer words need no list.
static const char *const units[] = {
    "mm", "cm",  "dm",  "km",  "ft",  "yd",  "mi",  "nm",  "mg",  "kg",  "lb",  "lbs", "oz",  "ml",  "mL", "cl", "gal",
    "hr", "hrs", "min", "sec", "ms",  "am",  "pm",  "AM",  "PM",  "mph", "kph", "rpm", "Hz",  "kHz", "kW", "kJ", "eV",
    "sq", "cu",  "cc",  "per", "USD", "EUR", "GBP", "cts", "pts", "rad", "day", "man", "men", "cm²", "km²"};

// Words that are too short to be told from a product of variables.
static const char *const short_words[] = {"yes", "Yes", "YES", "no", "No", "NO", "odd", "Odd"};

static bool letter(char c) {
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static Token *add(Lexer *lexer, TokenKind kind) {
    if (lexer->count >= ANSWER_MAX_TOKENS) {
        lexer->good = false;
        lexer->count = 0;
    }
    Token *token = &lexer->tokens[lexer->count++];
    *token = (Token){.kind = kind, .blank_before = lexer->blank, .in_text = lexer->text_depth > 0};
    lexer->blank = false;
    return token;
}

static void add_sign(Lexer *lexer, char sign) {
    add(lexer, TOKEN_SIGN)->sign = sign;
}

static void add_meaning(Lexer *lexer, const Meaning *meaning) {
    Token *token = add(lexer, meaning->kind);
    token->sign = meaning->kind == TOKEN_SIGN ? (char)meaning->value : 0;
    token->function = (NodeFunction)meaning->value;
    token->relation = (RelationOperator)meaning->value;
}

static const Meaning *find(const Meaning *table, size_t count, TextSpan word) {
    for (size_t i = 0; i < count; i++)
        if (strlen(table[i].word) == word.size && !memcmp(table[i].word, word.text, word.size)) return &table[i];
    return NULL;
}

static bool among(const char *const *table, size_t count, TextSpan word) {
    for (size_t i = 0; i < count; i++)
        if (strlen(table[i]) == word.size && !memcmp(table[i], word.text, word.size)) return true;
    return false;
}

#define FIND(table, word) find(table, sizeof(table) / sizeof *(table), word)
#define AMONG(table, word) among(table, sizeof(table) / sizeof *(table), word)

static char *copy(Lexer *lexer, TextSpan word) {
    return arena_bytes(lexer->arena, word.text, word.size);
}

static bool takes(Lexer *lexer, const char *word) {
    size_t length = strlen(word);
    if (lexer->text.size - lexer->at < length || memcmp(lexer->text.text + lexer->at, word, length)) return false;
    lexer->at += length;
    return true;
}

static void skip_blanks(Lexer *lexer) {
    while (lexer->at < lexer->text.size && strchr(" \t\r\n", lexer->text.text[lexer->at]) &&
           lexer->text.text[lexer->at])
        lexer->at++, lexer->blank = true;
}

// ---- words

static void add_name(Lexer *lexer, TokenKind kind, TextSpan name) {
    add(lexer, kind)->name = copy(lexer, name);
}

// Letters in a row: a function, a constant, a unit, a word, or a product of variables.
static void read_letters(Lexer *lexer) {
    size_t begin = lexer->at;
    while (lexer->at < lexer->text.size && letter(lexer->text.text[lexer->at])) lexer->at++;
    TextSpan word = {lexer->text.text + begin, lexer->at - begin};
    const Meaning *meaning = FIND(words, word);
    if (!meaning) {
        meaning = FIND(commands, word);
        if (meaning && meaning->kind != TOKEN_FUNCTION) meaning = NULL;
        // "5 min", "30 sec" are times.
        bool behind_number = lexer->count && lexer->tokens[lexer->count - 1].kind == TOKEN_NUMBER;
        if (behind_number && AMONG(units, word)) meaning = NULL;
    }
    if (meaning && !(lexer->text_depth && meaning->kind == TOKEN_INFINITY))
        add_meaning(lexer, meaning);
    else if (word.size > 1 && AMONG(units, word))
        add_name(lexer, TOKEN_UNIT, word);
    else if (word.size > 3 || (word.size > 1 && lexer->text_depth) || AMONG(short_words, word))
        add_name(lexer, TOKEN_WORD, word);
    else
        for (size_t i = 0; i < word.size; i++) add_name(lexer, TOKEN_LETTER, (TextSpan){word.text + i, 1});
}

// A number with thousands, decimals and an exponent ("1.5e6"); \overline{…} behind decimals is the parser's.
static void read_number(Lexer *lexer) {
    WrittenNumber number = {0};
    const char *text = lexer->text.text;
    size_t at = lexer->at, size = lexer->text.size;
    answer_number_digits(&number.integer, lexer->text, &at, lexer->commas);
    if (at < size && text[at] == '.') {
        size_t begin = ++at;
        while (at < size && text[at] >= '0' && text[at] <= '9') at++;
        number.decimals = (TextSpan){text + begin, at - begin};
    }
    size_t digit = at + 1;
    if (at < size && (text[at] | 32) == 'e') {
        bool negative = digit < size && text[digit] == '-';
        if (digit < size && (text[digit] == '-' || text[digit] == '+')) digit++;
        size_t begin = digit;
        for (; digit < size && text[digit] >= '0' && text[digit] <= '9'; digit++)
            if (number.exponent <= ANSWER_MAX_DIGITS) number.exponent = number.exponent * 10 + (text[digit] - '0');
        if (digit > begin) at = digit;
        if (negative) number.exponent = -number.exponent;
    }
    lexer->at = at;
    add(lexer, TOKEN_NUMBER)->number = number;
}

// ---- commands

// The degree sign as an exponent: ^\circ, ^{\circ}.
static bool read_degree(Lexer *lexer) {
    size_t start = lexer->at;
    skip_blanks(lexer);
    bool braces = takes(lexer, "{");
    skip_blanks(lexer);
    bool found = takes(lexer, "\\circ") || takes(lexer, "\xe2\x88\x98") || takes(lexer, "o}");
    skip_blanks(lexer);
    if (found && braces) takes(lexer, "}");
    if (found)
        add(lexer, TOKEN_DEGREE);
    else
        lexer->at = start;
    return found;
}

static void read_environment(Lexer *lexer, TokenKind kind) {
    skip_blanks(lexer);
    const char *end = lexer->at < lexer->text.size && lexer->text.text[lexer->at] == '{'
                          ? memchr(lexer->text.text + lexer->at, '}', lexer->text.size - lexer->at)
                          : NULL;
    if (!end) {
        lexer->good = false;
        return;
    }
    TextSpan name = {lexer->text.text + lexer->at + 1, (size_t)(end - lexer->text.text) - lexer->at - 1};
    add_name(lexer, kind, name);
    lexer->at = (size_t)(end - lexer->text.text) + 1;
}

static void read_text_group(Lexer *lexer) {
    skip_blanks(lexer);
    if (takes(lexer, "{")) lexer->text_depth++;
    lexer->blank = true; // what stands around it is no name with it
}

static void read_word_command(Lexer *lexer) {
    size_t begin = lexer->at;
    while (lexer->at < lexer->text.size && letter(lexer->text.text[lexer->at])) lexer->at++;
    TextSpan word = {lexer->text.text + begin, lexer->at - begin};
    const Meaning *meaning = FIND(commands, word);
    if (AMONG(text_commands, word))
        read_text_group(lexer);
    else if (AMONG(greek, word))
        add_name(lexer, TOKEN_LETTER, word);
    else if (word.size == 2 && (!memcmp(word.text, "pm", 2) || !memcmp(word.text, "mp", 2)))
        add(lexer, TOKEN_PLUS_MINUS)->name = word.text[0] == 'p' ? "±" : "∓";
    else if (word.size == 6 && !memcmp(word.text, "lfloor", 6))
        add_name(lexer, TOKEN_OPEN_SET, (TextSpan){"floor", 5});
    else if (word.size == 5 && !memcmp(word.text, "lceil", 5))
        add_name(lexer, TOKEN_OPEN_SET, (TextSpan){"ceil", 4});
    else if ((word.size == 6 && !memcmp(word.text, "rfloor", 6)) || (word.size == 5 && !memcmp(word.text, "rceil", 5)))
        add_name(lexer, TOKEN_CLOSE_SET, (TextSpan){word.text + 1, word.size - 1});
    else if (!meaning)
        lexer->good = false;
    else if (meaning->kind == TOKEN_BEGIN || meaning->kind == TOKEN_END_ENVIRONMENT)
        read_environment(lexer, meaning->kind);
    else if (meaning->kind != TOKEN_END)
        add_meaning(lexer, meaning);
}

static void read_command(Lexer *lexer) {
    lexer->at++;
    char next = lexer->at < lexer->text.size ? lexer->text.text[lexer->at] : 0;
    if (letter(next)) {
        read_word_command(lexer);
        return;
    }
    lexer->at++;
    switch (next) {
    case '\\': add(lexer, TOKEN_ROW); return;
    case '{': add(lexer, TOKEN_OPEN_SET); return;
    case '}': add(lexer, TOKEN_CLOSE_SET); return;
    case '%': add_sign(lexer, '%'); return;
    case '$':
    case '!': return;
    case '|': add_sign(lexer, '|'); return;
    case ',':
    case ';':
    case ':':
    case ' ':
    case '(':
    case ')':
    case '[':
    case ']': lexer->blank = true; return;
    default: lexer->good = false;
    }
}

// ---- other scripts

typedef struct Rune {
    uint32_t code;
    Meaning meaning;
} Rune;

static const Rune runes[] = {
    {0x2212, {0, TOKEN_SIGN, '-'}},
    {0x2013, {0, TOKEN_SIGN, '-'}},
    {0xd7, {0, TOKEN_SIGN, '*'}},
    {0xb7, {0, TOKEN_SIGN, '*'}},
    {0x22c5, {0, TOKEN_SIGN, '*'}},
    {0xf7, {0, TOKEN_SIGN, '/'}},
    {0x2215, {0, TOKEN_SIGN, '/'}},
    {0x2044, {0, TOKEN_SIGN, '/'}},
    {0x27e8, {0, TOKEN_SIGN, '<'}},
    {0x27e9, {0, TOKEN_SIGN, '>'}},
    {0xb0, {0, TOKEN_DEGREE, 0}},
    {0x2264, {0, TOKEN_RELATION, RELATION_LESS_EQUAL}},
    {0x2265, {0, TOKEN_RELATION, RELATION_GREATER_EQUAL}},
    {0x2260, {0, TOKEN_RELATION, RELATION_UNEQUAL}},
    {0x2208, {0, TOKEN_RELATION, RELATION_IN}},
    {0x2248, {0, TOKEN_RELATION, RELATION_EQUAL}},
    {0x3c0, {0, TOKEN_PI, 0}},
    {0x221e, {0, TOKEN_INFINITY, 0}},
    {0x2205, {0, TOKEN_EMPTY_SET, 0}},
    {0x222a, {0, TOKEN_CUP, 0}},
    {0x221a, {0, TOKEN_SQRT, 0}},
    {0xa0, {0, TOKEN_END, 0}},
    {0x2009, {0, TOKEN_END, 0}},
    {0x202f, {0, TOKEN_END, 0}},
    {0x200b, {0, TOKEN_END, 0}},
    {0x20ac, {0, TOKEN_END, 0}},
    {0xa3, {0, TOKEN_END, 0}},
    {0xa5, {0, TOKEN_END, 0}},
};

static const uint32_t superscripts[] = {0x2070, 0xb9, 0xb2, 0xb3, 0x2074, 0x2075, 0x2076, 0x2077, 0x2078, 0x2079};

typedef struct VulgarFraction {
    uint32_t code;
    const char *digits; // numerator, denominator
} VulgarFraction;

static const VulgarFraction vulgar_fractions[] = {{0xbc, "14"},   {0xbd, "12"},   {0xbe, "34"},   {0x2153, "13"},
                                                  {0x2154, "23"}, {0x2155, "15"}, {0x2156, "25"}, {0x2157, "35"},
                                                  {0x2158, "45"}, {0x2159, "16"}, {0x215a, "56"}, {0x215b, "18"},
                                                  {0x215c, "38"}, {0x215d, "58"}, {0x215e, "78"}};

// As \frac of two digits, so that 2½ is a mixed number.
static bool read_vulgar_fraction(Lexer *lexer, uint32_t code) {
    for (size_t i = 0; i < sizeof vulgar_fractions / sizeof *vulgar_fractions; i++) {
        if (vulgar_fractions[i].code != code) continue;
        add(lexer, TOKEN_FRAC);
        for (int d = 0; d < 2; d++)
            add(lexer, TOKEN_NUMBER)->number.integer = (TextSpan){vulgar_fractions[i].digits + d, 1};
        return true;
    }
    return false;
}

static void read_rune(Lexer *lexer) {
    static const char digits[] = "0123456789";
    size_t begin = lexer->at;
    Utf8Step step = utf8_step(lexer->text.text + begin, lexer->text.size - begin);
    lexer->at += step.size;
    if (read_vulgar_fraction(lexer, step.code)) return;
    for (int d = 0; d < 10; d++) {
        if (step.code != superscripts[d]) continue;
        add_sign(lexer, '^');
        add(lexer, TOKEN_NUMBER)->number.integer = (TextSpan){digits + d, 1};
        return;
    }
    if (step.code == 0xb1 || step.code == 0x2213) {
        add(lexer, TOKEN_PLUS_MINUS)->name = step.code == 0xb1 ? "±" : "∓";
        return;
    }
    for (size_t i = 0; i < sizeof runes / sizeof *runes; i++) {
        if (runes[i].code != step.code) continue;
        if (runes[i].meaning.kind == TOKEN_END)
            lexer->blank = true;
        else
            add_meaning(lexer, &runes[i].meaning);
        return;
    }
    if (step.kind != UTF8_GOOD || step.code < 0xaa) {
        lexer->good = false;
        return;
    }
    bool greek_letter = step.code >= 0x391 && step.code <= 0x3c9;
    // A word in another script: up to the next ASCII character.
    while (!greek_letter && lexer->at < lexer->text.size && (unsigned char)lexer->text.text[lexer->at] >= 0x80)
        lexer->at++;
    add_name(lexer, greek_letter ? TOKEN_LETTER : TOKEN_WORD, (TextSpan){lexer->text.text + begin, lexer->at - begin});
}

// ---- signs

static void read_sign(Lexer *lexer, char c) {
    static const struct {
        const char *text;
        RelationOperator relation;
    } relations[] = {{"<=", RELATION_LESS_EQUAL}, {">=", RELATION_GREATER_EQUAL}, {"!=", RELATION_UNEQUAL},
                     {"==", RELATION_EQUAL},      {"=", RELATION_EQUAL},          {"<", RELATION_LESS},
                     {">", RELATION_GREATER}};
    for (size_t i = 0; i < sizeof relations / sizeof *relations; i++) {
        if (!takes(lexer, relations[i].text)) continue;
        add(lexer, TOKEN_RELATION)->relation = relations[i].relation;
        return;
    }
    if (takes(lexer, "**")) {
        add_sign(lexer, '^');
        return;
    }
    lexer->at++;
    switch (c) {
    case '$':
    case '~':
    case '"': lexer->blank = true; return;
    case ';': add(lexer, TOKEN_CONNECTOR); return;
    case '^':
        if (!read_degree(lexer)) add_sign(lexer, '^');
        return;
    case '{':
        if (lexer->text_depth)
            lexer->text_depth++;
        else
            add_sign(lexer, c);
        return;
    case '}':
        if (!lexer->text_depth)
            add_sign(lexer, c);
        else if (--lexer->text_depth == 0)
            lexer->blank = true;
        return;
    default:
        if (c && strchr("+-*/_()[]|,:!%&", c))
            add_sign(lexer, c);
        else
            lexer->good = false;
    }
}

Token *answer_lex(TextSpan text, bool commas, Arena *arena) {
    Lexer lexer = {.text = text,
                   .commas = commas,
                   .arena = arena,
                   .tokens = arena_array(arena, Token, ANSWER_MAX_TOKENS + 1),
                   .good = true};
    for (skip_blanks(&lexer); lexer.good && lexer.at < text.size; skip_blanks(&lexer)) {
        char c = text.text[lexer.at];
        bool point =
            c == '.' && lexer.at + 1 < text.size && text.text[lexer.at + 1] >= '0' && text.text[lexer.at + 1] <= '9';
        if ((c >= '0' && c <= '9') || point)
            read_number(&lexer);
        else if (letter(c))
            read_letters(&lexer);
        else if (c == '\\')
            read_command(&lexer);
        else if ((unsigned char)c >= 0x80)
            read_rune(&lexer);
        else
            read_sign(&lexer, c);
    }
    if (lexer.count >= ANSWER_MAX_TOKENS) lexer.good = false;
    lexer.tokens[lexer.good ? lexer.count : 0] = (Token){.kind = TOKEN_END};
    return lexer.good ? lexer.tokens : NULL;
}
