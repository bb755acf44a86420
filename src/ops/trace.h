// What operations wrote, as digests in their order: for the question where two runs part (run/first_difference.h).
#pragma once
#include "base/strbuf.h"
#include "device/device.h"

// One tensor, just written.
typedef struct TraceRecord {
    const char *operation; // "rms_norm_forward"
    int64_t step;
    MemoryPhase phase;
    int unit; // of the model: 0… its blocks, then the root
    DType dtype;
    int64_t rows, columns; // columns: all sizes but the first
    uint64_t digest;       // XXH3 of its bytes
} TraceRecord;

// Zero-initialise, wanted -1 or the number of a record whose values are kept.
typedef struct Trace {
    int64_t step; // of the run, set by its loop
    int64_t count, wanted;
    StrBuf records; // TraceRecord[count]
    StrBuf values;  // of the wanted one, in its dtype
} Trace;

void trace_note(Trace *trace, const char *operation, MemoryPhase phase, int unit, const Tensor *out);
const TraceRecord *trace_records(const Trace *trace);
void trace_close(Trace *trace);
