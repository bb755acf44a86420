// What fits into a memory: the largest micro-batch, the longest sequences, and which settings take less.
#pragma once
#include "run/plan_report.h"

enum { PLAN_FIT_HELPS = 12 };

typedef struct PlanHelp {
    const char *setting; // overrides, parted by blanks
    int64_t saved;       // bytes of the peak of a step
    bool fits;
} PlanHelp;

typedef struct PlanFit {
    uint64_t memory; // bytes
    bool fits;       // the recipe as it is
    // Of the other as the recipe says; 0: not even the smallest fits. peak_…: bytes of the peak of a step then.
    int64_t micro_batch, sequence_length;
    uint64_t peak_micro_batch, peak_sequence_length;
    bool whole_batch, all_positions; // these are all that there are
    int help_count;
    PlanHelp helps[PLAN_FIT_HELPS]; // that save something, most first, each alone
} PlanFit;

// The overrides of the arm are taken with each of those that are tried. Sequence lengths are tried in steps of a page. With
// packing and dynamic batching a micro-batch of n samples is one of n · max_total_sequence_length tokens.
bool plan_fit(PlanFit *fit, uint64_t memory, const PlanArm *arm, const PlanOptions *options, Arena *arena,
              Error *error);

void plan_fit_text(StrBuf *out, const PlanFit *fit, const PlanArm *arm);
json_t *plan_fit_json(const PlanFit *fit); // new reference
