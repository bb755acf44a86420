// The settings table: one row for every key that a recipe may hold.
#pragma once
#include "config/settings_key.h"
#include "config/value.h"

#include <float.h>
#include <math.h>

typedef enum SettingType {
    SETTING_UNREAD, // no field: any value
    SETTING_GROUP,  // a mapping of rows that may also be null
    SETTING_BOOL,
    SETTING_INTEGER, // int64_t; whole reals are accepted
    SETTING_REAL,    // double
    SETTING_TEXT,    // const char *
    SETTING_CHOICE,  // const char *, one of allowed
    SETTING_STOP_IDS,
    SETTING_STOP_STRINGS,
    SETTING_BETAS,
    SETTING_SCHEDULE,
    SETTING_CHECKPOINTING,
    SETTING_WEIGHTS, // list of numbers into AdvantageOptions
    SETTING_RANGE,   // two neighbouring int64_t, [low, high]
    SETTING_OPERATIONS,
    SETTING_MAPPING,  // const char *, as JSON
    SETTING_DATASETS, // a mapping of rows, or a list of such mappings
    SETTING_COMMAND   // const char *const *: a list of texts, or a text for the shell
} SettingType;

typedef enum SettingClass {
    SETTING_HONOURED,
    SETTING_NOT_APPLICABLE, // accepted; listed with the reason when a recipe sets it
    SETTING_REFUSED         // accepted only with one of the values in allowed, which ask for nothing
} SettingClass;

#define SETTING_ABOVE_ZERO DBL_MIN // as low: every number greater than 0
#define SETTING_NOWHERE SIZE_MAX   // as offset: the value is checked, but only other keys' defaults read it
#define SETTINGS_TABLE_DEFAULT "built-in default"

typedef struct Setting {
    const char *key;
    SettingClass class;
    SettingType type;
    size_t offset;        // of the field in Settings; unread rows have none
    const char *fallback; // built-in default, written like the value of an override; NULL: the key is absent
    double low, high;     // numbers; low = high = 0: any
    bool nullable;        // null is accepted, and gives a number this value, text NULL:
    double null_value;
    const char *allowed; // "a, b, c"
    bool open;           // what stands below the key is not looked at
    const char *help;    // one sentence; for a key that is not applicable, the reason
} Setting;

extern const Setting settings_table[];
extern const size_t settings_table_count;

const Setting *
settings_table_find(const char *key);       // the row of this key, or the one that many share (config/settings_key.h)
bool settings_table_group(const char *key); // rows lie below this key
bool settings_table_knows(const char *key); // a row or a group
bool settings_table_idle(const char *key);  // a group of rows none of which is honoured
const Setting *settings_table_open(const char *key); // the open row that the key lies below, or NULL
bool settings_table_nullable(const char *key);

// The algorithm of a recipe: SFT where it has that section.
Algorithm settings_table_algorithm(const Value *root);
// A row's built-in default for an algorithm, or NULL: none, or the key is not for it.
const char *settings_table_fallback(const Setting *row, Algorithm algorithm);
// The tree of all built-in defaults of an algorithm, interpolations unresolved.
Value *settings_table_defaults(Arena *arena, Algorithm algorithm);
