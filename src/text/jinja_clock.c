#include "text/jinja_clock.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

void jinja_clock_now(JinjaClock *clock) {
    struct timeval now;
    struct tm local;
    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &local);
    *clock = (JinjaClock){local.tm_year + 1900, local.tm_mon + 1, local.tm_mday,   local.tm_hour,
                          local.tm_min,         local.tm_sec,     (int)now.tv_usec};
}

static int days_in(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

bool jinja_clock_parse(JinjaClock *clock, const char *text) {
    char fraction[8] = "";
    int end = 0;
    *clock = (JinjaClock){0};
    if (sscanf(text, "%4d-%2d-%2d%n", &clock->year, &clock->month, &clock->day, &end) != 3) return false;
    text += end;
    if (*text && sscanf(text, "T%2d:%2d:%2d%n", &clock->hour, &clock->minute, &clock->second, &end) != 3) return false;
    if (*text) text += end;
    if (*text == '.' && sscanf(text, ".%6[0-9]%n", fraction, &end) == 1) {
        for (size_t i = 0; i < 6; i++)
            clock->microsecond = clock->microsecond * 10 + (i < strlen(fraction) ? fraction[i] - '0' : 0);
        text += end;
    }
    return !*text && clock->year > 0 && clock->month >= 1 && clock->month <= 12 && clock->day >= 1 &&
           clock->day <= days_in(clock->year, clock->month) && clock->hour >= 0 && clock->hour < 24 &&
           clock->minute >= 0 && clock->minute < 60 && clock->second >= 0 && clock->second < 60;
}

static struct tm broken_down(const JinjaClock *clock) {
    static const int shift[] = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4}; // Sakamoto's day of the week
    struct tm tm = {.tm_year = clock->year - 1900,
                    .tm_mon = clock->month - 1,
                    .tm_mday = clock->day,
                    .tm_hour = clock->hour,
                    .tm_min = clock->minute,
                    .tm_sec = clock->second,
                    .tm_isdst = -1};
    int year = clock->year - (clock->month < 3);
    tm.tm_wday = (year + year / 4 - year / 100 + year / 400 + shift[tm.tm_mon] + clock->day) % 7;
    tm.tm_yday = clock->day - 1;
    for (int month = 1; month < clock->month; month++) tm.tm_yday += days_in(clock->year, month);
    return tm;
}

// One directive: '%', flags and width of the C library, a letter. Returns its length.
static size_t put_directive(JinjaRun *run, JinjaBuffer *buffer, const struct tm *tm, int microsecond,
                            const char *format, size_t size) {
    char directive[16], text[1100];
    size_t length = 1;
    while (length < size && length < 5 && (strchr("-_0^#", format[length]) || isdigit((unsigned char)format[length])) &&
           format[length])
        length++;
    if (length < size && (format[length] == 'E' || format[length] == 'O')) length++;
    if (length >= size) { // nothing behind the sign: kept
        jinja_run_put(run, buffer, format, size);
        return size;
    }
    length++;
    memcpy(directive, format, length);
    directive[length] = 0;
    if (!strcmp(directive, "%f")) {
        snprintf(text, sizeof text, "%06d", microsecond);
        jinja_run_puts(run, buffer, text);
    } else if (directive[length - 1] != 'z' && directive[length - 1] != 'Z') { // the time has no zone
        // A blank in front tells an empty result from one that did not fit.
        char spaced[20];
        snprintf(spaced, sizeof spaced, " %s", directive);
        size_t written = strftime(text, sizeof text, spaced, tm);
        if (written) jinja_run_put(run, buffer, text + 1, written - 1);
    }
    return length;
}

void jinja_clock_format(JinjaRun *run, JinjaBuffer *buffer, const JinjaClock *clock, const char *format, size_t size) {
    struct tm tm = broken_down(clock);
    for (size_t at = 0; at < size && jinja_run_step(run, 1);) {
        size_t plain = at;
        while (plain < size && format[plain] != '%') plain++;
        jinja_run_put(run, buffer, format + at, plain - at);
        at = plain;
        if (at < size) at += put_directive(run, buffer, &tm, clock->microsecond, format + at, size - at);
    }
}
