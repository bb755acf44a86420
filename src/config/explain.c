#include "config/explain.h"

#include "config/settings_table.h"

#include <ctype.h>
#include <string.h>

typedef struct Printer {
    StrBuf *out;
    Arena *arena;
    bool annotate;
    Algorithm algorithm;
    bool megatron;
} Printer;

// Why a key of this recipe does not count, or NULL.
static const char *unused(const Printer *printer, const char *key) {
    const char *foreign = settings_key_foreign(key, printer->algorithm);
    return foreign ? foreign : settings_key_unused(key, printer->megatron);
}

// ---- scalars

// "${" would be resolved when the text is read again: each backslash before it is doubled, and one more takes its meaning.
static void escape_interpolation(StrBuf *out, const char *text) {
    while (*text) {
        size_t run = strspn(text, "\\");
        bool meant = !strncmp(text + run, "${", 2);
        for (size_t i = 0; i < (meant ? 2 * run + 1 : run); i++) strbuf_putc(out, '\\');
        text += run;
        if (*text) strbuf_putc(out, *text++);
    }
}

static void put_quoted(StrBuf *out, const char *text) {
    strbuf_putc(out, '"');
    for (const char *at = text; *at; at++) {
        if (*at == '"' || *at == '\\')
            strbuf_format(out, "\\%c", *at);
        else if ((unsigned char)*at < ' ' || *at == 0x7F)
            strbuf_format(out, "\\x%02x", (unsigned char)*at);
        else
            strbuf_putc(out, *at);
    }
    strbuf_putc(out, '"');
}

// Unquoted where no reader could take it for anything but this text.
static void put_word(const Printer *printer, const char *text) {
    bool plain = isalpha((unsigned char)*text) || *text == '/';
    for (const char *at = text; *at && plain; at++) plain = isalnum((unsigned char)*at) || strchr("_./-", *at);
    if (plain && value_plain(printer->arena, text, (Origin){0})->kind == VALUE_TEXT)
        strbuf_puts(printer->out, text);
    else
        put_quoted(printer->out, text);
}

static void put_text(const Printer *printer, const char *text) {
    StrBuf escaped = {0};
    strbuf_clear(&escaped);
    escape_interpolation(&escaped, text);
    put_word(printer, escaped.text);
    strbuf_close(&escaped);
}

// YAML 1.1 readers want a point in every real.
static void put_real(const Printer *printer, double real) {
    const char *text = value_real(printer->arena, real, (Origin){0})->text, *exponent = strchr(text, 'e');
    if (exponent && !memchr(text, '.', (size_t)(exponent - text)))
        strbuf_format(printer->out, "%.*s.0%s", (int)(exponent - text), text, exponent);
    else
        strbuf_puts(printer->out, text);
}

static void put_flow(const Printer *printer, const Value *value) {
    StrBuf *out = printer->out;
    switch (value->kind) {
    case VALUE_NULL: strbuf_puts(out, "null"); break;
    case VALUE_BOOL: strbuf_puts(out, value->boolean ? "true" : "false"); break;
    case VALUE_INTEGER: strbuf_format(out, "%lld", (long long)value->integer); break;
    case VALUE_REAL: put_real(printer, value->real); break;
    case VALUE_TEXT: put_text(printer, value->text); break;
    case VALUE_LIST:
    case VALUE_MAP:
        strbuf_putc(out, value->kind == VALUE_LIST ? '[' : '{');
        for (const Value *at = value->first; at; at = at->next) {
            if (at != value->first) strbuf_puts(out, ", ");
            if (at->key) {
                put_word(printer, at->key);
                strbuf_puts(out, ": ");
            }
            put_flow(printer, at);
        }
        strbuf_putc(out, value->kind == VALUE_LIST ? ']' : '}');
        break;
    }
}

// ---- a recipe

static bool is_default(const Value *value) {
    if (strcmp(value->origin.place, SETTINGS_TABLE_DEFAULT)) return false;
    for (const Value *at = value->first; at; at = at->next)
        if (!is_default(at)) return false;
    return true;
}

static const char *formula_of(const Value *value) {
    return value->formula ? value->formula : "";
}

// "# recipe.yaml:3, ${grpo.seed}; what the key means"
static void put_comment(const Printer *printer, const Value *value, const Setting *row, size_t start) {
    enum { COLUMN = 56 };
    do strbuf_putc(printer->out, ' ');
    while (printer->out->length - start < COLUMN);
    size_t comment = printer->out->length;
    strbuf_format(printer->out, "# %s%s%s", value_origin(printer->arena, value->origin), value->formula ? ", " : "",
                  formula_of(value));
    // An override may hold a line break.
    for (size_t i = comment; i < printer->out->length; i++)
        if ((unsigned char)printer->out->text[i] < ' ') printer->out->text[i] = ' ';
    if (!row) return;
    const char *foreign = unused(printer, row->key);
    if (foreign)
        strbuf_format(printer->out, "; no effect: %s", foreign);
    else if (row->class == SETTING_NOT_APPLICABLE)
        strbuf_format(printer->out, "; no effect: %s", row->help);
    else if (row->class == SETTING_REFUSED)
        strbuf_format(printer->out, "; only %s is supported yet: %s", row->allowed, row->help);
    else
        strbuf_format(printer->out, "; %s", row->help);
}

// Whether anything of it is worth printing: not what has no effect and no one wrote.
static bool is_shown(const Printer *printer, const Value *value, const char *key) {
    const Setting *row = settings_table_find(key);
    bool counts = !row || (row->class != SETTING_NOT_APPLICABLE && !unused(printer, key));
    if (!counts && is_default(value)) return false;
    if (value->kind != VALUE_MAP || !value->first) return true;
    if (!settings_table_group(key)) return true;
    for (const Value *at = value->first; at; at = at->next)
        if (is_shown(printer, at, arena_format(printer->arena, "%s.%s", key, at->key))) return true;
    return false;
}

static void put_map(const Printer *printer, const Value *map, const char *prefix, int depth) {
    for (const Value *at = map->first; at; at = at->next) {
        const char *key = *prefix ? arena_format(printer->arena, "%s.%s", prefix, at->key) : at->key;
        if (!is_shown(printer, at, key)) continue;
        if (!depth && map->first != at) strbuf_putc(printer->out, '\n');
        size_t start = printer->out->length;
        strbuf_format(printer->out, "%*s", 2 * depth, "");
        put_word(printer, at->key); // keys are not interpolated
        bool block = at->kind == VALUE_MAP && at->first;
        strbuf_puts(printer->out, block ? ":" : ": ");
        if (!block) put_flow(printer, at);
        const Setting *row = settings_table_find(key);
        if (printer->annotate && (!block || row)) put_comment(printer, at, row, start);
        strbuf_putc(printer->out, '\n');
        if (block) put_map(printer, at, key, depth + 1);
    }
}

static void put_settings(StrBuf *out, const Settings *settings, bool annotate) {
    Arena arena = {0};
    Printer printer = {.out = out,
                       .arena = &arena,
                       .annotate = annotate,
                       .algorithm = settings->algorithm,
                       .megatron = settings->megatron.enabled};
    strbuf_puts(out, "");
    put_map(&printer, settings->tree, "", 0);
    arena_close(&arena);
}

void explain_yaml(StrBuf *out, const Settings *settings) {
    put_settings(out, settings, false);
}

void explain_settings(StrBuf *out, const Settings *settings) {
    put_settings(out, settings, true);
}

// ---- two recipes

const char *explain_value(Arena *arena, const Settings *settings, const char *key) {
    StrBuf text = {0};
    Printer printer = {.out = &text, .arena = arena};
    const Value *value = value_find(settings->tree, key);
    if (value) put_flow(&printer, value);
    const char *copy = arena_bytes(arena, text.text, text.length);
    strbuf_close(&text);
    return copy;
}

static bool is_list(const Settings *settings, const char *key) {
    const Value *value = value_find(settings->tree, key);
    return value && value->kind == VALUE_LIST;
}

// Keys that say something; data sets key by key where there are no lists of them.
static bool is_compared(const Setting *row, const Settings *before, const Settings *after) {
    if (row->class != SETTING_HONOURED) return false;
    if (settings_key_unused(row->key, before->megatron.enabled) &&
        settings_key_unused(row->key, after->megatron.enabled))
        return false;
    if (!strcmp(row->key, "data.train")) return is_list(before, row->key) || is_list(after, row->key);
    if (!strcmp(row->key, "env") || !strcmp(row->key, "data.validation")) return true;
    return row->type != SETTING_GROUP && row->offset != SETTING_NOWHERE;
}

int64_t explain_differing(ExplainChange **changes, Arena *arena, const Settings *before, const Settings *after) {
    int64_t count = 0;
    *changes = arena_array(arena, ExplainChange, settings_table_count);
    for (size_t i = 0; i < settings_table_count; i++) {
        const Setting *row = &settings_table[i];
        if (!is_compared(row, before, after)) continue;
        const char *old = explain_value(arena, before, row->key), *new = explain_value(arena, after, row->key);
        if (strcmp(old, new)) (*changes)[count++] = (ExplainChange){row->key, old, new};
    }
    return count;
}

bool explain_changes(StrBuf *out, const char *between, const Settings *before, const Settings *after) {
    Arena arena = {0};
    ExplainChange *changes;
    int64_t count = explain_differing(&changes, &arena, before, after);
    for (int64_t i = 0; i < count; i++)
        strbuf_format(out, "%s%s: %s → %s", i ? between : "", changes[i].key, changes[i].before, changes[i].after);
    arena_close(&arena);
    return count > 0;
}

// ---- the manual

static void put_values(StrBuf *out, const Setting *row) {
    const char *null = row->nullable ? ", null" : "";
    if (row->allowed) {
        strbuf_format(out, "`%s`%s", row->allowed, null);
        return;
    }
    switch (row->type) {
    case SETTING_UNREAD: strbuf_puts(out, "any"); return;
    case SETTING_GROUP: strbuf_puts(out, "mapping, null"); return;
    case SETTING_BOOL: strbuf_puts(out, "true, false"); return;
    case SETTING_CHECKPOINTING: strbuf_puts(out, "true, false, selective"); return;
    case SETTING_INTEGER:
    case SETTING_REAL:
        strbuf_puts(out, row->type == SETTING_INTEGER ? "integer" : "number");
        if (row->low == SETTING_ABOVE_ZERO)
            strbuf_format(out, " above 0 to %.10g", row->high);
        else if (row->low != 0 || row->high != 0)
            strbuf_format(out, " %.10g to %.10g", row->low, row->high);
        strbuf_puts(out, null);
        return;
    case SETTING_TEXT:
    case SETTING_CHOICE: strbuf_format(out, "text%s", null); return;
    case SETTING_STOP_IDS: strbuf_puts(out, "list of integers, null"); return;
    case SETTING_STOP_STRINGS: strbuf_puts(out, "list of texts, null"); return;
    case SETTING_BETAS: strbuf_puts(out, "list of 2 numbers"); return;
    case SETTING_SCHEDULE: strbuf_puts(out, "scheduler, list of them, null"); return;
    case SETTING_WEIGHTS: strbuf_puts(out, "list of numbers"); return;
    case SETTING_RANGE: strbuf_puts(out, "list of 2 integers"); return;
    case SETTING_OPERATIONS: strbuf_puts(out, "list of texts"); return;
    case SETTING_MAPPING: strbuf_format(out, "mapping%s", null); return;
    case SETTING_DATASETS: strbuf_format(out, "mapping, list of mappings%s", null); return;
    case SETTING_COMMAND: strbuf_format(out, "list of texts, text%s", null); return;
    }
}

static void put_rows(StrBuf *out, SettingClass class, const char *title, const char *text, const char *head) {
    strbuf_format(out, "\n## %s\n\n%s\n\n| key | default | %s |\n| --- | --- | --- |%s\n", title, text, head,
                  strchr(head, '|') ? " --- |" : "");
    for (size_t i = 0; i < settings_table_count; i++) {
        const Setting *row = &settings_table[i];
        if (row->class != class) continue;
        strbuf_format(out, "| `%s%s` | ", row->key, row->open && class == SETTING_NOT_APPLICABLE ? ".*" : "");
        if (row->fallback) strbuf_format(out, "`%s`", row->fallback);
        strbuf_puts(out, " | ");
        if (class != SETTING_NOT_APPLICABLE) {
            put_values(out, row);
            strbuf_puts(out, " | ");
        }
        strbuf_format(out, "%s |\n", row->help);
    }
}

void explain_manual(StrBuf *out) {
    strbuf_puts(
        out,
        "# Recipes: every key\n\n"
        "Written from the table in `src/config/settings_table.c`; `whet config RECIPE` shows the same for one recipe,\n"
        "with the place of every value. Names and defaults are those of NeMo-RL's `grpo_math_1B.yaml`; keys of `whet` "
        "and\n"
        "`data.train` beyond them are our own. A key that is not here is refused, naming the nearest.\n\n"
        "A recipe with a section `sft` is one of supervised fine-tuning, which knows no `grpo`, `loss_fn`, `env` and\n"
        "`policy.generation`; its defaults are those of NeMo-RL's `sft.yaml`:\n\n");
    for (size_t i = 0; i < settings_table_count; i++) {
        const Setting *row = &settings_table[i];
        const char *sft = settings_table_fallback(row, ALGORITHM_SFT);
        const char *grpo = settings_table_fallback(row, ALGORITHM_GRPO);
        if (sft && grpo && strcmp(sft, grpo)) strbuf_format(out, "- `%s`: `%s`\n", row->key, sft);
    }
    put_rows(out, SETTING_HONOURED, "Honoured", "What these say is done.", "values | meaning");
    put_rows(out, SETTING_REFUSED, "Refused",
             "These ask for what whet does not do yet: only the values named here are accepted.", "accepted | meaning");
    put_rows(out, SETTING_NOT_APPLICABLE, "Without effect",
             "These are accepted, and listed in the log with the reason when a recipe sets them.", "reason");
}
