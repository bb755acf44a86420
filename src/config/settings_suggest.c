#include "config/settings_suggest.h"

#include "base/strbuf.h"
#include "config/settings_key.h"

#include <stdio.h>
#include <string.h>

static const char *last_part(const char *key) {
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

// The names in the section of the other way to train are told in there alone, as some are those of the first.
static bool is_candidate(const char *row, const char *key) {
    static const char section[] = "policy.megatron_cfg";
    return !settings_key_at_or_below(row, section) || settings_key_at_or_below(key, section);
}

// The only row whose last part is that of key, or NULL.
static const char *same_name_elsewhere(const char *key) {
    const char *found = NULL;
    for (size_t i = 0; i < settings_table_count; i++) {
        if (strcmp(last_part(settings_table[i].key), last_part(key)) || !is_candidate(settings_table[i].key, key))
            continue;
        if (found) return NULL;
        found = settings_table[i].key;
    }
    return found;
}

// The only group whose last part is that of key, or NULL: grpo.optimizer is policy.optimizer.
static const char *same_group_elsewhere(Arena *arena, const char *key) {
    const char *found = NULL;
    for (size_t i = 0; i < settings_table_count; i++) {
        const char *row = settings_table[i].key;
        for (size_t end = 0; row[end]; end++) {
            if (row[end] != '.' || !is_candidate(row, key)) continue;
            const char *group = arena_bytes(arena, row, end);
            if (strcmp(last_part(group), last_part(key)) || (found && !strcmp(found, group))) continue;
            if (found) return NULL;
            found = group;
        }
    }
    return found;
}

// The key with its first unknown part replaced by the nearest that stands beside it, as far as that is known.
static const char *slip_in_part(Arena *arena, const char *key) {
    size_t known = 0; // bytes of the longest prefix that is a group
    for (size_t i = 0; key[i]; i++)
        if (key[i] == '.' && settings_table_group(arena_bytes(arena, key, i))) known = i;
    const char *prefix = arena_bytes(arena, key, known), *part = key + (known ? known + 1 : 0);
    const char *word = arena_bytes(arena, part, strcspn(part, ".")), *rest = part + strcspn(part, ".");
    const char **names = arena_array(arena, const char *, settings_table_count);
    char shared[SETTINGS_KEY_SIZE];
    const char *group = settings_key_row(shared, prefix); // whose rows are those of the prefix
    size_t count = 0, length = strlen(group);
    for (size_t i = 0; i < settings_table_count; i++) {
        const char *row = settings_table[i].key;
        if (known && (!settings_key_at_or_below(row, group) || !row[length])) continue;
        const char *child = row + (known ? length + 1 : 0);
        names[count++] = arena_bytes(arena, child, strcspn(child, "."));
    }
    const char *near = strbuf_nearest(word, names, count);
    if (!near) return NULL;
    const char *corrected = arena_format(arena, "%s%s%s", prefix, known ? "." : "", near);
    const char *whole = arena_format(arena, "%s%s", corrected, rest);
    return settings_table_knows(whole) ? whole : corrected;
}

void settings_suggest(Error *error, Arena *arena, const char *key) {
    const char *near = same_name_elsewhere(key);
    if (!near) near = same_group_elsewhere(arena, key);
    if (!near) near = slip_in_part(arena, key);
    if (!near) {
        const char **names = arena_array(arena, const char *, settings_table_count);
        for (size_t i = 0; i < settings_table_count; i++) names[i] = last_part(settings_table[i].key);
        const char *name = strbuf_nearest(last_part(key), names, settings_table_count);
        for (size_t i = 0; name && i < settings_table_count && !near; i++)
            if (names[i] == name) near = settings_table[i].key;
    }
    if (!near) return;
    size_t length = strlen(error->text);
    snprintf(error->text + length, sizeof error->text - length, "; did you mean %s?", near);
}
