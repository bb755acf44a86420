// The matrix product behind linear.h: C_MN = A_MK · B_KN, every element one chain over k (ops.h), cut into blocks for
// caches and threads. gemm.c cuts, gemm.inc packs and multiplies.
#pragma once
#include "ops/ops.h"

enum { GEMM_PANEL = 32 }; // lines that linear_pack lays side by side

typedef enum GemmOrder {
    GEMM_K_INNER, // element (line, k) is data[line·stride + k]
    GEMM_K_OUTER, // element (line, k) is data[k·stride + line]
    GEMM_PANELS   // element (line, k) is data[(line/32·stride + k)·32 + line%32]: linear_pack's order, stride = K
} GemmOrder;

// Where element (line, k) lies in linear_pack's order, in elements.
static inline int64_t gemm_panels_at(int64_t line, int64_t k, int64_t stride) {
    return (line / GEMM_PANEL * stride + k) * GEMM_PANEL + line % GEMM_PANEL;
}

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

// What suits an instruction set.
typedef struct GemmSizes {
    int64_t tile_rows; // most rows of a tile
    int64_t panel;     // columns of a panel in the scratch: 16 or 32
    int64_t k_block;   // most k of a round
} GemmSizes;

// How m rows are cut into tiles: as few as tiles of at most `most` rows allow, as even as possible.
static inline int64_t gemm_tiles(int64_t m, int64_t most) {
    return (m + most - 1) / most;
}
static inline int64_t gemm_tile_start(int64_t m, int64_t tiles, int64_t tile) {
    int64_t rows = m / tiles, larger = m % tiles;
    return tile * rows + (tile < larger ? tile : larger);
}

// Lines that are packed piece by piece: the piece that starts at line s lies at out + s·k, as [k][its lines].
typedef struct GemmPack {
    const GemmLines *lines;
    int64_t first, count; // lines
    int64_t pieces,
        width; // width 0: tiles (gemm_tile_start); else panels of so many lines, the last filled up with zeros
    int64_t k_first, k;
    void *out;
    DType dtype;                     // of out
    int64_t piece_first, piece_last; // what one call packs
    int64_t k_from, k_to;            // within 0..k
} GemmPack;

// What one call of the inner loops computes: a rectangle of tiles of C, over one block of k.
typedef struct GemmBlock {
    int64_t rows, tiles; // of C in this round
    int64_t tile_first, tile_last;
    int64_t columns; // of C in this round
    int64_t panel_first, panel_last;
    int64_t k;
    const float *a; // packed tiles
    const void *b;  // panel p, as [k][panel], is at element p·b_stride
    DType b_dtype;
    int64_t b_stride, panel;
    const float *from;      // chains go on from here, or NULL: from 0
    float *to;              // where chains that are not finished go; may be from
    int64_t partial_stride; // of from and to
    void *c;                // where finished chains go, or NULL: to `to`
    DType dtype;
    int64_t c_stride;
    const void *bias; // of the round's first column
    DType bias_dtype;
} GemmBlock;
