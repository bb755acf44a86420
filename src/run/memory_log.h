// memory.json of a run: an array of one object for each step and rank, a line each. Bytes, but for peak_memory_allocated_mb and
// process_peak_mb (MiB; the latter is the operating system's, since the start of the process):
//
//   {"step", "rank", "peak_memory_allocated_mb", "process_peak_mb",
//    "at_peak": {tag: bytes}, "peak_by_tag": {tag: bytes}, "peak_by_phase": {phase: {"total": bytes, tag: bytes}}}
//
// at_peak and peak_by_phase say what was alive together; tags and phases without a byte are left out.
#pragma once
#include "base/error.h"
#include "device/ledger.h"

#include <jansson.h>

// What a rank has seen since the step began.
typedef struct MemorySeen {
    LedgerPeak peak, phase_peak[PHASE_COUNT];
    uint64_t tag_peak[MEMORY_TAG_COUNT];
    uint64_t process_peak; // bytes
} MemorySeen;
MemorySeen memory_log_seen(const Ledger *ledger);

json_t *memory_log_by_tag(const uint64_t bytes[MEMORY_TAG_COUNT]); // {tag: bytes} of all that are not 0. New reference

// Appends what each of the ranks has seen, seen[ranks]; the file is valid JSON between any two calls.
bool memory_log_write(const MemorySeen *seen, int ranks, int64_t step, const char *log_dir, Error *error);

// Drops the entries of later steps, and a damaged one, for a run that goes on behind `step` (0: begins).
bool memory_log_resume(const char *log_dir, int64_t step, Error *error);
