// Filters of jinja2 that work on sequences. subject: left of the bar; bound: the arguments by place (jinja_call_bind).
// Where jinja2 returns a generator, so do these, though its items are computed at once.
#pragma once
#include "text/jinja_eval.h"

typedef bool JinjaFilter(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value);
typedef bool JinjaOpenFilter(JinjaRun *run, JinjaValue subject, const JinjaArguments *arguments, JinjaValue *value);

JinjaFilter jinja_sequence_batch;    // linecount fill_with
JinjaFilter jinja_sequence_dictsort; // case_sensitive by reverse
JinjaFilter jinja_sequence_first;
JinjaFilter jinja_sequence_groupby; // attribute default case_sensitive
JinjaFilter jinja_sequence_items;
JinjaFilter jinja_sequence_join; // d attribute
JinjaFilter jinja_sequence_last;
JinjaFilter jinja_sequence_length;
JinjaFilter jinja_sequence_list;
JinjaFilter jinja_sequence_max; // case_sensitive attribute
JinjaFilter jinja_sequence_min; // case_sensitive attribute
JinjaFilter jinja_sequence_reverse;
JinjaFilter jinja_sequence_slice;  // slices fill_with
JinjaFilter jinja_sequence_sort;   // reverse case_sensitive attribute
JinjaFilter jinja_sequence_sum;    // attribute start
JinjaFilter jinja_sequence_unique; // case_sensitive attribute

JinjaOpenFilter jinja_sequence_map;
JinjaOpenFilter jinja_sequence_select;
JinjaOpenFilter jinja_sequence_reject;
JinjaOpenFilter jinja_sequence_selectattr;
JinjaOpenFilter jinja_sequence_rejectattr;
