#include "run/plan_report.h"

#include "run/memory_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB 0x1p20
enum { LABEL = 16, COLUMN = 10 };

const char *plan_report_number(char text[32], int64_t number) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%" PRId64, number), used = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && digits[i - 1] != '-') text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
    return text;
}

static void put_mib(StrBuf *out, int width, uint64_t bytes) {
    strbuf_format(out, "%*.1f", width, (double)bytes / MIB);
}

static void put_head(StrBuf *out, const PlanArm *arm) {
    char parameters[32];
    const Settings *s = arm->settings;
    const Plan *p = &arm->plan;
    strbuf_format(out, "%s: %s parameters; computed in %s, handed on in %s; %d rank%s\n", s->policy.model_name,
                  plan_report_number(parameters, p->parameters), dtype_name(s->policy.dtypes.compute),
                  dtype_name(s->policy.dtypes.output), p->ranks, p->ranks == 1 ? "" : "s");
    strbuf_format(out,
                  "A step: %lld samples, each assumed to be a prompt of %lld and an answer of %lld tokens; %lld "
                  "update%s\n",
                  (long long)p->samples, (long long)p->prompt_tokens, (long long)p->answer_tokens,
                  (long long)p->updates, p->updates == 1 ? "" : "s");
}

static bool has_phase(const Plan *plan, int phase) {
    return plan->by_phase[phase].total > 0;
}

static void put_memory(StrBuf *out, const Plan *plan) {
    strbuf_format(out, "\nMemory of the rank that needs most in MiB: what was alive at the peak of each phase\n%*s",
                  LABEL, "");
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (has_phase(plan, phase)) strbuf_format(out, "%*s", COLUMN, ledger_phase_name((MemoryPhase)phase));
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++) {
        bool any = false;
        for (int phase = 0; phase < PHASE_COUNT; phase++) any |= plan->by_phase[phase].by_tag[tag] > 0;
        if (!any) continue;
        strbuf_format(out, "\n%-*s", LABEL, ledger_tag_name((MemoryTag)tag));
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            if (has_phase(plan, phase)) put_mib(out, COLUMN, plan->by_phase[phase].by_tag[tag]);
    }
    strbuf_format(out, "\n%-*s", LABEL, "total");
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (has_phase(plan, phase)) put_mib(out, COLUMN, plan->by_phase[phase].total);
    strbuf_format(out,
                  "\npeak of a step: %.1f MiB in %s; of its update (forward, backward, optimizer): %.1f MiB in %s\n",
                  (double)plan->peak.total / MIB, ledger_phase_name(plan->peak_phase),
                  (double)plan->update_peak.total / MIB, ledger_phase_name(plan->update_phase));
}

static void put_wire(StrBuf *out, const PlanWire *wire, bool timed) {
    static const char *const names[COMM_CALL_COUNT] = {"all-gather", "all-to-all", "broadcast"};
    uint64_t sum = 0;
    for (int call = 0; call < COMM_CALL_COUNT; call++) sum += wire->bytes[call];
    if (!sum) return;
    strbuf_format(out, "%-*s%14s%14.1f", LABEL, "sent", "", (double)sum * 1e-9);
    if (timed) strbuf_format(out, "%14.3f", wire->seconds);
    for (int call = 0; call < COMM_CALL_COUNT; call++)
        if (wire->bytes[call])
            strbuf_format(out, "  %s %.1f in %lld calls", names[call], (double)wire->bytes[call] * 1e-9,
                          (long long)wire->calls[call]);
    strbuf_putc(out, '\n');
}

static void put_work_row(StrBuf *out, const char *name, const OpsWork *work, bool timed) {
    strbuf_format(out, "%-*s%14.3f%14.1f", LABEL, name, (double)work->flops * 1e-12, (double)work->bytes * 1e-9);
    if (timed) strbuf_format(out, "%14.3f", work->seconds);
    strbuf_putc(out, '\n');
}

static void put_work(StrBuf *out, const Plan *plan, const PlanMachine *machine) {
    bool timed = machine->name;
    OpsWork sum = {0};
    strbuf_format(out, "\n%-*s%14s%14s%s\n", LABEL, "Work of a rank", "TFLOP", "GB moved", timed ? "  seconds, ≥" : "");
    for (int phase = PHASE_ROLLOUT; phase < PHASE_VALIDATE; phase++) {
        const OpsWork *work = &plan->work[phase];
        if (!work->flops && !work->bytes) continue;
        put_work_row(out, ledger_phase_name((MemoryPhase)phase), work, timed);
        sum.flops += work->flops, sum.bytes += work->bytes, sum.seconds += work->seconds;
    }
    put_work_row(out, "a step", &sum, timed);
    put_wire(out, &plan->wire, timed);
    if (plan->work[PHASE_VALIDATE].bytes) put_work_row(out, "a validation", &plan->work[PHASE_VALIDATE], timed);
    if (!timed) return;
    strbuf_format(
        out,
        "An estimate, and a lower bound: every operation takes the longer of computing and moving its operands "
        "once, on\n%s: %.1f and %.1f TFLOP/s in float32 and 16 bits, %.0f GB/s from memory, %.0f GB/s to other "
        "ranks.\n",
        machine->name, machine->flops[0] * 1e-12, machine->flops[1] * 1e-12, machine->bytes * 1e-9,
        machine->link * 1e-9);
    double sent = plan->wire.seconds, least = sum.seconds > sent ? sum.seconds : sent, all = sum.seconds + sent;
    strbuf_format(out, "A step takes %.3f s where ranks send while they compute", least);
    strbuf_format(out, ", %.3f s where they do not: %.0f to %.0f tokens/s\n", all, (double)plan->step_tokens / all,
                  (double)plan->step_tokens / least);
}

void plan_report_one(StrBuf *out, const PlanArm *arm, const PlanOptions *options) {
    put_head(out, arm);
    put_memory(out, &arm->plan);
    if (!options->memory_only) put_work(out, &arm->plan, &options->machine);
}

// ---- arms side by side

typedef uint64_t PickBytes(const Plan *plan, int index);

static uint64_t update_tag(const Plan *plan, int tag) {
    return plan->update_peak.by_tag[tag];
}

static uint64_t update_total(const Plan *plan, int index) {
    (void)index;
    return plan->update_peak.total;
}

static uint64_t step_total(const Plan *plan, int index) {
    (void)index;
    return plan->peak.total;
}

static uint64_t phase_total(const Plan *plan, int phase) {
    return plan->by_phase[phase].total;
}

static int column_width(const PlanArm *arms, int count) {
    int width = COLUMN;
    for (int i = 0; i < count; i++) {
        int length = (int)strlen(arms[i].short_label) + 2;
        if (length > width) width = length < 40 ? length : 40;
    }
    return width;
}

// A row of the table, unless all arms have nothing.
static void put_row(StrBuf *out, const char *name, const PlanArm *arms, int count, PickBytes *pick, int index) {
    int width = column_width(arms, count);
    bool any = false;
    for (int i = 0; i < count; i++) any |= pick(&arms[i].plan, index) > 0;
    if (!any) return;
    strbuf_format(out, "%-*s", LABEL, name);
    for (int i = 0; i < count; i++) put_mib(out, width, pick(&arms[i].plan, index));
    double first = (double)pick(&arms[0].plan, index);
    for (int i = 1; i < count; i++)
        strbuf_format(out, "%+*.1f", COLUMN + 2, ((double)pick(&arms[i].plan, index) - first) / MIB);
    strbuf_putc(out, '\n');
}

void plan_report_arms(StrBuf *out, const PlanArm *arms, int count) {
    int width = column_width(arms, count);
    put_head(out, &arms[0]);
    strbuf_puts(out, "\nArms:\n");
    for (int i = 0; i < count; i++) strbuf_format(out, "  %-*s %s\n", width, arms[i].short_label, arms[i].label);
    strbuf_format(out, "\nMemory of a rank in MiB at the peak of the update, and how it differs from the first\n%*s",
                  LABEL, "");
    for (int i = 0; i < count; i++) strbuf_format(out, "%*.*s", width, width - 1, arms[i].short_label);
    if (count > 1) strbuf_format(out, "%*s", COLUMN + 2, count == 2 ? "difference" : "differences");
    strbuf_putc(out, '\n');
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++)
        put_row(out, ledger_tag_name((MemoryTag)tag), arms, count, update_tag, tag);
    put_row(out, "update", arms, count, update_total, 0);
    strbuf_puts(out, "\nPeak of each phase\n");
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        put_row(out, ledger_phase_name((MemoryPhase)phase), arms, count, phase_total, phase);
    put_row(out, "a step", arms, count, step_total, 0);
}

// ---- JSON

static json_t *peak_json(const LedgerPeak *peak) {
    json_t *object = json_pack("{s:I}", "total", (json_int_t)peak->total), *tags = memory_log_by_tag(peak->by_tag);
    json_object_update(object, tags);
    json_decref(tags);
    return object;
}

json_t *plan_report_json(const PlanArm *arm, const PlanOptions *options) {
    const Plan *p = &arm->plan;
    const PolicyOptions *policy = &arm->settings->policy;
    json_t *phases = json_object(), *work = json_object();
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const char *name = ledger_phase_name((MemoryPhase)phase);
        if (has_phase(p, phase)) json_object_set_new(phases, name, peak_json(&p->by_phase[phase]));
        if (options->memory_only || !p->work[phase].bytes) continue;
        json_t *done = json_pack("{s:I, s:I}", "flops", (json_int_t)p->work[phase].flops, "bytes_moved",
                                 (json_int_t)p->work[phase].bytes);
        if (options->machine.name) json_object_set_new(done, "seconds_at_best", json_real(p->work[phase].seconds));
        json_object_set_new(work, name, done);
    }
    json_t *object = json_pack(
        "{s:s, s:s, s:I, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:s, s:o, s:s, s:o, s:o, s:o}", "arm", arm->label, "model",
        policy->model_name, "parameters", (json_int_t)p->parameters, "precision", dtype_name(policy->dtypes.compute),
        "fsdp_output_dtype", dtype_name(policy->dtypes.output), "ranks", p->ranks, "samples", (json_int_t)p->samples,
        "prompt_tokens", (json_int_t)p->prompt_tokens, "answer_tokens", (json_int_t)p->answer_tokens, "updates",
        (json_int_t)p->updates, "peak_phase", ledger_phase_name(p->peak_phase), "peak", peak_json(&p->peak),
        "update_peak_phase", ledger_phase_name(p->update_phase), "update_peak", peak_json(&p->update_peak),
        "peak_by_phase", phases, "work", work);
    CHECK(object, "plan of %s", policy->model_name);
    if (options->machine.name) json_object_set_new(object, "machine", json_string(options->machine.name));
    if (p->ranks > 1 && !options->memory_only)
        json_object_set_new(object, "bytes_sent",
                            json_pack("{s:I, s:I, s:I}", "all_gather", (json_int_t)p->wire.bytes[COMM_ALL_GATHER],
                                      "all_to_all", (json_int_t)p->wire.bytes[COMM_ALL_TO_ALL], "broadcast",
                                      (json_int_t)p->wire.bytes[COMM_BROADCAST]));
    return object;
}
