#include "ops/trace.h"

#include "base/digest.h"

void trace_note(Trace *trace, const char *operation, MemoryPhase phase, int unit, const Tensor *out) {
    int64_t rows = out->size[0], count = tensor_count(out);
    TraceRecord record = {.operation = operation,
                          .step = trace->step,
                          .phase = phase,
                          .unit = unit,
                          .dtype = out->dtype,
                          .rows = rows,
                          .columns = rows ? count / rows : 0,
                          .digest = digest_number(out->data, tensor_bytes(out))};
    strbuf_append(&trace->records, &record, sizeof record);
    if (trace->count == trace->wanted) strbuf_append(&trace->values, out->data, tensor_bytes(out));
    trace->count++;
}

const TraceRecord *trace_records(const Trace *trace) {
    return (const TraceRecord *)(const void *)trace->records.text;
}

void trace_close(Trace *trace) {
    strbuf_close(&trace->records);
    strbuf_close(&trace->values);
}
