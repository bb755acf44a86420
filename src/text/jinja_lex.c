#include "text/jinja_number.h"
#include "text/jinja_text.h"
#include "text/jinja_tree.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool fail(JinjaLexer *lexer, const char *format, const char *what) {
    lexer->run->line = lexer->line;
    return jinja_run_fault(lexer->run, "TemplateSyntaxError", format, what);
}

// "\r\n" and "\r" become "\n"; one line break at the very end goes.
bool jinja_lex_open(JinjaLexer *lexer, JinjaRun *run, const char *source, size_t size) {
    memset(lexer, 0, sizeof *lexer);
    run->line = 1;
    if (!jinja_text_valid(source, size))
        return jinja_run_fault(run, "TemplateSyntaxError", "the template is not valid UTF-8");
    char *text = jinja_run_alloc(run, size + 1);
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        if (source[i] == '\r' && i + 1 < size && source[i + 1] == '\n') continue;
        text[length++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (length && text[length - 1] == '\n') length--;
    *lexer = (JinjaLexer){.run = run, .source = text, .size = length, .line = 1, .line_starting = true};
    return true;
}

static char byte_at(const JinjaLexer *lexer, size_t at) {
    return at < lexer->size ? lexer->source[at] : 0;
}

static bool text_at(const JinjaLexer *lexer, size_t at, const char *text) {
    size_t length = strlen(text);
    return at + length <= lexer->size && !memcmp(lexer->source + at, text, length);
}

static size_t skip_spaces(const JinjaLexer *lexer, size_t at) {
    while (at < lexer->size) {
        size_t size;
        if (!jinja_text_is_space(jinja_text_codepoint(lexer->source, at, &size))) break;
        at += size;
    }
    return at;
}

static int count_lines(const JinjaLexer *lexer, size_t from, size_t to) {
    int count = 0;
    for (size_t i = from; i < to; i++) count += lexer->source[i] == '\n';
    return count;
}

// Moves to `to`: one match of jinja2's lexer.
static void advance(JinjaLexer *lexer, size_t to) {
    lexer->line += count_lines(lexer, lexer->at, to);
    if (to > lexer->at) lexer->line_starting = lexer->source[to - 1] == '\n';
    lexer->at = to;
}

static JinjaToken token_of(const JinjaLexer *lexer, JinjaTokenType type, size_t from, size_t to) {
    return (JinjaToken){type, lexer->line, jinja_value_text(lexer->source + from, to - from)};
}

// Where data [from, to) ends once the blanks before a tag are gone: all of them for "-"; those between the line's
// start and a tag that stands first on its line, unless "+" or a print tag.
static size_t strip_end(const JinjaLexer *lexer, size_t from, size_t to, char sign, bool print) {
    size_t end = to;
    if (sign == '-') {
        while (end > from) {
            size_t last = end - 1;
            while (last > from && ((uint8_t)lexer->source[last] & 0xc0) == 0x80) last--;
            if (!jinja_text_is_space(jinja_text_codepoint(lexer->source, last, NULL))) break;
            end = last;
        }
        return end;
    }
    if (sign == '+' || print) return to;
    size_t start = to;
    while (start > from && lexer->source[start - 1] != '\n') start--;
    if (start == from && !lexer->line_starting) return to;
    return skip_spaces(lexer, start) >= to ? start : to;
}

// The end of a tag: "-%}" with all blanks behind it, "+%}", or "%}" with a line break when blocks are trimmed.
// Returns the byte behind it, or 0.
static size_t tag_end(const JinjaLexer *lexer, size_t at, const char *close, bool trim, bool plus) {
    char c = byte_at(lexer, at);
    if (c == '-' && text_at(lexer, at + 1, close)) return skip_spaces(lexer, at + 1 + strlen(close));
    if (c == '+' && plus && text_at(lexer, at + 1, close)) return at + 1 + strlen(close);
    if (!text_at(lexer, at, close)) return 0;
    at += strlen(close);
    return at + (trim && byte_at(lexer, at) == '\n');
}

// The start of a tag at `at`, with its sign; returns the byte behind it, or 0.
static size_t tag_begin(const JinjaLexer *lexer, size_t at, const char *open, char *sign) {
    if (!text_at(lexer, at, open)) return 0;
    at += strlen(open);
    *sign = byte_at(lexer, at);
    if (*sign != '-' && *sign != '+') {
        *sign = 0;
        return at;
    }
    return at + 1;
}

// {% raw %} and {% endraw %}: a whole tag, or 0.
static size_t raw_tag(const JinjaLexer *lexer, size_t at, const char *word, char *sign) {
    size_t end = tag_begin(lexer, at, "{%", sign);
    if (!end) return 0;
    end = skip_spaces(lexer, end);
    if (!text_at(lexer, end, word)) return 0;
    end = skip_spaces(lexer, end + strlen(word));
    bool closes = word[0] == 'e'; // the end tag is trimmed like any block
    return tag_end(lexer, end, "%}", closes, closes);
}

static bool skip_comment(JinjaLexer *lexer) {
    size_t end = 0, at = lexer->at;
    while (at < lexer->size && !(end = tag_end(lexer, at, "#}", true, true))) at++;
    if (!end && lexer->at < lexer->size) return fail(lexer, "%s", "Missing end of comment tag");
    advance(lexer, end ? end : lexer->size);
    return true;
}

static bool lex_raw(JinjaLexer *lexer, JinjaToken *token) {
    char sign;
    for (size_t at = lexer->at; at < lexer->size; at++) {
        size_t end = lexer->source[at] == '{' ? raw_tag(lexer, at, "endraw", &sign) : 0;
        if (!end) continue;
        *token = token_of(lexer, JINJA_T_DATA, lexer->at, strip_end(lexer, lexer->at, at, sign, false));
        advance(lexer, end);
        lexer->state = JINJA_IN_DATA;
        return true;
    }
    if (lexer->at < lexer->size) return fail(lexer, "%s", "Missing end of raw directive");
    *token = token_of(lexer, JINJA_T_END, lexer->at, lexer->at);
    return true;
}

// Data up to the next tag; a comment or raw tag is passed over, other tags wait in pending.
static bool lex_data(JinjaLexer *lexer, JinjaToken *token) {
    size_t at = lexer->at;
    while (at < lexer->size &&
           !(lexer->source[at] == '{' && byte_at(lexer, at + 1) && strchr("%{#", byte_at(lexer, at + 1))))
        at++;
    if (at >= lexer->size) {
        bool end = lexer->at >= lexer->size;
        *token = token_of(lexer, end ? JINJA_T_END : JINJA_T_DATA, lexer->at, lexer->size);
        advance(lexer, lexer->size);
        return true;
    }
    char kind = lexer->source[at + 1], sign;
    size_t end = kind == '%' ? raw_tag(lexer, at, "raw", &sign) : 0;
    bool raw = end != 0;
    if (!raw) end = tag_begin(lexer, at, kind == '%' ? "{%" : kind == '{' ? "{{" : "{#", &sign);
    *token = token_of(lexer, JINJA_T_DATA, lexer->at, strip_end(lexer, lexer->at, at, sign, kind == '{'));
    lexer->line += count_lines(lexer, lexer->at, at);
    lexer->at = at;
    if (raw) {
        advance(lexer, end);
        lexer->state = JINJA_IN_RAW;
        return true;
    }
    lexer->pending = token_of(lexer, kind == '%' ? JINJA_T_BLOCK_BEGIN : JINJA_T_PRINT_BEGIN, at, end);
    advance(lexer, end);
    if (kind == '#') return skip_comment(lexer);
    lexer->has_pending = true;
    lexer->state = kind == '%' ? JINJA_IN_BLOCK : JINJA_IN_PRINT;
    return true;
}

static size_t digits_of(const JinjaLexer *lexer, size_t at, const char *allowed) { // single underscores between
    size_t end = at;
    for (;;) {
        size_t from = end + (end > at && byte_at(lexer, end) == '_'), to = from;
        while (byte_at(lexer, to) && strchr(allowed, byte_at(lexer, to))) to++;
        if (to == from) return end;
        end = to;
    }
}

// The end of a float at `at`, or 0: needs a fraction or an exponent.
static size_t float_end(const JinjaLexer *lexer, size_t at) {
    static const char decimal[] = "0123456789";
    if (at && lexer->source[at - 1] == '.') return 0;
    size_t end = digits_of(lexer, at, decimal);
    bool real = false;
    if (end == at) return 0;
    if (byte_at(lexer, end) == '.' && digits_of(lexer, end + 1, decimal) > end + 1)
        end = digits_of(lexer, end + 1, decimal), real = true;
    if ((byte_at(lexer, end) | 0x20) == 'e') {
        size_t from = end + 1 + (byte_at(lexer, end + 1) == '-' || byte_at(lexer, end + 1) == '+');
        if (digits_of(lexer, from, decimal) > from) return digits_of(lexer, from, decimal);
    }
    return real ? end : 0;
}

static size_t integer_end(const JinjaLexer *lexer, size_t at) {
    static const char *const allowed[] = {"01", "01234567", "0123456789abcdefABCDEF"};
    if (byte_at(lexer, at) != '0') return digits_of(lexer, at, "0123456789");
    const char *kinds = "box", *kind = strchr(kinds, byte_at(lexer, at + 1) | 0x20);
    if (byte_at(lexer, at + 1) && kind && *kind) {
        size_t from = at + 2 + (byte_at(lexer, at + 2) == '_'), end = digits_of(lexer, from, allowed[kind - kinds]);
        if (end > from) return end;
    }
    return digits_of(lexer, at, "0");
}

static bool lex_number(JinjaLexer *lexer, JinjaToken *token) {
    size_t at = lexer->at, end = float_end(lexer, at);
    *token = token_of(lexer, end ? JINJA_T_FLOAT : JINJA_T_INTEGER, at, at);
    const char *text = lexer->source + at;
    lexer->run->line = lexer->line;
    if (end) {
        token->value = jinja_value_real(0);
        if (!jinja_number_parse_real(text, end - at, &token->value.real)) return fail(lexer, "%s", "number too long");
    } else {
        end = integer_end(lexer, at);
        if (!jinja_number_parse_int(lexer->run, text, end - at, 0, &token->value))
            return fail(lexer, "%s", "number too long");
    }
    advance(lexer, end);
    return true;
}

static bool put_hex(JinjaLexer *lexer, JinjaBuffer *buffer, size_t *at, size_t end, int digits) {
    uint32_t codepoint = 0;
    for (int i = 0; i < digits; i++, ++*at) {
        char c = *at < end ? lexer->source[*at] : 0;
        if (!isxdigit((unsigned char)c)) return fail(lexer, "%s", "truncated \\x, \\u or \\U escape");
        codepoint = codepoint * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (codepoint > 0x10ffff) return fail(lexer, "%s", "illegal Unicode character");
    if (codepoint >= 0xd800 && codepoint < 0xe000) return fail(lexer, "%s", "surrogates are not supported in strings");
    jinja_run_putc(lexer->run, buffer, codepoint);
    return true;
}

// Python's unicode-escape: one escape behind the backslash at *at.
static bool unescape(JinjaLexer *lexer, JinjaBuffer *buffer, size_t *at, size_t end) {
    static const char letters[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
    size_t size;
    uint32_t c = jinja_text_codepoint(lexer->source, ++*at, &size);
    const char *known = c && c < 0x80 ? strchr(letters, (char)c) : NULL;
    if (c >= '0' && c <= '7') {
        uint32_t codepoint = 0;
        for (int i = 0; i < 3 && *at < end && lexer->source[*at] >= '0' && lexer->source[*at] <= '7'; i++, ++*at)
            codepoint = codepoint * 8 + (uint32_t)(lexer->source[*at] - '0');
        jinja_run_putc(lexer->run, buffer, codepoint);
        return true;
    }
    *at += size;
    if (known) {
        jinja_run_put(lexer->run, buffer, &meanings[known - letters], 1);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        return put_hex(lexer, buffer, at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
        return fail(lexer, "%s", "\\N{name} is not supported in strings");
    } else if (c >= 0x80) { // jinja2 escapes what is not ASCII first, and the backslash then escapes that backslash
        char text[16];
        snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        jinja_run_puts(lexer->run, buffer, text);
    } else if (c != '\n') {
        jinja_run_puts(lexer->run, buffer, "\\");
        jinja_run_putc(lexer->run, buffer, c);
    }
    return true;
}

static bool unexpected(JinjaLexer *lexer) {
    JinjaBuffer buffer = {0};
    size_t size = jinja_text_size_at(jinja_value_text(lexer->source, lexer->size), lexer->at);
    jinja_text_repr(lexer->run, &buffer, jinja_value_text(lexer->source + lexer->at, size));
    char text[64];
    snprintf(text, sizeof text, "%.*s at %zu", (int)buffer.length, buffer.text,
             jinja_text_length(jinja_value_text(lexer->source, lexer->at)));
    return fail(lexer, "unexpected char %s", text);
}

static bool lex_string(JinjaLexer *lexer, JinjaToken *token) {
    char quote = lexer->source[lexer->at];
    size_t end = lexer->at + 1;
    while (end < lexer->size && lexer->source[end] != quote) end += 1 + (lexer->source[end] == '\\');
    if (end >= lexer->size) return unexpected(lexer);
    *token = token_of(lexer, JINJA_T_STRING, lexer->at, lexer->at);
    JinjaBuffer buffer = {0};
    for (size_t at = lexer->at + 1; at < end;) {
        size_t from = at;
        while (at < end && lexer->source[at] != '\\') at++;
        jinja_run_put(lexer->run, &buffer, lexer->source + from, at - from);
        if (at < end && !unescape(lexer, &buffer, &at, end)) return false;
    }
    token->value = jinja_text_taken(&buffer);
    advance(lexer, end + 1);
    return jinja_run_good(lexer->run);
}

static void lex_name(JinjaLexer *lexer, JinjaToken *token) {
    size_t end = lexer->at;
    while (end < lexer->size) {
        size_t size;
        if (!jinja_text_is_name(jinja_text_codepoint(lexer->source, end, &size), false)) break;
        end += size;
    }
    *token = token_of(lexer, JINJA_T_NAME, lexer->at, end);
    advance(lexer, end);
}

static bool balance(JinjaLexer *lexer, char c) {
    char text[64];
    if (c == '(' || c == '[' || c == '{') {
        if (lexer->open_count == JINJA_DEPTH) return fail(lexer, "%s", "brackets nested too deep");
        lexer->open[lexer->open_count++] = (char)(c == '(' ? ')' : c + 2);
    } else if (c == ')' || c == ']' || c == '}') {
        char expected = lexer->open_count ? lexer->open[--lexer->open_count] : 0;
        if (expected) snprintf(text, sizeof text, "unexpected '%c', expected '%c'", c, expected);
        if (!expected) snprintf(text, sizeof text, "unexpected '%c'", c);
        if (expected != c) return fail(lexer, "%s", text);
    }
    return true;
}

static bool lex_operator(JinjaLexer *lexer, JinjaToken *token) {
    static const char *const pairs[] = {"//", "**", "==", "!=", ">=", "<="};
    size_t length = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (text_at(lexer, lexer->at, pairs[i])) length = 2;
    char c = lexer->source[lexer->at];
    if (!length && c && strchr("+-/*%~[](){}><=.:|,;", c)) length = 1;
    if (!length) return unexpected(lexer);
    if (length == 1 && !balance(lexer, c)) return false;
    *token = token_of(lexer, JINJA_T_OPERATOR, lexer->at, lexer->at + length);
    advance(lexer, lexer->at + length);
    return true;
}

// Inside a tag.
static bool lex_tag(JinjaLexer *lexer, JinjaToken *token) {
    bool print = lexer->state == JINJA_IN_PRINT;
    for (;;) {
        size_t end = lexer->open_count ? 0 : tag_end(lexer, lexer->at, print ? "}}" : "%}", !print, !print);
        if (end) {
            *token = token_of(lexer, print ? JINJA_T_PRINT_END : JINJA_T_BLOCK_END, lexer->at, end);
            advance(lexer, end);
            lexer->state = JINJA_IN_DATA;
            return true;
        }
        end = skip_spaces(lexer, lexer->at);
        if (end == lexer->at) break;
        advance(lexer, end);
    }
    if (lexer->at >= lexer->size) {
        *token = token_of(lexer, JINJA_T_END, lexer->at, lexer->at);
        return true;
    }
    char c = lexer->source[lexer->at];
    if (isdigit((unsigned char)c)) return lex_number(lexer, token);
    if (c == '\'' || c == '"') return lex_string(lexer, token);
    if (jinja_text_is_name(jinja_text_codepoint(lexer->source, lexer->at, NULL), true)) {
        lex_name(lexer, token);
        return true;
    }
    return lex_operator(lexer, token);
}

bool jinja_lex_next(JinjaLexer *lexer, JinjaToken *token) {
    if (!jinja_run_good(lexer->run)) return false;
    if (lexer->has_pending) {
        *token = lexer->pending;
        lexer->has_pending = false;
        return true;
    }
    switch (lexer->state) {
    case JINJA_IN_DATA: return lex_data(lexer, token);
    case JINJA_IN_RAW: return lex_raw(lexer, token);
    default: return lex_tag(lexer, token);
    }
}
