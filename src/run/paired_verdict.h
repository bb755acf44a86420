// Whether one arm is worse than the other: over questions, over seeds, against a margin.
//
// d(s, q) is the difference of a question's mean reward, arm minus baseline, with seed s of S; the held-out questions q of Q are
// the same for all seeds. The effect is the mean of all d.
//
//   questions   bootstrap over questions of the mean over seeds: what other questions would change, these seeds given.
//   whole       seeds and questions are both a sample of what might have been (crossed random effects). With D(s) the means over
//               questions and d̄(q) the means over seeds,
//                   v_S = var(D) / S,   v_Q = var(d̄) / Q         (sample variances)
//               effect ± t · sqrt(v_S + v_Q), t the 97.5th percentile of Student's distribution with Satterthwaite's
//               (v_S + v_Q)² / (v_S² / (S − 1) + v_Q² / (Q − 1)) degrees of freedom. The noise of a single answer is in both
//               terms, so the interval is rather too wide than too narrow; with few seeds t is large (S = 2: up to 12.7).
//   decisive    what the verdict is given by: whole, or with one seed questions, but at least from effect − u · (span + effect)
//               to effect + u · (span − effect) with u = 1 − 0.025^(1/Q), span the distance of the largest and smallest reward:
//               a share u of the questions can stay unseen in Q with a probability of 2.5 % (the rule of three), and they might
//               differ by as much as rewards can. So a handful of questions that all say the same decides nothing.
//
// not worse: decisive lies above −margin; worse: it lies below −margin; else not decided.
#pragma once
#include "run/paired_bootstrap.h"

typedef enum PairedVerdict { PAIRED_NOT_DECIDED, PAIRED_NOT_WORSE, PAIRED_WORSE } PairedVerdict;

typedef struct PairedResult {
    double effect;
    double seed_deviation;               // sample standard deviation of D; NAN with one seed
    double degrees;                      // of freedom, of whole; NAN likewise
    Interval questions, whole, decisive; // whole: NAN with one seed
    PairedVerdict verdict;
} PairedResult;

// difference[seeds][questions]; at least one of each.
PairedResult paired_verdict(const double *difference, int64_t seeds, int64_t questions, double span, double margin,
                            uint64_t bootstrap_seed);

const char *paired_verdict_name(PairedVerdict verdict); // "not worse"
