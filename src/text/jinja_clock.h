// The time that strftime_now sees.
#pragma once
#include "text/jinja_run.h"

typedef struct JinjaClock {
    int year, month, day, hour, minute, second, microsecond; // month and day from 1
} JinjaClock;

void jinja_clock_now(JinjaClock *clock); // local time

// "2025-03-07" or "2025-03-07T04:05:06", with or without a fraction of up to six digits. False when it is no such time.
bool jinja_clock_parse(JinjaClock *clock, const char *text);

// datetime.strftime of Python in the C locale. Appends.
void jinja_clock_format(JinjaRun *run, JinjaBuffer *buffer, const JinjaClock *clock, const char *format, size_t size);
