#include "run/compare_summary.h"

#include "base/int64.h"
#include "base/jsonio.h"
#include "run/compare_pairs.h"
#include "run/paired_sign.h"
#include "run/paired_verdict.h"

#include <math.h>
#include <string.h>

static json_t *real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static void put(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, real(value));
}

static void put_count(json_t *object, const char *key, int64_t value) {
    json_object_set_new(object, key, json_integer(value));
}

static json_t *interval(Interval i) {
    return json_pack("[o, o]", real(i.low), real(i.high));
}

// --- curves -----------------------------------------------------------------------------------------------------------

static json_t *reals(const double *value, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, real(value[i]));
    return list;
}

// Mean of each value and those before it, up to ten.
static json_t *moving_average(const double *value, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) {
        int64_t first = int64_larger(0, i + 1 - COMPARE_SUMMARY_AVERAGE);
        double sum = 0;
        for (int64_t k = first; k <= i; k++) sum += value[k];
        json_array_append_new(list, real(sum / (double)(i + 1 - first)));
    }
    return list;
}

// The largest peak over ranks of each step, in MiB.
static json_t *peaks(const RunRecord *record, Arena *arena) {
    double *peak = arena_array(arena, double, record->step_count);
    for (int64_t i = 0; i < record->memory_count; i++) {
        const RunMemory *m = &record->memory[i];
        if (m->step >= 1 && m->step <= record->step_count)
            peak[m->step - 1] = fmax(peak[m->step - 1], m->peak / 0x1p20);
    }
    return reals(peak, record->step_count);
}

static json_t *arm_of(const CompareArm *arm, Arena *arena) {
    const RunRecord *r = &arm->record;
    json_t *object = json_object();
    double seconds = 0;
    for (int64_t i = 0; i < r->step_count; i++) seconds += r->step_seconds[i];
    json_object_set_new(object, "value", json_string(arm->value));
    put_count(object, "seed", arm->seed);
    json_object_set_new(object, "folder", json_string(arm->folder));
    put(object, "seconds", r->training_seconds);
    put(object, "seconds_per_step", seconds / (double)r->step_count);
    json_object_set_new(object, "accuracy", reals(r->accuracy, r->validation_count));
    json_object_set_new(object, "reward", reals(r->reward, r->step_count));
    json_object_set_new(object, "reward_average", moving_average(r->reward, r->step_count));
    json_object_set_new(object, "peak_mb", peaks(r, arena));
    return object;
}

static json_t *accuracy_table(const Comparison *c) {
    const RunRecord *first = &c->arms->record;
    json_t *table = json_array();
    for (int64_t i = 0; i < first->validation_count; i++) {
        json_t *row = json_array();
        for (int v = 0; v < c->value_count; v++) {
            double sum = 0;
            for (int s = 0; s < c->seed_count; s++) sum += compare_arms_at(c, v, s)->record.accuracy[i];
            json_array_append_new(row, real(sum / c->seed_count));
        }
        json_array_append_new(table,
                              json_pack("{s:I, s:o}", "step", (json_int_t)first->validation_step[i], "by_value", row));
    }
    return table;
}

// --- memory -----------------------------------------------------------------------------------------------------------

typedef struct MemorySums {
    int64_t updates, phases[PHASE_COUNT]; // a validation is not in every step
    double peak, largest, step_peak, at_peak[MEMORY_TAG_COUNT], phase[PHASE_COUNT];
} MemorySums;

static void add_memory(MemorySums *sums, const RunRecord *record, int rank, int64_t warm_up) {
    for (int64_t i = 0; i < record->memory_count; i++) {
        const RunMemory *m = &record->memory[i];
        if (m->rank != rank || m->step <= warm_up) continue;
        sums->updates++;
        sums->peak += m->peak, sums->largest = fmax(sums->largest, m->peak), sums->step_peak += m->step_peak;
        for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++) sums->at_peak[tag] += m->at_peak[tag];
        for (int phase = PHASE_LOAD + 1; phase < PHASE_COUNT; phase++) // which a step has only between the others
            sums->phase[phase] += m->phase[phase], sums->phases[phase] += m->phase[phase] > 0;
    }
}

static json_t *memory_of(const MemorySums *sums) {
    json_t *object = json_object(), *tags = json_object(), *phases = json_object();
    double each = (double)sums->updates * 0x1p20;
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++)
        put(tags, ledger_tag_name((MemoryTag)tag), sums->at_peak[tag] / each);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        put(phases, ledger_phase_name((MemoryPhase)phase),
            sums->phase[phase] / (double)(sums->phases[phase] ? sums->phases[phase] : 1) / 0x1p20);
    put_count(object, "updates", sums->updates);
    put(object, "peak_mb", sums->peak / each);
    put(object, "largest_mb", sums->largest / 0x1p20);
    put(object, "step_peak_mb", sums->step_peak / each);
    json_object_set_new(object, "at_peak_mb", tags);
    json_object_set_new(object, "by_phase_mb", phases);
    return object;
}

static json_t *memory_table(const Comparison *c, int64_t warm_up) {
    json_t *table = json_array();
    int ranks = 0;
    for (int64_t i = 0; i < c->arms->record.memory_count; i++)
        ranks = c->arms->record.memory[i].rank >= ranks ? c->arms->record.memory[i].rank + 1 : ranks;
    for (int rank = 0; rank < ranks; rank++) {
        json_t *row = json_array();
        for (int v = 0; v < c->value_count; v++) {
            MemorySums sums = {0};
            for (int s = 0; s < c->seed_count; s++) add_memory(&sums, &compare_arms_at(c, v, s)->record, rank, warm_up);
            json_array_append_new(row, memory_of(&sums));
        }
        json_array_append_new(table, json_pack("{s:i, s:o}", "rank", rank, "by_value", row));
    }
    return table;
}

// --- differences ------------------------------------------------------------------------------------------------------

// The last validations of one value and of the baseline, question by question.
typedef struct Pairs {
    int64_t asked, count;   // questions; those that could be scored in every arm
    double *difference;     // [seeds][count]
    int64_t *gained, *lost; // [seeds] questions that one arm alone answers
    double span;
    bool single; // one answer a question
} Pairs;

static bool same_questions(const RunAnswers *a, const RunAnswers *b) {
    return a->count == b->count && !memcmp(a->question, b->question, (size_t)a->count * sizeof *a->question);
}

// answers[2 · seeds], the baseline's first.
static bool read_answers(RunAnswers **answers, const Comparison *c, int value, Error *error) {
    *answers = arena_array(c->arena, RunAnswers, 2 * (int64_t)c->seed_count);
    for (int s = 0; s < c->seed_count; s++) {
        for (int side = 0; side < 2; side++) {
            RunAnswers *one = &(*answers)[2 * s + side];
            const RunRecord *record = &compare_arms_at(c, side ? value : 0, s)->record;
            if (!run_record_answers(one, record, record->step_count, c->arena, error)) return false;
            if (!same_questions(one, *answers))
                return error_set(error, "%s: the validation after step %lld asked other questions than %s's",
                                 record->folder, (long long)record->step_count, c->arms->folder);
        }
    }
    return true;
}

static bool pair_up(Pairs *pairs, const Comparison *c, int value, Error *error) {
    RunAnswers *answers;
    int arms = 2 * c->seed_count;
    double lowest = INFINITY, highest = -INFINITY;
    if (!read_answers(&answers, c, value, error)) return false;
    *pairs = (Pairs){.asked = answers->count,
                     .difference = arena_array(c->arena, double, answers->count * c->seed_count),
                     .gained = arena_array(c->arena, int64_t, c->seed_count),
                     .lost = arena_array(c->arena, int64_t, c->seed_count),
                     .single = true};
    bool *scored = arena_array(c->arena, bool, answers->count);
    for (int64_t q = 0; q < answers->count; q++) {
        scored[q] = true;
        for (int i = 0; i < arms; i++) scored[q] = scored[q] && !isnan(answers[i].reward[q]);
        pairs->count += scored[q];
    }
    for (int i = 0; i < arms; i++) {
        lowest = fmin(lowest, answers[i].lowest), highest = fmax(highest, answers[i].highest);
        pairs->single = pairs->single && answers[i].answers_each == 1;
    }
    pairs->span = fmax(1, highest - lowest);
    for (int s = 0; s < c->seed_count; s++) {
        const RunAnswers *before = &answers[2 * s], *after = before + 1;
        double *difference = pairs->difference + s * pairs->count;
        for (int64_t q = 0; q < answers->count; q++) {
            if (!scored[q]) continue;
            *difference++ = after->reward[q] - before->reward[q];
            pairs->gained[s] += after->passed[q] && !before->passed[q];
            pairs->lost[s] += before->passed[q] && !after->passed[q];
        }
    }
    return pairs->count > 0 || error_set(error, "no held-out question could be scored in all arms");
}

static json_t *seed_of(const Comparison *c, const Pairs *pairs, int seed, double margin) {
    json_t *object = json_object();
    PairedResult r = paired_verdict(pairs->difference + seed * pairs->count, 1, pairs->count, pairs->span, margin,
                                    COMPARE_SUMMARY_BOOTSTRAP_SEED);
    put_count(object, "seed", c->seeds[seed]);
    put(object, "effect", r.effect);
    json_object_set_new(object, "interval", interval(r.questions));
    put_count(object, "gained", pairs->gained[seed]);
    put_count(object, "lost", pairs->lost[seed]);
    put(object, "mcnemar_p",
        pairs->single ? paired_sign_probability(pairs->gained[seed], pairs->lost[seed]) : (double)NAN);
    return object;
}

static json_t *difference_of(const Comparison *c, int value, double margin, Error *error) {
    Pairs pairs;
    if (!pair_up(&pairs, c, value, error)) return NULL;
    PairedResult r = paired_verdict(pairs.difference, c->seed_count, pairs.count, pairs.span, margin,
                                    COMPARE_SUMMARY_BOOTSTRAP_SEED);
    json_t *object = json_pack("{s:s, s:s}", "value", c->values[value], "against", c->values[0]), *seeds = json_array();
    for (int s = 0; s < c->seed_count; s++) json_array_append_new(seeds, seed_of(c, &pairs, s, margin));
    put_count(object, "questions", pairs.count);
    put_count(object, "left_out", pairs.asked - pairs.count);
    put(object, "effect", r.effect);
    put(object, "seed_deviation", r.seed_deviation);
    put(object, "degrees_of_freedom", r.degrees);
    json_object_set_new(object, "interval_questions", interval(r.questions));
    json_object_set_new(object, "interval_seeds", interval(r.whole));
    json_object_set_new(object, "decisive", interval(r.decisive));
    json_object_set_new(object, "verdict", json_string(paired_verdict_name(r.verdict)));
    json_object_set_new(object, "by_seed", seeds);
    return object;
}

static bool put_differences(json_t *summary, const Comparison *c, double margin, Error *error) {
    json_t *list = json_array();
    json_object_set_new(summary, "differences", list);
    for (int v = 1; v < c->value_count; v++) {
        json_t *one = difference_of(c, v, margin, error);
        if (!one) return false;
        json_array_append_new(list, one);
        put_count(summary, "questions", json_integer_value(json_object_get(one, "questions")));
    }
    return true;
}

// --- the whole --------------------------------------------------------------------------------------------------------

static bool put_proofs(json_t *summary, const Comparison *c, Error *error) {
    json_t *initial = json_array();
    json_object_set_new(summary, "proofs",
                        json_pack("{s:s, s:s, s:o, s:I}", "differing_key", c->key, "computed_keys", c->following,
                                  "initial", initial, "steps_with_the_same_prompts",
                                  (json_int_t)c->arms->record.step_count));
    for (int v = 1; v < c->value_count; v++) {
        for (int s = 0; s < c->seed_count; s++) {
            int64_t differing, count;
            if (!compare_pairs_initial(&differing, &count, c, v, s, error)) return false;
            json_array_append_new(initial, json_pack("{s:s, s:I, s:I, s:I}", "value", c->values[v], "seed",
                                                     (json_int_t)c->seeds[s], "answers", (json_int_t)count, "differing",
                                                     (json_int_t)differing));
        }
    }
    return true;
}

// What the first arm ran on, without the places of this machine.
static bool put_environment(json_t *summary, const Comparison *c, Error *error) {
    static const char *const kept[] = {"cpu_model", "cores",    "memory_mb",      "isa",          "threads",    "ranks",
                                       "device",    "compiler", "program_digest", "model_digest", "data_digest"};
    json_t *all = NULL, *environment = json_object();
    json_object_set_new(summary, "environment", environment);
    if (!jsonio_read(&all, arena_format(c->arena, "%s/environment.json", c->arms->folder), error)) return false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(environment, kept[i], json_object_get(all, kept[i]));
    json_decref(all);
    return true;
}

static json_t *heading(const Comparison *c, const CompareOptions *options, const char *const *command) {
    const RunRecord *first = &c->arms->record;
    json_t *summary = json_object(), *values = json_array(), *seeds = json_array(), *steps = json_array(),
           *words = json_array(), *arms = json_array();
    for (int v = 0; v < c->value_count; v++) json_array_append_new(values, json_string(c->values[v]));
    for (int s = 0; s < c->seed_count; s++) json_array_append_new(seeds, json_integer(c->seeds[s]));
    for (int64_t i = 0; i < first->validation_count; i++)
        json_array_append_new(steps, json_integer(first->validation_step[i]));
    for (; *command; command++) json_array_append_new(words, json_string(*command));
    for (int i = 0; i < c->value_count * c->seed_count; i++) json_array_append_new(arms, arm_of(&c->arms[i], c->arena));
    json_object_set_new(summary, "key", json_string(c->key));
    json_object_set_new(summary, "values", values);
    json_object_set_new(summary, "baseline", json_string(c->values[0]));
    json_object_set_new(summary, "seeds", seeds);
    put_count(summary, "steps", first->step_count);
    put_count(summary, "questions", 0);
    put_count(summary, "answers_each", c->arms->settings->grpo.val_num_generations_per_prompt);
    put(summary, "validation_temperature", c->arms->settings->val_generation.temperature);
    put(summary, "margin", options->margin);
    put_count(summary, "warm_up", options->warm_up);
    json_object_set_new(summary, "command", words);
    json_object_set_new(summary, "validations", steps);
    json_object_set_new(summary, "arms", arms);
    json_object_set_new(summary, "accuracy", accuracy_table(c));
    json_object_set_new(summary, "memory", memory_table(c, options->warm_up));
    return summary;
}

json_t *compare_summary(const Comparison *c, const CompareOptions *options, const char *const *command, Error *error) {
    json_t *summary = heading(c, options, command);
    if (put_proofs(summary, c, error) && put_environment(summary, c, error) &&
        put_differences(summary, c, options->margin, error))
        return summary;
    json_decref(summary);
    return NULL;
}
