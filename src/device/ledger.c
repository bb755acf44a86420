#include "device/ledger.h"

#include "base/error.h"

const char *ledger_tag_name(MemoryTag tag) {
    static const char *const names[MEMORY_TAG_COUNT] = {
        "weight_shard", "gathered_unit", "gradient_shard",  "optimizer", "activation",    "unit_output",
        "logits",       "kv_cache",      "rollout_weights", "reference", "communication", "scratch"};
    CHECK(tag < MEMORY_TAG_COUNT, "tag %d", (int)tag);
    return names[tag];
}

const char *ledger_phase_name(MemoryPhase phase) {
    static const char *const names[PHASE_COUNT] = {"load",      "rollout", "logprob",  "forward",   "backward",
                                                   "optimizer", "refit",   "validate", "checkpoint"};
    CHECK(phase < PHASE_COUNT, "phase %d", (int)phase);
    return names[phase];
}

static void note_peak(const Ledger *ledger, LedgerPeak *peak) {
    if (ledger->live_total <= peak->total) return;
    peak->total = ledger->live_total;
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++) peak->by_tag[tag] = ledger->live[tag];
}

static void record(Ledger *ledger, MemoryTag tag, int64_t bytes) {
    if (!ledger->record) return;
    if (ledger->event_count == ledger->event_capacity) {
        ledger->event_capacity = ledger->event_capacity ? 2 * ledger->event_capacity : 1024;
        ledger->events = realloc(ledger->events, ledger->event_capacity * sizeof *ledger->events);
        OBTAINED(ledger->events, "host memory for %zu events", ledger->event_capacity);
    }
    ledger->events[ledger->event_count++] = (LedgerEvent){ledger->phase, tag, bytes};
}

MemoryPhase ledger_enter(Ledger *ledger, MemoryPhase phase) {
    MemoryPhase before = ledger->phase;
    ledger->phase = phase;
    note_peak(ledger, &ledger->phase_peak[phase]);
    return before;
}

void ledger_take(Ledger *ledger, MemoryTag tag, size_t bytes) {
    ledger->live[tag] += bytes;
    ledger->live_total += bytes;
    if (ledger->live[tag] > ledger->tag_peak[tag]) ledger->tag_peak[tag] = ledger->live[tag];
    note_peak(ledger, &ledger->peak);
    note_peak(ledger, &ledger->phase_peak[ledger->phase]);
    record(ledger, tag, (int64_t)bytes);
}

void ledger_give(Ledger *ledger, MemoryTag tag, size_t bytes) {
    CHECK(ledger->live[tag] >= bytes, "%s: %zu bytes given back, %llu alive", ledger_tag_name(tag), bytes,
          (unsigned long long)ledger->live[tag]);
    ledger->live[tag] -= bytes;
    ledger->live_total -= bytes;
    record(ledger, tag, -(int64_t)bytes);
}

void ledger_reset_peaks(Ledger *ledger) {
    ledger->peak = (LedgerPeak){0};
    for (int phase = 0; phase < PHASE_COUNT; phase++) ledger->phase_peak[phase] = (LedgerPeak){0};
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++) ledger->tag_peak[tag] = ledger->live[tag];
    note_peak(ledger, &ledger->peak);
    note_peak(ledger, &ledger->phase_peak[ledger->phase]);
}

void ledger_close(Ledger *ledger) {
    free(ledger->events);
    *ledger = (Ledger){0};
}
