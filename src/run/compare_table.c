#include "run/compare_table.h"

#include "run/compare_shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *get(const json_t *object, const char *key) {
    return json_object_get(object, key);
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(get(object, key));
    return value ? value : "";
}

static long long count(const json_t *object, const char *key) {
    return json_integer_value(get(object, key));
}

static double number_of(const json_t *value) {
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static double number(const json_t *object, const char *key) {
    return number_of(get(object, key));
}

// The last part of a dotted key.
static const char *leaf(const json_t *summary) {
    const char *key = text(summary, "key"), *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

// A number, or a dash where there is none.
static void put_number(StrBuf *out, double value, int digits) {
    if (isnan(value))
        strbuf_puts(out, "–");
    else
        strbuf_format(out, "%.*f", digits, value);
}

static void put_signed(StrBuf *out, double value, int digits) {
    if (isnan(value))
        strbuf_puts(out, "–");
    else
        strbuf_format(out, "%+.*f", digits, value);
}

// "−0.0123 to +0.0045", or a dash.
static void put_interval(StrBuf *out, const json_t *pair) {
    double low = number_of(json_array_get(pair, 0)), high = number_of(json_array_get(pair, 1));
    put_signed(out, low, 4);
    if (isnan(low)) return;
    strbuf_puts(out, " to ");
    put_signed(out, high, 4);
}

static void put_list(StrBuf *out, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (i) strbuf_puts(out, ", ");
        if (json_is_string(one))
            strbuf_puts(out, json_string_value(one));
        else
            strbuf_format(out, "%lld", (long long)json_integer_value(one));
    }
}

// "| first | a | b | more |" and the line below it, which aligns numbers to the right.
static void put_head(StrBuf *out, const char *first, const json_t *columns, const char *const *more) {
    size_t width = json_array_size(columns);
    strbuf_format(out, "| %s |", first);
    for (size_t i = 0; i < width; i++) strbuf_format(out, " %s |", json_string_value(json_array_get(columns, i)));
    for (; more && *more; more++, width++) strbuf_format(out, " %s |", *more);
    strbuf_puts(out, "\n| --- |");
    for (size_t i = 0; i < width; i++) strbuf_puts(out, " ---: |");
    strbuf_putc(out, '\n');
}

// --- parts ------------------------------------------------------------------------------------------------------------

static void put_setup(StrBuf *out, const json_t *s) {
    const json_t *environment = get(s, "environment");
    strbuf_format(out, "`%s`: ", text(s, "key"));
    put_list(out, get(s, "values"));
    strbuf_puts(out, json_array_size(get(s, "seeds")) == 1 ? "; seed " : "; seeds ");
    put_list(out, get(s, "seeds"));
    strbuf_format(
        out, ". %lld updates; %lld held-out questions, %lld answer%s each, asked before training and after steps ",
        count(s, "steps"), count(s, "questions"), count(s, "answers_each"), count(s, "answers_each") == 1 ? "" : "s");
    const json_t *steps = get(s, "validations");
    for (size_t i = 1; i < json_array_size(steps); i++)
        strbuf_format(out, "%s%lld", i > 1 ? ", " : "", (long long)json_integer_value(json_array_get(steps, i)));
    strbuf_format(out, ", temperature %g.\n", number(s, "validation_temperature"));
    strbuf_format(out, "Ran on %s: %lld rank%s, %lld thread%s, %s.\n", text(environment, "cpu_model"),
                  count(environment, "ranks"), count(environment, "ranks") == 1 ? "" : "s",
                  count(environment, "threads"), count(environment, "threads") == 1 ? "" : "s",
                  text(environment, "isa"));
}

static void put_proofs(StrBuf *out, const json_t *s) {
    const json_t *proofs = get(s, "proofs"), *one;
    const char *computed = text(proofs, "computed_keys");
    size_t i;
    strbuf_format(out, "- The resolved recipes differ in `%s`%s%s and in output paths only.\n",
                  text(proofs, "differing_key"), *computed ? ", in what the recipe computes from it: " : "", computed);
    json_array_foreach(get(proofs, "initial"), i, one) {
        strbuf_format(out, "- %s, seed %lld, before training: ", text(one, "value"), count(one, "seed"));
        if (count(one, "differing"))
            strbuf_format(
                out,
                "the same questions, and %lld of %lld answers are not the baseline's (the key acts on the model's "
                "forward pass).\n",
                count(one, "differing"), count(one, "answers"));
        else
            strbuf_format(out, "all %lld validation records are the baseline's, byte for byte.\n",
                          count(one, "answers"));
    }
    strbuf_format(out, "- The prompts of all %lld batches are the same, in the same order.\n",
                  count(proofs, "steps_with_the_same_prompts"));
}

// A row of memory: what of each value, and each one's difference from the first.
static void put_memory_row(StrBuf *out, const char *name, const json_t *by_value, const char *group, const char *key) {
    size_t values = json_array_size(by_value);
    double first = 0;
    strbuf_format(out, "| %s |", name);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t v = (size_t)pass; v < values; v++) {
            const json_t *one = json_array_get(by_value, v);
            double mb = number(group ? get(one, group) : one, key);
            if (!v) first = mb;
            strbuf_putc(out, ' ');
            if (!pass) {
                put_number(out, mb, 1);
            } else {
                put_signed(out, mb - first, 1);
                if (first > 0) strbuf_format(out, " (%+.1f %%)", 100 * (mb / first - 1));
            }
            strbuf_puts(out, " |");
        }
    }
    strbuf_putc(out, '\n');
}

static bool is_empty(const json_t *by_value, const char *group, const char *key) {
    const json_t *one;
    size_t v;
    json_array_foreach(by_value, v, one) if (number(get(one, group), key) > 0) return false;
    return true;
}

static void put_memory_group(StrBuf *out, const json_t *by_value, const char *group, const char *prefix) {
    const char *key;
    json_t *ignored;
    json_object_foreach((json_t *)get(json_array_get(by_value, 0), group), key, ignored) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, key);
        if (!is_empty(by_value, group, key)) put_memory_row(out, name, by_value, group, key);
    }
}

static void put_measured_title(StrBuf *out, const json_t *s, const json_t *rank) {
    long long warm_up = count(s, "warm_up"), updates = count(json_array_get(get(rank, "by_value"), 0), "updates");
    strbuf_format(out, "Rank %lld, MiB, mean over %lld updates", count(rank, "rank"), updates);
    if (warm_up == 1) strbuf_puts(out, ", all but the first");
    if (warm_up > 1) strbuf_format(out, ", all but the first %lld", warm_up);
    if (warm_up && json_array_size(get(s, "seeds")) > 1) strbuf_puts(out, " of each seed");
    strbuf_puts(out, ".\n\n");
}

// What the table that follows is of: a rank's updates, or a plan.
static void put_memory_title(StrBuf *out, const json_t *s, const json_t *rank) {
    const json_t *planned = get(s, "planned");
    char ranks[48] = "MiB of one rank";
    if (count(planned, "ranks") > 1)
        snprintf(ranks, sizeof ranks, "MiB of the rank of %lld that takes most", count(planned, "ranks"));
    if (planned)
        strbuf_format(out, "%s, planned: %lld samples, prompts of %lld and answers of %lld tokens.\n\n", ranks,
                      count(planned, "samples"), count(planned, "prompt_tokens"), count(planned, "answer_tokens"));
    else
        put_measured_title(out, s, rank);
}

enum { MOST_COLUMNS = 64 };

static void put_memory(StrBuf *out, const json_t *s) {
    const json_t *values = get(s, "values"), *rank;
    const char *more[MOST_COLUMNS] = {NULL};
    char heads[MOST_COLUMNS][64];
    for (size_t v = 1; v < json_array_size(values) && v < MOST_COLUMNS; v++) {
        snprintf(heads[v], sizeof heads[v], "%s − %s", json_string_value(json_array_get(values, v)),
                 text(s, "baseline"));
        more[v - 1] = heads[v];
    }
    size_t i;
    json_array_foreach(get(s, "memory"), i, rank) {
        const json_t *by_value = get(rank, "by_value");
        if (i) strbuf_putc(out, '\n');
        put_memory_title(out, s, rank);
        put_head(out, leaf(s), values, more);
        put_memory_row(out, "**peak of the update** (forward, backward, optimizer)", by_value, NULL, "peak_mb");
        put_memory_group(out, by_value, "at_peak_mb", "alive at it: ");
        put_memory_row(out, "**peak of the step**", by_value, NULL, "step_peak_mb");
        put_memory_group(out, by_value, "by_phase_mb", "phase ");
    }
}

static void put_accuracy(StrBuf *out, const json_t *s) {
    const json_t *row;
    size_t i;
    put_head(out, "held-out accuracy after step", get(s, "values"), NULL);
    json_array_foreach(get(s, "accuracy"), i, row) {
        strbuf_format(out, "| %lld |", count(row, "step"));
        for (size_t v = 0; v < json_array_size(get(row, "by_value")); v++) {
            strbuf_putc(out, ' ');
            put_number(out, number_of(json_array_get(get(row, "by_value"), v)), 4);
            strbuf_puts(out, " |");
        }
        strbuf_putc(out, '\n');
    }
}

// Mean over seeds of one value of the moving average at a step from 0.
static double average_at(const json_t *s, const char *value, size_t step) {
    const json_t *arm;
    double sum = 0;
    int arms = 0;
    size_t i;
    json_array_foreach(get(s, "arms"), i, arm) {
        if (strcmp(text(arm, "value"), value)) continue;
        sum += number_of(json_array_get(get(arm, "reward_average"), step)), arms++;
    }
    return sum / arms;
}

static void put_reward(StrBuf *out, const json_t *s) {
    long long steps = count(s, "steps");
    put_head(out, "training reward, mean of 10 updates up to", get(s, "values"), NULL);
    for (int part = 1; part <= 10; part++) {
        long long step = steps * part / 10;
        if (step == steps * (part - 1) / 10) continue;
        strbuf_format(out, "| %lld |", step);
        for (size_t v = 0; v < json_array_size(get(s, "values")); v++) {
            strbuf_putc(out, ' ');
            put_number(out, average_at(s, json_string_value(json_array_get(get(s, "values"), v)), (size_t)step - 1), 4);
            strbuf_puts(out, " |");
        }
        strbuf_putc(out, '\n');
    }
}

static void put_seed_row(StrBuf *out, const json_t *difference, const json_t *seed) {
    double p = number(seed, "mcnemar_p");
    strbuf_format(out, "| %s, seed %lld | ", text(difference, "value"), count(seed, "seed"));
    put_signed(out, number(seed, "effect"), 4);
    strbuf_puts(out, " | ");
    put_interval(out, get(seed, "interval"));
    strbuf_format(out, " | %lld | %lld | ", count(seed, "gained"), count(seed, "lost"));
    if (isnan(p))
        strbuf_puts(out, "–");
    else
        strbuf_format(out, "%.3g", p);
    strbuf_puts(out, " |\n");
}

static void put_difference(StrBuf *out, const json_t *s) {
    static const char *const columns[] = {"difference", "95 %, questions (bootstrap)", "gained", "lost", "McNemar p",
                                          NULL};
    const json_t *difference, *seed;
    size_t i, k;
    char first[160];
    snprintf(first, sizeof first, "accuracy after step %lld against %s", count(s, "steps"), text(s, "baseline"));
    put_head(out, first, NULL, columns);
    json_array_foreach(get(s, "differences"), i, difference) {
        json_array_foreach(get(difference, "by_seed"), k, seed) put_seed_row(out, difference, seed);
        if (k < 2) continue;
        strbuf_format(out, "| **%s, %zu seeds** | ", text(difference, "value"), k);
        put_signed(out, number(difference, "effect"), 4);
        strbuf_puts(out, " | ");
        put_interval(out, get(difference, "interval_questions"));
        strbuf_puts(out, " | | | |\n");
    }
    json_array_foreach(get(s, "differences"), i, difference) {
        if (isnan(number(difference, "seed_deviation"))) continue;
        strbuf_format(out,
                      "\n%s: from seed to seed the difference has a standard deviation of %.4f; 95 %% over seeds and "
                      "questions: ",
                      text(difference, "value"), number(difference, "seed_deviation"));
        put_interval(out, get(difference, "interval_seeds"));
        strbuf_format(out, " (Student's t, %.1f degrees of freedom).\n", number(difference, "degrees_of_freedom"));
    }
}

static void put_verdict_of(StrBuf *out, const json_t *s, const json_t *difference) {
    const char *verdict = text(difference, "verdict"), *tail = "";
    double margin = number(s, "margin");
    size_t seeds = json_array_size(get(s, "seeds"));
    strbuf_format(out, "- **%s against %s: ", text(difference, "value"), text(difference, "against"));
    if (!strcmp(verdict, "not worse"))
        strbuf_format(out, "not worse** by more than the margin of %g", margin);
    else if (!strcmp(verdict, "worse"))
        strbuf_format(out, "worse** by more than the margin of %g", margin);
    else
        strbuf_format(out, "not decided** against the margin of %g", margin),
            tail = ", which reaches to both sides of the margin";
    strbuf_puts(out, ". Held-out accuracy changes by ");
    put_signed(out, number(difference, "effect"), 4);
    strbuf_puts(out, "; the interval that decides is ");
    put_interval(out, get(difference, "decisive"));
    if (!json_equal(get(difference, "decisive"), get(difference, seeds > 1 ? "interval_seeds" : "interval_questions")))
        strbuf_format(out, ", as wide as %lld questions leave it", count(difference, "questions"));
    strbuf_puts(out, tail);
    if (seeds > 1)
        strbuf_format(out, " (questions and %zu seeds).\n", seeds);
    else
        strbuf_puts(out, " (questions only: with one seed, what another would change is not known).\n");
}

static void put_verdict(StrBuf *out, const json_t *s) {
    const json_t *difference;
    size_t i;
    json_array_foreach(get(s, "differences"), i, difference) put_verdict_of(out, s, difference);
}

static void put_time(StrBuf *out, const json_t *s) {
    static const char *const columns[] = {"minutes", "seconds an update", NULL};
    const json_t *arm;
    size_t i;
    put_head(out, "run", NULL, columns);
    json_array_foreach(get(s, "arms"), i, arm) {
        strbuf_format(out, "| %s, seed %lld | ", text(arm, "value"), count(arm, "seed"));
        put_number(out, number(arm, "seconds") / 60, 1);
        strbuf_puts(out, " | ");
        put_number(out, number(arm, "seconds_per_step"), 2);
        strbuf_puts(out, " |\n");
    }
}

// A word as a shell wants it; absolute paths, which are this machine's, by their last part.
static void put_word(StrBuf *out, const char *word) {
    const char *equals = strchr(word, '='), *value = equals && equals[1] == '/' ? equals + 1 : word;
    if (*value == '/') {
        strbuf_append(out, word, (size_t)(value - word));
        strbuf_format(out, "…%s", strrchr(value, '/'));
    } else if (!*word || strpbrk(word, " $'\"`\\{}[]*?;&|<>()#")) {
        strbuf_putc(out, '\'');
        for (; *word; word++) strbuf_format(out, *word == '\'' ? "'\\''" : "%c", *word);
        strbuf_putc(out, '\'');
    } else {
        strbuf_puts(out, word);
    }
}

static void put_command(StrBuf *out, const json_t *s) {
    const json_t *word;
    size_t i;
    strbuf_puts(out, "    whet compare");
    json_array_foreach(get(s, "command"), i, word) {
        strbuf_putc(out, ' ');
        put_word(out, json_string_value(word));
    }
    strbuf_putc(out, '\n');
}

// --- by name ----------------------------------------------------------------------------------------------------------

static const char *const part_names[] = {"setup",      "proofs",  "memory", "accuracy", "reward",
                                         "difference", "verdict", "time",   "command"};
enum { PARTS = sizeof part_names / sizeof *part_names };

static void put_part(StrBuf *out, const json_t *summary, int part) {
    switch (part) {
    case 0: put_setup(out, summary); break;
    case 1: put_proofs(out, summary); break;
    case 2: put_memory(out, summary); break;
    case 3: put_accuracy(out, summary); break;
    case 4: put_reward(out, summary); break;
    case 5: put_difference(out, summary); break;
    case 6: put_verdict(out, summary); break;
    case 7: put_time(out, summary); break;
    case 8: put_command(out, summary); break;
    }
}

bool compare_table_part(StrBuf *out, const json_t *summary, const char *part, Error *error) {
    bool planned;
    if (!compare_shape_check(&planned, summary, error)) return false;
    if (planned && strcmp(part, "memory") && strcmp(part, "command"))
        return error_set(error, "a plan has no part '%s', only 'memory' and 'command'", part);
    for (int i = 0; i < PARTS; i++)
        if (!strcmp(part, part_names[i])) return put_part(out, summary, i), true;
    const char *near = strbuf_nearest(part, part_names, PARTS);
    return error_set(error, "a comparison has no part '%s'%s%s%s", part, near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
}

void compare_table_all(StrBuf *out, const json_t *summary) {
    for (int i = 0; i + 1 < PARTS; i++) {
        if (i) strbuf_putc(out, '\n');
        put_part(out, summary, i);
    }
}

bool compare_table_value(StrBuf *out, const json_t *summary, const char *path, Error *error) {
    const json_t *at = summary;
    const char *part = path;
    while (at && *part) {
        size_t length = strcspn(part, ".");
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)length, part);
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(key, NULL, 10)) : json_object_get(at, key);
        part += length + (part[length] == '.');
    }
    if (json_is_string(at))
        strbuf_puts(out, json_string_value(at));
    else if (json_is_integer(at))
        strbuf_format(out, "%lld", (long long)json_integer_value(at));
    else if (json_is_real(at))
        strbuf_format(out, "%.4f", json_real_value(at));
    else
        return error_set(error, "the summary has no text or number '%s'", path);
    return true;
}
