// What `whet plan` prints: memory by phase and tag, work and time of a step; several recipes side by side.
#pragma once
#include "base/strbuf.h"
#include "run/plan.h"

#include <jansson.h>

// One recipe of a comparison.
typedef struct PlanArm {
    const char *label;       // what it sets that the others do not: "KEY=VALUE …"; "": the recipe as it is
    const char *short_label; // for the head of a column
    const Settings *settings;
    char **overrides; // that made the settings of the recipe
    int override_count;
    Plan plan;
} PlanArm;

void plan_report_one(StrBuf *out, const PlanArm *arm, const PlanOptions *options);

// What was alive at the peak of the update, and the peak of each phase, a column an arm, with differences from the first.
void plan_report_arms(StrBuf *out, const PlanArm *arms, int count);

json_t *plan_report_json(const PlanArm *arm, const PlanOptions *options); // new reference

// A number with commas between thousands, in text.
const char *plan_report_number(char text[32], int64_t number);
