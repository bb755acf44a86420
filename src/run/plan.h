// A step of a recipe on a device that allocates nothing: the step itself (trainer, rollout, learning_run, validation), with
// lengths that are given instead of sampled. What its ledger and its operations counted is what a run of such lengths takes, on
// one rank of so many.
#pragma once
#include "config/settings.h"
#include "run/plan_machine.h"
#include "run/plan_model.h"
#include "run/trainer.h"

// What is assumed where a run would find out.
enum { PLAN_MOST_RANKS = 65536, PLAN_EVERY_RANK = 0 };

typedef struct PlanOptions {
    int ranks;                            // 0: cluster.gpus_per_node · cluster.num_nodes of the recipe
    int64_t prompt_tokens, answer_tokens; // of every sample; 0: as long as the recipe allows (plan_lengths)
    PlanMachine machine;                  // name NULL: no times
    bool memory_only;                     // answers are not decoded and one update is enough: the same memory, sooner
    int only;                             // the number (from 1) of the one rank that is planned, or PLAN_EVERY_RANK
} PlanOptions;

// Tokens of every sample: answer_tokens, at most policy.generation.max_new_tokens, behind prompt_tokens. Without a given prompt
// it has what max_model_len leaves beside the longest answer, at least a quarter of it, at most data.max_input_seq_length;
// without a given answer it is as long as possible. In supervised fine-tuning an answer is what is learned, as long as it
// fits. Refuses what does not fit.
bool plan_lengths(int64_t *prompt, int64_t *answer, const Settings *settings, const PlanOptions *options, Error *error);

// Bytes that a rank hands to others, and calls (comm/comm.h).
typedef struct PlanWire {
    uint64_t bytes[COMM_CALL_COUNT];
    int64_t calls[COMM_CALL_COUNT];
    double seconds; // at the best that the link gives
} PlanWire;

typedef struct Plan {
    int64_t parameters, prompt_tokens, answer_tokens, samples, updates;
    int64_t step_tokens; // of all samples of a step
    // What was alive together: of a step, and of its update (forward, backward, optimizer); when, and on which rank.
    LedgerPeak peak, update_peak;
    MemoryPhase peak_phase, update_phase;
    int ranks, ranks_planned, peak_rank, update_rank;
    LedgerPeak
        by_phase[PHASE_COUNT]; // of the rank that needs most then; load: of the opening; validate: of a validation
    OpsWork work[PHASE_COUNT]; // of a step of rank 0, which is never idle; load: 0
    PlanWire wire;             // likewise
} Plan;

// Plans the step of a recipe: one to warm up, then the one that counts. The peaks are those of the second, the largest over all
// ranks; where there are more than PLAN_ALL_RANKS, over the first and the last of each tensor-parallel place, between which
// nothing differs but who is idle in the end.
enum { PLAN_ALL_RANKS = 64 };
bool plan_make(Plan *plan, const Settings *settings, const PlanOptions *options, Error *error);

// One step of an opened plan trainer, whose P prompts have prompt_tokens[P] tokens: what plan_make repeats. For tests.
bool plan_step(Trainer *trainer, const PlanOptions *options, const int64_t *prompt_tokens, int64_t step, Error *error);
// A validation whose questions (plan_validation_questions) have prompt_tokens[…] tokens.
bool plan_validation(Trainer *trainer, const PlanOptions *options, const int64_t *prompt_tokens, Error *error);
int64_t plan_validation_questions(const Settings *settings, const PlanOptions *options);
