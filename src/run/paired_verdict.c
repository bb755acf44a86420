#include "run/paired_verdict.h"

#include "base/arena.h"
#include "run/student.h"

#include <math.h>

static double mean_of(const double *value, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += value[i];
    return sum / (double)count;
}

// Sample variance; 0 of one value, which tells nothing.
static double variance_of(const double *value, int64_t count) {
    double mean = mean_of(value, count), sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (value[i] - mean) * (value[i] - mean);
    return count > 1 ? sum / (double)(count - 1) : 0;
}

static Interval around(double middle, double reach) {
    return (Interval){middle - reach, middle + reach};
}

static void over_seeds(PairedResult *result, const double *by_seed, int64_t seeds, const double *by_question,
                       int64_t questions) {
    double spread = variance_of(by_seed, seeds);
    double of_seeds = spread / (double)seeds, of_questions = variance_of(by_question, questions) / (double)questions;
    double sum = of_seeds + of_questions, parts = of_seeds * of_seeds / (double)(seeds - 1);
    if (questions > 1) parts += of_questions * of_questions / (double)(questions - 1);
    result->seed_deviation = sqrt(spread);
    result->degrees = sum > 0 ? sum * sum / parts : (double)(seeds - 1);
    result->whole = around(result->effect, student_quantile(0.975, result->degrees) * sqrt(sum));
}

static PairedVerdict decide(Interval interval, double margin) {
    if (interval.low > -margin) return PAIRED_NOT_WORSE;
    return interval.high < -margin ? PAIRED_WORSE : PAIRED_NOT_DECIDED;
}

PairedResult paired_verdict(const double *difference, int64_t seeds, int64_t questions, double span, double margin,
                            uint64_t bootstrap_seed) {
    Arena arena = {0};
    double *by_seed = arena_array(&arena, double, seeds), *by_question = arena_array(&arena, double, questions);
    for (int64_t s = 0; s < seeds; s++) by_seed[s] = mean_of(difference + s * questions, questions);
    for (int64_t q = 0; q < questions; q++) {
        for (int64_t s = 0; s < seeds; s++) by_question[q] += difference[s * questions + q];
        by_question[q] /= (double)seeds;
    }
    const double none = (double)NAN;
    PairedResult result = {.effect = mean_of(by_seed, seeds),
                           .seed_deviation = none,
                           .degrees = none,
                           .questions =
                               paired_bootstrap(by_question, questions, PAIRED_BOOTSTRAP_RESAMPLES, bootstrap_seed),
                           .whole = {none, none}};
    if (seeds > 1) over_seeds(&result, by_seed, seeds, by_question, questions);
    double unseen = 1 - pow(0.025, 1 / (double)questions); // share of the questions
    Interval seen = seeds > 1 ? result.whole : result.questions;
    result.decisive = (Interval){fmin(seen.low, result.effect - unseen * (span + result.effect)),
                                 fmax(seen.high, result.effect + unseen * (span - result.effect))};
    result.verdict = decide(result.decisive, margin);
    arena_close(&arena);
    return result;
}

const char *paired_verdict_name(PairedVerdict verdict) {
    static const char *const names[] = {"not decided", "not worse", "worse"};
    return names[verdict];
}
