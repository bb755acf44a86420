#include "text/jinja_format.h"

#include "text/jinja_number.h"
#include "text/jinja_string.h"
#include "text/jinja_text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PRECISION = 400 }; // digits behind the point; more is refused

// One conversion: of printf style or of str.format's specification.
typedef struct Spec {
    JinjaValue fill; // one code point
    char align;      // '<', '>', '^', '=', or 0: as the type has it
    char sign;       // '+', ' ' or 0
    bool alternate, zero;
    char grouping; // ',' or '_' or 0
    int64_t width; // in code points
    int precision; // -1: none
    char type;     // 0: none
} Spec;

static bool pad(JinjaRun *run, JinjaBuffer *out, const Spec *spec, JinjaValue sign, JinjaValue body, char align) {
    int64_t length = (int64_t)(jinja_text_length(sign) + jinja_text_length(body));
    int64_t missing = spec->width > length ? spec->width - length : 0;
    int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    JinjaValue left, right;
    if (!jinja_string_repeat(run, spec->fill, (size_t)before, &left) ||
        !jinja_string_repeat(run, spec->fill, (size_t)(missing - before), &right))
        return false;
    if (align == '=') jinja_run_put(run, out, sign.text, sign.size);
    jinja_run_put(run, out, left.text, left.size);
    if (align != '=') jinja_run_put(run, out, sign.text, sign.size);
    jinja_run_put(run, out, body.text, body.size);
    jinja_run_put(run, out, right.text, right.size);
    return jinja_run_good(run);
}

static bool put_text(JinjaRun *run, JinjaBuffer *out, const Spec *spec, JinjaValue text) {
    size_t end = spec->precision < 0 ? text.size : jinja_text_offset(text, (size_t)spec->precision);
    return pad(run, out, spec, jinja_value_string(""), jinja_text_part(text, 0, end), spec->align ? spec->align : '<');
}

// A thousands separator between digits of the whole part.
static void group(JinjaRun *run, JinjaBuffer *out, const char *digits, size_t count, char separator, size_t every) {
    size_t whole = 0;
    while (whole < count && isalnum((unsigned char)digits[whole]) &&
           (every == 4 || isdigit((unsigned char)digits[whole])))
        whole++;
    for (size_t i = 0; i < count; i++) {
        if (separator && i && i < whole && (whole - i) % every == 0) jinja_run_put(run, out, &separator, 1);
        jinja_run_put(run, out, &digits[i], 1);
    }
}

static bool put_number(JinjaRun *run, JinjaBuffer *out, const Spec *spec, bool negative, const char *prefix,
                       const char *digits, size_t count, size_t every) {
    JinjaBuffer sign = {0}, body = {0};
    if (negative || spec->sign) jinja_run_puts(run, &sign, negative ? "-" : spec->sign == '+' ? "+" : " ");
    jinja_run_puts(run, &sign, prefix);
    group(run, &body, digits, count, spec->grouping, every);
    Spec padded = *spec;
    char align = spec->align ? spec->align : spec->zero ? '=' : '>';
    if (spec->zero && !spec->align) padded.fill = jinja_value_string("0");
    return pad(run, out, &padded, jinja_text_taken(&sign), jinja_text_taken(&body), align);
}

static bool put_integer(JinjaRun *run, JinjaBuffer *out, const Spec *spec, JinjaValue number) {
    JinjaBuffer buffer = {0};
    char type = spec->type ? spec->type : 'd', digits[136];
    if (type == 'd' || type == 'i' || type == 'u' || type == 'n' || number.kind == JINJA_BIG) {
        if (number.kind == JINJA_BIG && !strchr("diun", type))
            return jinja_run_fault(run, "LimitError", "only decimal formats for integers of over 127 bits");
        if (spec->precision > 0) { // printf style: at least so many digits
            JinjaValue text, padded;
            jinja_number_put(run, &buffer, number);
            bool negative = buffer.length && buffer.text[0] == '-';
            text = jinja_text_part(jinja_text_taken(&buffer), negative, buffer.length);
            return jinja_string_pad(run, text, JINJA_RIGHT, spec->precision, jinja_value_string("0"), &padded) &&
                   put_number(run, out, spec, negative, "", padded.text, padded.size, 3);
        }
        jinja_number_put(run, &buffer, number);
        bool negative = buffer.length && buffer.text[0] == '-';
        return put_number(run, out, spec, negative, "", buffer.text + negative, buffer.length - negative, 3);
    }
    unsigned __int128 rest =
        number.integer < 0 ? -(unsigned __int128)number.integer : (unsigned __int128)number.integer;
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : 16;
    char *at = digits + sizeof digits;
    do *--at = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[(unsigned)(rest % base)], rest /= base;
    while (rest);
    const char *prefix = !spec->alternate ? "" : type == 'b' ? "0b" : type == 'o' ? "0o" : type == 'X' ? "0X" : "0x";
    return put_number(run, out, spec, number.integer < 0, prefix, at, (size_t)(digits + sizeof digits - at), 4);
}

static bool put_real(JinjaRun *run, JinjaBuffer *out, const Spec *spec, double real) {
    char text[MOST_PRECISION + 400], form[16];
    char type = spec->type;
    int precision = spec->precision;
    if (precision > MOST_PRECISION) return jinja_run_fault(run, "LimitError", "precision over %d", MOST_PRECISION);
    bool negative = signbit(real) && !isnan(real);
    real = fabs(real);
    if (type == '%') real *= 100;
    if (!type && precision < 0) {
        jinja_number_real(text, real);
    } else {
        char letter = type == '%' ? 'f' : !type || type == 'n' ? 'g' : type;
        snprintf(form, sizeof form, "%%%s.*%c", spec->alternate ? "#" : "", letter);
        size_t size = (size_t)snprintf(text, sizeof text, form, precision < 0 ? 6 : precision, real);
        bool whole = !type && !strpbrk(text, ".en");
        snprintf(text + size, sizeof text - size, "%s", whole ? ".0" : type == '%' ? "%" : "");
    }
    return put_number(run, out, spec, negative, "", text, strlen(text), 3);
}

static bool put_character(JinjaRun *run, JinjaBuffer *out, const Spec *spec, JinjaValue value) {
    JinjaBuffer buffer = {0};
    if (value.kind == JINJA_STRING && jinja_text_length(value) == 1) return put_text(run, out, spec, value);
    bool valid = value.kind == JINJA_INT && value.integer >= 0 && value.integer <= 0x10ffff &&
                 !(value.integer >= 0xd800 && value.integer < 0xe000);
    if (!valid) return jinja_run_fault(run, "TypeError", "%%c requires int or char");
    jinja_run_putc(run, &buffer, (uint32_t)value.integer);
    return put_text(run, out, spec, jinja_text_taken(&buffer));
}

static bool text_by(JinjaRun *run, JinjaValue value, char how, JinjaValue *text) {
    if (how == 's') return jinja_text_of(run, value, text);
    JinjaBuffer buffer = {0};
    jinja_text_repr(run, &buffer, value);
    *text = jinja_text_taken(&buffer);
    return jinja_run_good(run);
}

// ---- printf style ----

typedef struct Printf {
    JinjaRun *run;
    JinjaValue format, values;
    size_t at, next; // byte of the format; value to be taken
    bool several, used;
} Printf;

static bool take(Printf *state, JinjaValue *value) {
    const JinjaList *list = state->several ? state->values.list : NULL;
    if (list ? state->next >= list->count : state->used)
        return jinja_run_fault(state->run, "TypeError", "not enough arguments for format string");
    *value = list ? list->items[state->next++] : state->values;
    state->used = true;
    return true;
}

static char peek(const Printf *state) {
    return state->at < state->format.size ? state->format.text[state->at] : 0;
}

static bool scan_count(Printf *state, int64_t *count) {
    JinjaValue value;
    if (peek(state) == '*') {
        state->at++;
        if (!take(state, &value)) return false;
        if (value.kind != JINJA_INT) return jinja_run_fault(state->run, "TypeError", "* wants int");
        return jinja_call_integer(state->run, value, 0, count);
    }
    for (*count = 0; isdigit((unsigned char)peek(state)); state->at++)
        if (*count < INT32_MAX) *count = *count * 10 + (peek(state) - '0');
    return true;
}

// %(name): the value under that key.
static bool scan_key(Printf *state, JinjaValue *value, bool *keyed) {
    *keyed = peek(state) == '(';
    if (!*keyed) return true;
    size_t from = ++state->at;
    for (int open = 1; open; state->at++) {
        char c = peek(state);
        if (state->at >= state->format.size) return jinja_run_fault(state->run, "ValueError", "incomplete format key");
        open += (c == '(') - (c == ')');
    }
    if (state->values.kind != JINJA_DICT) return jinja_run_fault(state->run, "TypeError", "format requires a mapping");
    JinjaValue key = jinja_text_part(state->format, from, state->at - 1);
    if (!jinja_value_get(state->run, state->values, key, value)) return false;
    state->used = true;
    return value->kind != JINJA_MISSING || jinja_run_fault(state->run, "KeyError", "the format names a missing key");
}

static bool put_conversion(Printf *state, JinjaBuffer *out, Spec *spec, JinjaValue value) {
    JinjaRun *run = state->run;
    JinjaValue text, number;
    double real;
    bool is_number = jinja_number_to_real(value, &real);
    char type = spec->type;
    if (!type || !strchr("sracdiuoxXeEfFgG", type))
        return jinja_run_fault(run, "ValueError", "unsupported format character at index %zu", state->at - 1);
    if (strchr("eEfFgG", type) && value.kind == JINJA_UNDEFINED) return jinja_value_fail(run, value);
    if (strchr("sra", type)) {
        spec->align = spec->align ? spec->align : '>';
        return text_by(run, value, type == 's' ? 's' : 'r', &text) && put_text(run, out, spec, text);
    }
    if (type == 'c') {
        spec->align = spec->align ? spec->align : '>';
        return put_character(run, out, spec, value);
    }
    if (!is_number)
        return jinja_run_fault(run, "TypeError", "%%%c format: a real number is required, not %s", type,
                               jinja_value_type(value));
    if (strchr("eEfFgG", type)) return put_real(run, out, spec, real);
    if (value.kind == JINJA_FLOAT && strchr("oxX", type))
        return jinja_run_fault(run, "TypeError", "%%%c format: an integer is required, not float", type);
    return jinja_number_truncate(run, value, &number) && put_integer(run, out, spec, number);
}

static bool convert(Printf *state, JinjaBuffer *out) {
    Spec spec = {.fill = jinja_value_string(" "), .precision = -1};
    JinjaValue value;
    bool keyed;
    int64_t count;
    if (!scan_key(state, &value, &keyed)) return false;
    for (; peek(state) && strchr("-+ #0", peek(state)); state->at++) {
        char flag = peek(state);
        if (flag == '-') spec.align = '<';
        if (flag == '+' || (flag == ' ' && !spec.sign)) spec.sign = flag;
        if (flag == '#') spec.alternate = true;
        if (flag == '0') spec.zero = true;
    }
    if (!scan_count(state, &spec.width)) return false;
    if (spec.width < 0) spec.align = '<', spec.width = spec.width < -INT32_MAX ? INT32_MAX : -spec.width;
    if (peek(state) == '.') {
        state->at++;
        if (!scan_count(state, &count)) return false;
        spec.precision = count < 0 ? 0 : count > INT32_MAX ? INT32_MAX : (int)count;
    }
    while (peek(state) && strchr("hlL", peek(state))) state->at++;
    if (state->at >= state->format.size) return jinja_run_fault(state->run, "ValueError", "incomplete format");
    spec.type = state->format.text[state->at++];
    if (spec.type == '%') {
        jinja_run_puts(state->run, out, "%");
        return true;
    }
    if (!keyed && !take(state, &value)) return false;
    return put_conversion(state, out, &spec, value);
}

bool jinja_format_percent(JinjaRun *run, JinjaValue format, JinjaValue values, JinjaValue *text) {
    Printf state = {.run = run, .format = format, .values = values, .several = values.kind == JINJA_TUPLE};
    JinjaBuffer out = {0};
    while (state.at < format.size) {
        size_t from = state.at;
        while (state.at < format.size && format.text[state.at] != '%') state.at++;
        jinja_run_put(run, &out, format.text + from, state.at - from);
        if (state.at >= format.size) break;
        state.at++;
        if (!jinja_run_step(run, 1) || !convert(&state, &out)) return false;
    }
    bool mapping = values.kind == JINJA_DICT || values.kind == JINJA_LIST || values.kind == JINJA_UNDEFINED;
    if (state.several ? state.next < values.list->count : !state.used && !mapping)
        return jinja_run_fault(run, "TypeError", "not all arguments converted during string formatting");
    *text = jinja_text_taken(&out);
    text->safe = format.safe;
    return jinja_run_good(run);
}

// ---- str.format ----

typedef struct Braces {
    JinjaRun *run;
    const JinjaArguments *arguments;
    int64_t next; // automatic number; -1 once fields are numbered by hand
    bool automatic;
} Braces;

static bool expand(Braces *state, JinjaValue format, int depth, JinjaBuffer *out);

static char byte_at(JinjaValue text, size_t at) {
    return at < text.size ? text.text[at] : 0;
}

static bool parse_spec(JinjaRun *run, JinjaValue text, Spec *spec) {
    size_t at = 0, size = text.size ? jinja_text_size_at(text, 0) : 0;
    *spec = (Spec){.fill = jinja_value_string(" "), .precision = -1};
    if (byte_at(text, size) && strchr("<>=^", byte_at(text, size))) {
        spec->fill = jinja_text_part(text, 0, size);
        spec->align = byte_at(text, size);
        at = size + 1;
    } else if (byte_at(text, 0) && strchr("<>=^", byte_at(text, 0))) {
        spec->align = byte_at(text, at++);
    }
    if (byte_at(text, at) && strchr("+- ", byte_at(text, at)))
        spec->sign = byte_at(text, at) == '-' ? 0 : byte_at(text, at), at++;
    if (byte_at(text, at) == 'z') at++;
    if (byte_at(text, at) == '#') spec->alternate = true, at++;
    if (byte_at(text, at) == '0') {
        if (!spec->align) spec->zero = true;
        at++;
    }
    for (; isdigit((unsigned char)byte_at(text, at)); at++)
        if (spec->width < INT32_MAX) spec->width = spec->width * 10 + (byte_at(text, at) - '0');
    if (byte_at(text, at) == ',' || byte_at(text, at) == '_') spec->grouping = byte_at(text, at++);
    if (byte_at(text, at) == '.') {
        spec->precision = 0;
        if (!isdigit((unsigned char)byte_at(text, ++at)))
            return jinja_run_fault(run, "ValueError", "Format specifier missing precision");
        for (; isdigit((unsigned char)byte_at(text, at)); at++)
            if (spec->precision < 1 << 24) spec->precision = spec->precision * 10 + (byte_at(text, at) - '0');
    }
    if (at < text.size) spec->type = byte_at(text, at++);
    return at >= text.size || jinja_run_fault(run, "ValueError", "Invalid format specifier");
}

static bool put_formatted(JinjaRun *run, JinjaBuffer *out, JinjaValue value, JinjaValue specification) {
    Spec spec;
    double real;
    JinjaValue text;
    bool integer = value.kind == JINJA_INT || value.kind == JINJA_BIG || value.kind == JINJA_BOOL;
    if (!specification.size) {
        if (!jinja_text_of(run, value, &text)) return false;
        jinja_run_put(run, out, text.text, text.size);
        return true;
    }
    if (!parse_spec(run, specification, &spec)) return false;
    if (value.kind == JINJA_STRING && (!spec.type || spec.type == 's')) {
        if (spec.zero) spec.fill = jinja_value_string("0");
        return put_text(run, out, &spec, value);
    }
    if (integer && spec.type == 'c') return put_character(run, out, &spec, value);
    if (integer && (!spec.type || strchr("bdoxXn", spec.type))) {
        if (spec.precision >= 0)
            return jinja_run_fault(run, "ValueError", "Precision not allowed in integer format specifier");
        if (value.kind == JINJA_BOOL) value = jinja_value_int(value.truth);
        return put_integer(run, out, &spec, value);
    }
    bool real_type = !spec.type || strchr("eEfFgGn%", spec.type);
    if (real_type && jinja_number_to_real(value, &real)) return put_real(run, out, &spec, real);
    if (integer || value.kind == JINJA_FLOAT || value.kind == JINJA_STRING)
        return jinja_run_fault(run, "ValueError", "Unknown format code for object of type '%s'",
                               jinja_value_type(value));
    return jinja_run_fault(run, "TypeError", "unsupported format string passed to %s.__format__",
                           jinja_value_type(value));
}

static bool parse_index(JinjaValue text, int64_t *index) {
    *index = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (!isdigit((unsigned char)text.text[i]) || *index > INT32_MAX) return false;
        *index = *index * 10 + (text.text[i] - '0');
    }
    return text.size != 0;
}

static bool first_value(Braces *state, JinjaValue name, JinjaValue *value) {
    JinjaRun *run = state->run;
    const JinjaList *positional = state->arguments->positional.list;
    int64_t index;
    bool numbered = parse_index(name, &index);
    if (!name.size || numbered) {
        if (!name.size ? state->next < 0 : state->automatic)
            return jinja_run_fault(run, "ValueError", "cannot switch between automatic and manual field numbering");
        if (!name.size) index = state->next++, state->automatic = true;
        if (numbered) state->next = -1;
        if (index >= (int64_t)positional->count)
            return jinja_run_fault(run, "IndexError", "Replacement index %lld out of range for positional args tuple",
                                   (long long)index);
        *value = positional->items[index];
        return true;
    }
    if (!jinja_value_get(run, state->arguments->keywords, name, value)) return false;
    if (value->kind != JINJA_MISSING) return true;
    return jinja_run_fault(run, "KeyError", "'%.*s'", (int)(name.size < 200 ? name.size : 200), name.text);
}

// name.attribute[key]…
static bool lookup(Braces *state, JinjaValue field, JinjaValue *value) {
    size_t at = 0;
    while (at < field.size && field.text[at] != '.' && field.text[at] != '[') at++;
    if (!first_value(state, jinja_text_part(field, 0, at), value)) return false;
    while (at < field.size) {
        bool item = field.text[at] == '[';
        size_t from = ++at;
        while (at < field.size && (item ? field.text[at] != ']' : field.text[at] != '.' && field.text[at] != '[')) at++;
        JinjaValue name = jinja_text_part(field, from, at), key = name;
        int64_t index;
        if (!name.size || (item && at >= field.size))
            return jinja_run_fault(state->run, "ValueError", "Empty attribute in format string");
        if (item && parse_index(name, &index)) key = jinja_value_int(index);
        if (!jinja_run_step(state->run, 1) || !(item ? jinja_method_item(state->run, *value, key, value)
                                                     : jinja_method_attribute(state->run, *value, name, value)))
            return false;
        at += item;
        if (item && at < field.size && field.text[at] != '.' && field.text[at] != '[')
            return jinja_run_fault(state->run, "ValueError",
                                   "Only '.' or '[' may follow ']' in format field specifier");
    }
    return true;
}

static bool put_field(Braces *state, JinjaValue field, int depth, JinjaBuffer *out) {
    size_t name_end = 0, brackets = 0;
    while (name_end < field.size && (brackets || (field.text[name_end] != '!' && field.text[name_end] != ':'))) {
        brackets = field.text[name_end] == '[' || (brackets && field.text[name_end] != ']');
        name_end++;
    }
    JinjaValue value, specification = jinja_value_string("");
    size_t at = name_end;
    if (!lookup(state, jinja_text_part(field, 0, name_end), &value)) return false;
    if (at < field.size && field.text[at] == '!') {
        char how = at + 1 < field.size ? field.text[at + 1] : 0;
        if ((how != 's' && how != 'r' && how != 'a') || (at + 2 < field.size && field.text[at + 2] != ':'))
            return jinja_run_fault(state->run, "ValueError", "Unknown conversion specifier");
        if (!text_by(state->run, value, how, &value)) return false;
        at += 2;
    }
    if (at < field.size) {
        JinjaBuffer buffer = {0};
        if (!expand(state, jinja_text_part(field, at + 1, field.size), depth + 1, &buffer)) return false;
        specification = jinja_text_taken(&buffer);
    }
    return put_formatted(state->run, out, value, specification);
}

static bool expand(Braces *state, JinjaValue format, int depth, JinjaBuffer *out) {
    JinjaRun *run = state->run;
    if (depth > 1) return jinja_run_fault(run, "ValueError", "Max string recursion exceeded");
    for (size_t at = 0; at < format.size;) {
        char c = format.text[at];
        if (!jinja_run_step(run, 1)) return false;
        if (c != '{' && c != '}') {
            size_t from = at;
            while (at < format.size && format.text[at] != '{' && format.text[at] != '}') at++;
            jinja_run_put(run, out, format.text + from, at - from);
            continue;
        }
        if (at + 1 < format.size && format.text[at + 1] == c && !depth) {
            jinja_run_put(run, out, &c, 1);
            at += 2;
            continue;
        }
        if (c == '}') return jinja_run_fault(run, "ValueError", "Single '}' encountered in format string");
        size_t from = ++at;
        for (int open = 1; open; at++) {
            if (at >= format.size) return jinja_run_fault(run, "ValueError", "expected '}' before end of string");
            open += (format.text[at] == '{') - (format.text[at] == '}');
        }
        if (!put_field(state, jinja_text_part(format, from, at - 1), depth, out)) return false;
    }
    return jinja_run_good(run);
}

bool jinja_format_braces(JinjaRun *run, JinjaValue format, const JinjaArguments *arguments, JinjaValue *text) {
    Braces state = {.run = run, .arguments = arguments};
    JinjaBuffer out = {0};
    if (!expand(&state, format, 0, &out)) return false;
    *text = jinja_text_taken(&out);
    text->safe = format.safe;
    return true;
}
