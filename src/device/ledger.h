// The account of device memory: every byte has a tag (what it is) and falls into a phase (when). docs/memory.md.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum MemoryTag {
    MEMORY_WEIGHT_SHARD,    // fp32 master weights that this rank owns
    MEMORY_GATHERED_UNIT,   // one FSDP unit's weights in the compute dtype
    MEMORY_GRADIENT_SHARD,  // fp32 gradients of the owned weights
    MEMORY_OPTIMIZER,       // AdamW moments
    MEMORY_ACTIVATION,      // what backward reads, and temporaries of the training walk
    MEMORY_UNIT_OUTPUT,     // what a unit hands on, in fsdp_output_dtype, and its gradient
    MEMORY_LOGITS,          // one chunk of logits
    MEMORY_KV_CACHE,        // pages of keys and values of the rollout engine
    MEMORY_ROLLOUT_WEIGHTS, // resident weights in the compute dtype
    MEMORY_REFERENCE,       // resident weights of the reference policy
    MEMORY_COMMUNICATION,
    MEMORY_SCRATCH, // temporaries of the resident walk and of kernels
    MEMORY_TAG_COUNT
} MemoryTag;

typedef enum MemoryPhase {
    PHASE_LOAD,
    PHASE_ROLLOUT,
    PHASE_LOGPROB,
    PHASE_FORWARD,
    PHASE_BACKWARD,
    PHASE_OPTIMIZER,
    PHASE_REFIT,
    PHASE_VALIDATE,
    PHASE_CHECKPOINT,
    PHASE_COUNT
} MemoryPhase;

const char *ledger_tag_name(MemoryTag tag);       // "weight_shard"
const char *ledger_phase_name(MemoryPhase phase); // "rollout"

// What was alive at a peak.
typedef struct LedgerPeak {
    uint64_t total;
    uint64_t by_tag[MEMORY_TAG_COUNT];
} LedgerPeak;

// One allocation (bytes > 0) or release (bytes < 0).
typedef struct LedgerEvent {
    MemoryPhase phase;
    MemoryTag tag;
    int64_t bytes;
} LedgerEvent;

typedef struct Ledger {
    MemoryPhase phase;
    uint64_t live_total, live[MEMORY_TAG_COUNT];
    LedgerPeak peak, phase_peak[PHASE_COUNT]; // since the last ledger_reset_peaks
    uint64_t tag_peak[MEMORY_TAG_COUNT];      // highest of each tag, not necessarily at the same moment
    LedgerEvent *events;                      // recorded only when `record` is set; owned
    size_t event_count, event_capacity;
    bool record;
} Ledger;

// Not thread-safe: tensors are made and released by the main thread only.
MemoryPhase ledger_enter(Ledger *ledger, MemoryPhase phase); // returns the phase before, to go back to
void ledger_take(Ledger *ledger, MemoryTag tag, size_t bytes);
void ledger_give(Ledger *ledger, MemoryTag tag, size_t bytes);
void ledger_reset_peaks(Ledger *ledger); // peaks := what is alive now (at each update)
void ledger_close(Ledger *ledger);
