// Values that left float16's range where a unit hands on its output or its gradient: counted, and the first unit remembered with
// what it lost.
#pragma once
#include "model/precision.h"
#include "model/row_share.h"

typedef struct Overflow {
    int64_t count;      // infinite or NaN, over all units and boundaries
    int unit;           // of the first that lost any: a block, or one behind the last for the final norm
    bool backward;      // its gradient, else its output
    int64_t unit_count; // there
    float largest;      // there, the largest finite magnitude before rounding, as far as it is known
} Overflow;

bool overflow_possible(PrecisionPolicy policy); // float16 takes part

// Adds `count` lost values of a unit; of the rows of all ranks where these divide them (NULL: they do not), which all make the
// call. The largest finite magnitude of what was rounded, before, is looked for when these are the first.
void overflow_note(Overflow *overflow, Ops *ops, const RowShare *rows, int64_t count, int unit, bool backward,
                   const Tensor *before);

void overflow_add(Overflow *sum, const Overflow *part); // part came later

// "12 values left float16's range, first in the output of block 5: 3, the largest 70000 before rounding"; without the last part
// when no number before the rounding was too large, because they were lost within the unit.
void overflow_text(char text[192], const Overflow *overflow, int64_t layer_count);
