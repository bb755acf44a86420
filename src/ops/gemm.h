// The matrix product behind linear.h: C_MN = A_MK · B_KN, every element one chain over k (ops.h), cut into blocks for
// caches and threads. gemm.c cuts, gemm.inc packs and multiplies.
#pragma once
#include "ops/ops.h"

enum { GEMM_PANEL = 32 }; // columns of C whose k-lines lie side by side in a packed block of B

typedef enum GemmOrder {
    GEMM_K_INNER, // element (line, k) is data[line·stride + k]
    GEMM_K_OUTER, // element (line, k) is data[k·stride + line]
    GEMM_PANELS   // element (line, k) is data[(line/32·stride + k)·32 + line%32]: linear_pack's order, stride = K
} GemmOrder;

// One operand as stored: the rows of A or the columns of B are its "lines". F32, BF16 or F16.
typedef struct GemmLines {
    const void *data;
    DType dtype;
    GemmOrder order;
    int64_t stride; // elements (GEMM_PANELS: k-lines)
} GemmLines;

typedef struct Gemm {
    int64_t m, n, k;
    GemmLines a, b;   // a is not GEMM_PANELS
    void *c;          // [m, n], rows n apart
    DType dtype;      // of c
    bool accumulate;  // chains go on from c (F32 only) instead of from 0
    const void *bias; // [n] or NULL: added to the finished chain
    DType bias_dtype;
} Gemm;

void gemm_run(Ops *ops, const Gemm *gemm);
Tensor gemm_scratch(Device *device); // memory of the packed blocks, for ops_open

// How m rows are cut into tiles: as few as tiles of at most `most` rows allow, as even as possible.
static inline int64_t gemm_tiles(int64_t m, int64_t most) {
    return (m + most - 1) / most;
}
static inline int64_t gemm_tile_start(int64_t m, int64_t tiles, int64_t tile) {
    int64_t rows = m / tiles, larger = m % tiles;
    return tile * rows + (tile < larger ? tile : larger);
}

// What one call of the inner loops computes: a rectangle of tiles of C, over one block of k.
typedef struct GemmBlock {
    int64_t rows, tiles;           // of C in this round, and their number of tiles
    int64_t tile_first, tile_last; // tiles of this call
    int64_t columns;               // of C in this round
    int64_t panel_first, panel_last;
    int64_t k;
    const float *a; // packed: the tile that starts at row r is at a + r·k, as [k][rows of the tile]
    const void *b;  // packed: [k][32] of panel p is at element p·b_stride
    DType b_dtype;
    int64_t b_stride;
    const float *from;      // chains go on from here, or NULL: from 0
    float *to;              // where chains that are not finished go; may be from
    int64_t partial_stride; // of from and to
    void *c;                // where finished chains go, or NULL
    DType dtype;
    int64_t c_stride;
    const void *bias; // of the round's first column
    DType bias_dtype;
} GemmBlock;
