// Machines for estimates: what one rank's device does in a second at best.
#pragma once
#include "ops/ops.h"

typedef struct PlanMachine {
    const char *name;   // NULL: none, and no estimate
    double flops[2];    // of matrix products, a multiply-add counts 2: of float32, of bfloat16 and float16
    double bytes, link; // from memory; to other ranks
    double memory;      // bytes that it has; 0: not known
} PlanMachine;

// A machine of the table, by name; refuses others, naming the nearest and all. The figures are the makers', for dense matrices.
bool plan_machine_find(PlanMachine *machine, const char *name, Error *error);

// This machine, measured as `whet bench` does (a fraction of a second). Ranks on it share memory: link is half of what it reads.
bool plan_machine_measure(PlanMachine *machine, Error *error);

const char *plan_machine_names(void); // "h100|h200|…|this", for help

OpsMachine plan_machine_for(const PlanMachine *machine, DType compute);
