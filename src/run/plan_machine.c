#include "run/plan_machine.h"

#include "base/strbuf.h"
#include "run/bench_machine.h"

#include <string.h>

#define TERA 1e12
#define GIGA 1e9
#define GIB 0x1p30

// Makers' data sheets: dense, without the sparsity that doubles figures; link: one direction of a rank's fastest road to others.
static const PlanMachine machines[] = {
    {"a100", {19.5 * TERA, 312 * TERA}, 2039 * GIGA, 300 * GIGA, 80 * GIB},
    {"h100", {66.9 * TERA, 989.4 * TERA}, 3350 * GIGA, 450 * GIGA, 80 * GIB},
    {"h200", {66.9 * TERA, 989.4 * TERA}, 4800 * GIGA, 450 * GIGA, 141 * GIGA},
    {"b200", {75 * TERA, 2250 * TERA}, 8000 * GIGA, 900 * GIGA, 180 * GIGA},
    {"mi300x", {163.4 * TERA, 1307 * TERA}, 5300 * GIGA, 448 * GIGA, 192 * GIGA},
    {"l40s", {91.6 * TERA, 362 * TERA}, 864 * GIGA, 32 * GIGA, 48 * GIB},
    {"rtx4090", {82.6 * TERA, 165.2 * TERA}, 1008 * GIGA, 32 * GIGA, 24 * GIB},
};
enum { MACHINE_COUNT = sizeof machines / sizeof *machines, MEASUREMENTS = 5 };

const char *plan_machine_names(void) {
    return "a100|h100|h200|b200|mi300x|l40s|rtx4090|this";
}

bool plan_machine_measure(PlanMachine *machine, Error *error) {
    Ops ops;
    BenchMachine bench;
    if (!ops_open(&ops, (OpsOptions){0}, error)) return false;
    bench_machine_open(&bench, &ops);
    *machine = (PlanMachine){.name = "this machine, measured"};
    double flops = bench_machine_best(&bench, bench_machine_flops, MEASUREMENTS, 0);
    machine->flops[0] = machine->flops[1] = flops; // arithmetic is float32 always
    machine->bytes = bench_machine_best(&bench, bench_machine_bytes, MEASUREMENTS, 0);
    machine->link = machine->bytes / 2;
    bench_machine_close(&bench);
    ops_close(&ops);
    return true;
}

bool plan_machine_find(PlanMachine *machine, const char *name, Error *error) {
    if (!strcmp(name, "this")) return plan_machine_measure(machine, error);
    const char *names[MACHINE_COUNT];
    for (int i = 0; i < MACHINE_COUNT; i++) {
        names[i] = machines[i].name;
        if (strcmp(name, names[i])) continue;
        *machine = machines[i];
        return true;
    }
    const char *near = strbuf_nearest(name, names, MACHINE_COUNT);
    return error_set(error, "--machine is '%.60s'; expected %s%s%s", name, plan_machine_names(),
                     near ? "; did you mean " : "", near ? near : "");
}

OpsMachine plan_machine_for(const PlanMachine *machine, DType compute) {
    return (OpsMachine){.flops = machine->flops[compute != DTYPE_F32], .bytes = machine->bytes};
}
