#include "model/overflow.h"

#include "ops/rows.h"

#include <stdio.h>

static const float FLOAT16_LIMIT = 65520; // from here on numbers round to infinity

bool overflow_possible(PrecisionPolicy policy) {
    return policy.compute == DTYPE_F16 || policy.output == DTYPE_F16;
}

void overflow_note(Overflow *overflow, Ops *ops, const RowShare *rows, int64_t count, int unit, bool backward,
                   const Tensor *before) {
    if (rows) count = row_share_total(rows, count);
    if (count && !overflow->count) {
        overflow->unit = unit;
        overflow->backward = backward;
        overflow->unit_count = count;
        overflow->largest = rows_largest(ops, before);
        if (rows) overflow->largest = row_share_largest(rows, overflow->largest);
    }
    overflow->count += count;
}

void overflow_add(Overflow *sum, const Overflow *part) {
    int64_t before = sum->count;
    if (!before) *sum = *part;
    sum->count = before + part->count;
}

void overflow_text(char text[192], const Overflow *overflow, int64_t layer_count) {
    char unit[32] = "the final norm";
    if (overflow->unit < layer_count) snprintf(unit, sizeof unit, "block %d", overflow->unit);
    int length =
        snprintf(text, 192, "%lld values left float16's range, first in the %s of %s: %lld", (long long)overflow->count,
                 overflow->backward ? "gradient" : "output", unit, (long long)overflow->unit_count);
    if (overflow->largest >= FLOAT16_LIMIT)
        snprintf(text + length, (size_t)(192 - length), ", the largest %g before rounding", (double)overflow->largest);
}
