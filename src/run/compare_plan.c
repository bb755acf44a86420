#include "run/compare_plan.h"

static json_t *tags_of(const LedgerPeak *peak) {
    json_t *tags = json_object();
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++)
        json_object_set_new(tags, ledger_tag_name((MemoryTag)tag), json_real((double)peak->by_tag[tag] / 0x1p20));
    return tags;
}

static json_t *memory_of(const Plan *plan) {
    json_t *object = json_object(), *phases = json_object();
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        json_object_set_new(phases, ledger_phase_name((MemoryPhase)phase),
                            json_real((double)plan->by_phase[phase].total / 0x1p20));
    json_object_set_new(object, "updates", json_integer(plan->updates));
    json_object_set_new(object, "peak_mb", json_real((double)plan->update_peak.total / 0x1p20));
    json_object_set_new(object, "largest_mb", json_real((double)plan->update_peak.total / 0x1p20));
    json_object_set_new(object, "step_peak_mb", json_real((double)plan->peak.total / 0x1p20));
    json_object_set_new(object, "at_peak_mb", tags_of(&plan->update_peak));
    json_object_set_new(object, "by_phase_mb", phases);
    return object;
}

json_t *compare_plan(const Comparison *c, const PlanOptions *options, const char *const *command, Error *error) {
    json_t *by_value = json_array(), *values = json_array(), *words = json_array();
    Plan plan = {0};
    bool good = true;
    for (int v = 0; good && v < c->value_count; v++) {
        good = plan_make(&plan, compare_arms_at(c, v, 0)->settings, options, error);
        if (good) json_array_append_new(by_value, memory_of(&plan));
        json_array_append_new(values, json_string(c->values[v]));
    }
    for (; *command; command++) json_array_append_new(words, json_string(*command));
    json_t *summary = json_pack("{s:s, s:o, s:s, s:o, s:{s:i, s:I, s:I, s:I, s:I}, s:[{s:i, s:o}]}", "key", c->key,
                                "values", values, "baseline", c->values[0], "command", words, "planned", "ranks",
                                plan.ranks, "samples", (json_int_t)plan.samples, "prompt_tokens",
                                (json_int_t)plan.prompt_tokens, "answer_tokens", (json_int_t)plan.answer_tokens,
                                "parameters", (json_int_t)plan.parameters, "memory", "rank", 0, "by_value", by_value);
    if (good) return summary;
    json_decref(summary);
    return NULL;
}
