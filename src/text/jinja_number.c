#include "text/jinja_number.h"

#include "text/jinja_text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DIGITS = 4300 }; // sys.int_info.default_max_str_digits

// The decimal digits of the shortest text that reads back as value (finite, above 0), without trailing zeros, and the
// exponent of the first digit.
static int shortest_digits(double value, char digits[20], int *exponent) {
    char text[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision - 1, value);
        bool same = strtod(text, NULL) == value;
        // At a power of two the gap below is half as wide, and a neighbour of the nearest 16 digits may still do.
        char *last = strchr(text, 'e') - 1, nearest = *last;
        if (!same && precision == 16 && nearest < '9') ++*last, same = strtod(text, NULL) == value;
        if (!same && precision == 16 && nearest > '0') *last = (char)(nearest - 1), same = strtod(text, NULL) == value;
        if (!same) continue;
        char *mark = strchr(text, 'e');
        *exponent = (int)strtol(mark + 1, NULL, 10);
        int count = 0;
        for (char *c = text; c < mark; c++)
            if (isdigit((unsigned char)*c)) digits[count++] = *c;
        while (count > 1 && digits[count - 1] == '0') count--;
        digits[count] = 0;
        return count;
    }
    CHECK(false, "%a does not print", value);
    return 0;
}

void jinja_number_real(char text[32], double value) {
    if (isnan(value) || isinf(value)) {
        snprintf(text, 32, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    char *out = text;
    if (signbit(value)) *out++ = '-', value = -value;
    const char *end = text + 32;
    if (value == 0) {
        snprintf(out, (size_t)(end - out), "0.0");
        return;
    }
    char digits[20];
    int exponent, count = shortest_digits(value, digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        *out++ = digits[0];
        snprintf(out, (size_t)(end - out), "%s%se%c%02d", count > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                 abs(exponent));
    } else if (exponent < 0) {
        snprintf(out, (size_t)(end - out), "0.%.*s%s", -1 - exponent, "000", digits);
    } else {
        for (int i = 0; i <= exponent; i++) *out++ = i < count ? digits[i] : '0';
        snprintf(out, (size_t)(end - out), ".%s", count > exponent + 1 ? digits + exponent + 1 : "0");
    }
}

// Decimal digits of an integer of 128 bits; returns where they start in the 48 bytes.
static char *integer_digits(JinjaInteger integer, char text[48]) {
    unsigned __int128 rest = integer < 0 ? -(unsigned __int128)integer : (unsigned __int128)integer;
    char *at = text + 47;
    *at = 0;
    do *--at = (char)('0' + (int)(rest % 10)), rest /= 10;
    while (rest);
    if (integer < 0) *--at = '-';
    return at;
}

void jinja_number_put(JinjaRun *run, JinjaBuffer *buffer, JinjaValue number) {
    char text[48];
    if (number.kind == JINJA_BIG) {
        jinja_run_put(run, buffer, number.text, number.size);
    } else if (number.kind == JINJA_FLOAT) {
        jinja_number_real(text, number.real);
        jinja_run_puts(run, buffer, text);
    } else {
        jinja_run_puts(run, buffer, integer_digits(number.integer, text));
    }
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

static void strip(const char **text, size_t *size) {
    while (*size && isspace((unsigned char)**text)) ++*text, --*size;
    while (*size && isspace((unsigned char)(*text)[*size - 1])) --*size;
}

// Skips 0x, 0o, 0b where the base allows it; base 0 is settled.
static bool skip_prefix(const char **text, size_t *size, int *base) {
    int marked = 0;
    if (*size > 1 && (*text)[0] == '0') {
        char c = (char)((*text)[1] | 0x20);
        marked = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
    }
    if (marked && (*base == 0 || *base == marked)) {
        *base = marked;
        *text += 2, *size -= 2;
        if (*size && **text == '_') ++*text, --*size;
        return true;
    }
    if (*base) return true;
    *base = 10;
    for (size_t i = 0; *size && (*text)[0] == '0' && i < *size; i++) // 007 is no literal, 000 is
        if ((*text)[i] != '0' && (*text)[i] != '_') return false;
    return true;
}

static bool big_decimal(JinjaRun *run, const char *digits, size_t count, bool negative, JinjaValue *number) {
    JinjaBuffer buffer = {0};
    if (negative) jinja_run_puts(run, &buffer, "-");
    jinja_run_put(run, &buffer, digits, count);
    *number = jinja_text_taken(&buffer);
    number->kind = JINJA_BIG;
    return jinja_run_good(run);
}

bool jinja_number_parse_int(JinjaRun *run, const char *text, size_t size, int base, JinjaValue *number) {
    strip(&text, &size);
    bool negative = size && *text == '-', fits = true;
    if (size && (*text == '-' || *text == '+')) text++, size--;
    if (!skip_prefix(&text, &size, &base) || !size) return false;
    char digits[MOST_DIGITS];
    size_t count = 0;
    unsigned __int128 sum = 0;
    const unsigned __int128 most = (unsigned __int128)1 << 127;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '_' && i && text[i - 1] != '_' && i + 1 < size) continue;
        int digit = digit_value(text[i]);
        if (digit >= base) return false;
        if (sum > (most - 1 - (unsigned)digit) / (unsigned)base) fits = false;
        if (fits) sum = sum * (unsigned)base + (unsigned)digit;
        if (!count && !digit) continue;
        if (count == MOST_DIGITS) return false;
        digits[count++] = text[i];
    }
    if (fits) {
        *number = jinja_value_int(negative ? -(JinjaInteger)sum : (JinjaInteger)sum);
        return true;
    }
    if (base != 10) return jinja_run_fault(run, "LimitError", "integers of over 127 bits must be written in base 10");
    return big_decimal(run, digits, count, negative, number);
}

// digits, single underscores between them
static size_t scan_digits(const char *text, size_t size, size_t at) {
    size_t start = at;
    while (at < size && (isdigit((unsigned char)text[at]) || (text[at] == '_' && at > start && text[at - 1] != '_' &&
                                                              at + 1 < size && isdigit((unsigned char)text[at + 1]))))
        at++;
    return at;
}

bool jinja_number_parse_real(const char *text, size_t size, double *number) {
    static const char *const words[] = {"inf", "infinity", "nan"};
    strip(&text, &size);
    size_t at = size && (*text == '-' || *text == '+');
    for (size_t i = 0; i < 3; i++)
        if (size - at == strlen(words[i]) && !strncasecmp(text + at, words[i], size - at)) {
            *number = i < 2 ? INFINITY : NAN;
            if (*text == '-') *number = -*number;
            return true;
        }
    size_t whole = scan_digits(text, size, at), end = whole, fraction = whole;
    if (end < size && text[end] == '.') fraction = end = scan_digits(text, size, end + 1);
    if (end == at || (whole == at && fraction == at + 1)) return false; // no digit on either side
    if (end < size && (text[end] | 0x20) == 'e') {
        size_t from = end + 1;
        if (from < size && (text[from] == '-' || text[from] == '+')) from++;
        end = scan_digits(text, size, from);
        if (end == from) return false;
    }
    if (end != size || size > MOST_DIGITS) return false;
    char plain[MOST_DIGITS + 1];
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        if (text[i] != '_') plain[count++] = text[i];
    plain[count] = 0;
    *number = strtod(plain, NULL);
    return true;
}

static double big_to_real(JinjaValue big) {
    char plain[MOST_DIGITS + 2];
    memcpy(plain, big.text, big.size);
    plain[big.size] = 0;
    return strtod(plain, NULL);
}

int jinja_number_order_big(JinjaValue a, JinjaValue b) {
    double x = 0, y = 0;
    if (a.kind == JINJA_FLOAT || b.kind == JINJA_FLOAT) {
        jinja_number_to_real(a, &x), jinja_number_to_real(b, &y);
        return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    }
    bool negative_a = a.kind == JINJA_BIG && a.text[0] == '-', negative_b = b.kind == JINJA_BIG && b.text[0] == '-';
    if (b.kind != JINJA_BIG) return negative_a ? -1 : 1;
    if (a.kind != JINJA_BIG) return negative_b ? 1 : -1;
    if (negative_a != negative_b) return negative_a ? -1 : 1;
    int order = a.size != b.size ? (a.size < b.size ? -1 : 1) : memcmp(a.text, b.text, a.size);
    order = order < 0 ? -1 : order > 0;
    return negative_a ? -order : order;
}

bool jinja_number_to_real(JinjaValue value, double *real) {
    switch (value.kind) {
    case JINJA_BOOL: *real = value.truth; return true;
    case JINJA_INT: *real = (double)value.integer; return true;
    case JINJA_BIG: *real = big_to_real(value); return true;
    case JINJA_FLOAT: *real = value.real; return true;
    default: return false;
    }
}

static bool too_long(JinjaRun *run) {
    return jinja_run_fault(run, "LimitError", "arithmetic on integers of over 127 bits");
}

static bool zero_division(JinjaRun *run, const char *text) {
    return jinja_run_fault(run, "ZeroDivisionError", "%s", text);
}

static bool real_power(JinjaRun *run, double a, double b, double *result) {
    if (a == 0 && b < 0) return zero_division(run, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return jinja_run_fault(run, "LimitError", "complex numbers are not supported");
    *result = pow(a, b);
    if (isinf(*result) && isfinite(a) && isfinite(b))
        return jinja_run_fault(run, "OverflowError", "(34, 'Numerical result out of range')");
    return true;
}

// Python's float //: the quotient of the exact remainder that has the divisor's sign.
static void real_divmod(double a, double b, double *quotient, double *remainder) {
    double rest = fmod(a, b), whole = (a - rest) / b;
    if (rest != 0) {
        if ((b < 0) != (rest < 0)) rest += b, whole -= 1;
    } else {
        rest = copysign(0, b);
    }
    if (whole != 0) {
        double floored = floor(whole);
        whole = whole - floored > 0.5 ? floored + 1 : floored;
    } else {
        whole = copysign(0, a / b);
    }
    *quotient = whole;
    *remainder = rest;
}

static bool operate_reals(JinjaRun *run, JinjaOperator operator, double a, double b, JinjaValue *result) {
    double value = 0, other;
    switch (operator) {
    case JINJA_ADD: value = a + b; break;
    case JINJA_SUB: value = a - b; break;
    case JINJA_MUL: value = a * b; break;
    case JINJA_DIV:
        if (b == 0) return zero_division(run, "float division by zero");
        value = a / b;
        break;
    case JINJA_FLOORDIV:
        if (b == 0) return zero_division(run, "float floor division by zero");
        real_divmod(a, b, &value, &other);
        break;
    case JINJA_MOD:
        if (b == 0) return zero_division(run, "float modulo");
        real_divmod(a, b, &other, &value);
        break;
    case JINJA_POW:
        if (!real_power(run, a, b, &value)) return false;
        break;
    }
    *result = jinja_value_real(value);
    return true;
}

static bool integer_power(JinjaRun *run, JinjaInteger a, JinjaInteger b, JinjaValue *result) {
    if (b < 0) {
        if (!a) return zero_division(run, "0.0 cannot be raised to a negative power");
        return operate_reals(run, JINJA_POW, (double)a, (double)b, result);
    }
    JinjaInteger power = 1;
    if (a == 0 || a == 1 || a == -1) {
        power = b == 0 ? 1 : a == -1 && b % 2 == 0 ? 1 : a;
        b = 0;
    }
    for (; b; b--)
        if (__builtin_mul_overflow(power, a, &power)) return too_long(run);
    *result = jinja_value_int(power);
    return true;
}

static bool operate_integers(JinjaRun *run, JinjaOperator operator, JinjaInteger a, JinjaInteger b,
                             JinjaValue *result) {
    JinjaInteger value = 0;
    const JinjaInteger least = (JinjaInteger)1 << 126;
    switch (operator) {
    case JINJA_ADD:
        if (__builtin_add_overflow(a, b, &value)) return too_long(run);
        break;
    case JINJA_SUB:
        if (__builtin_sub_overflow(a, b, &value)) return too_long(run);
        break;
    case JINJA_MUL:
        if (__builtin_mul_overflow(a, b, &value)) return too_long(run);
        break;
    case JINJA_DIV:
        if (!b) return zero_division(run, "division by zero");
        *result = jinja_value_real((double)((long double)a / (long double)b));
        return true;
    case JINJA_FLOORDIV:
    case JINJA_MOD: {
        if (!b)
            return zero_division(run, operator== JINJA_MOD ? "integer modulo by zero"
                                                           : "integer division or modulo by zero");
        if (b == -1 && a < -least) return too_long(run);
        JinjaInteger quotient = a / b, rest = a % b;
        if (rest && (rest < 0) != (b < 0)) quotient--, rest += b;
        value = operator== JINJA_MOD ? rest : quotient;
        break;
    }
    case JINJA_POW: return integer_power(run, a, b, result);
    }
    *result = jinja_value_int(value);
    return true;
}

bool jinja_number_operate(JinjaRun *run, JinjaOperator operator, JinjaValue a, JinjaValue b, JinjaValue *result) {
    if (a.kind == JINJA_BOOL) a = jinja_value_int(a.truth);
    if (b.kind == JINJA_BOOL) b = jinja_value_int(b.truth);
    if (a.kind == JINJA_INT && b.kind == JINJA_INT)
        return operate_integers(run, operator, a.integer, b.integer, result);
    if (a.kind != JINJA_FLOAT && b.kind != JINJA_FLOAT) return too_long(run);
    double x = 0, y = 0;
    jinja_number_to_real(a, &x);
    jinja_number_to_real(b, &y);
    return operate_reals(run, operator, x, y, result);
}

bool jinja_number_negate(JinjaRun *run, JinjaValue number, JinjaValue *result) {
    if (number.kind == JINJA_FLOAT) {
        *result = jinja_value_real(-number.real);
        return true;
    }
    if (number.kind == JINJA_BIG) {
        bool negative = number.text[0] == '-';
        return big_decimal(run, number.text + negative, number.size - negative, !negative, result);
    }
    return jinja_number_operate(run, JINJA_SUB, jinja_value_int(0), number, result);
}

bool jinja_number_truncate(JinjaRun *run, JinjaValue number, JinjaValue *result) {
    *result = number;
    if (number.kind == JINJA_BOOL) *result = jinja_value_int(number.truth);
    if (number.kind != JINJA_FLOAT) return true;
    if (isnan(number.real)) return jinja_run_fault(run, "ValueError", "cannot convert float NaN to integer");
    if (isinf(number.real)) return jinja_run_fault(run, "OverflowError", "cannot convert float infinity to integer");
    if (fabs(number.real) >= 0x1p126) { // exact: every float that large is whole
        char text[400];
        int length = snprintf(text, sizeof text, "%.0f", number.real);
        return jinja_number_parse_int(run, text, (size_t)length, 10, result) || jinja_run_good(run);
    }
    *result = jinja_value_int((JinjaInteger)number.real);
    return true;
}

// To a multiple of 10^-digits, digits < 0, half to even.
static bool round_integer(JinjaRun *run, JinjaInteger integer, int64_t digits, JinjaValue *result) {
    if (digits < -38) { // half of 10^39 is more than any
        *result = jinja_value_int(0);
        return true;
    }
    unsigned __int128 unit = 1, size = integer < 0 ? -(unsigned __int128)integer : (unsigned __int128)integer;
    for (; digits < 0; digits++) unit *= 10;
    unsigned __int128 rest = size % unit;
    size -= rest;
    if (rest > unit - rest || (rest == unit - rest && size / unit % 2)) size += unit;
    if (size >> 127) return too_long(run);
    *result = jinja_value_int(integer < 0 ? -(JinjaInteger)size : (JinjaInteger)size);
    return true;
}

bool jinja_number_round(JinjaRun *run, JinjaValue number, int64_t digits, JinjaValue *result) {
    if (number.kind == JINJA_BOOL) number = jinja_value_int(number.truth);
    *result = number;
    if (number.kind == JINJA_BIG) return digits >= 0 || too_long(run);
    if (number.kind == JINJA_INT) return digits >= 0 || round_integer(run, number.integer, digits, result);
    if (!isfinite(number.real) || digits > 340) return true;
    if (digits < -310) {
        *result = jinja_value_real(copysign(0, number.real));
        return true;
    }
    if (digits >= 0) {
        char text[800]; // printf rounds the exact value, half to even, as Python does
        snprintf(text, sizeof text, "%.*f", (int)digits, number.real);
        *result = jinja_value_real(strtod(text, NULL));
    } else {
        double unit = pow(10, (double)-digits);
        *result = jinja_value_real(rint(number.real / unit) * unit);
    }
    return true;
}
