// Python's numbers for the template interpreter: exact integers of up to 128 bits (longer ones are carried as text),
// floats that print as the shortest text that reads back as the same number.
#pragma once
#include "text/jinja_value.h"

// str() of an INT, BIG or FLOAT.
void jinja_number_put(JinjaRun *run, JinjaBuffer *buffer, JinjaValue number);

// repr(float), at most 24 bytes and the closing 0.
void jinja_number_real(char text[32], double value);

// int(text, base) of Python: blanks around, sign, single underscores, prefixes when base is 0 or fits them. False (no
// fault) when the text is no integer, or too long (over 4300 digits, Python's limit).
bool jinja_number_parse_int(JinjaRun *run, const char *text, size_t size, int base, JinjaValue *number);

// float(text) of Python. False (no fault) when the text is no number.
bool jinja_number_parse_real(const char *text, size_t size, double *number);

// Order of two numbers of which at least one is BIG: -1, 0, 1, or 2 against NaN.
int jinja_number_order_big(JinjaValue a, JinjaValue b);

// BOOL counts as 0 or 1. False (no fault) for anything else; of a BIG the nearest float, perhaps infinite.
bool jinja_number_to_real(JinjaValue value, double *real);

typedef enum JinjaOperator {
    JINJA_ADD,
    JINJA_SUB,
    JINJA_MUL,
    JINJA_DIV,
    JINJA_FLOORDIV,
    JINJA_MOD,
    JINJA_POW,
} JinjaOperator;

// a operator b for two numbers (BOOL included). Fails on division by zero and on results beyond 128 bits.
bool jinja_number_operate(JinjaRun *run, JinjaOperator operator, JinjaValue a, JinjaValue b, JinjaValue *result);
bool jinja_number_negate(JinjaRun *run, JinjaValue number, JinjaValue *result);

// int(number) and round(number, digits) of Python.
bool jinja_number_truncate(JinjaRun *run, JinjaValue number, JinjaValue *result);
bool jinja_number_round(JinjaRun *run, JinjaValue number, int64_t digits, JinjaValue *result);
