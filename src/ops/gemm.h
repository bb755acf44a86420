// The matrix product behind linear.h: C_MN = A_MK · B_KN, every element one chain over k (ops.h), cut into blocks for
// caches and threads. gemm.c cuts, gemm.inc packs and multiplies.
#pragma once
#include "ops/ops.h"

enum {
    GEMM_STRIP = 16,               // lines whose fp32 numbers fill one cache line at each k
    GEMM_PANEL = 32,               // lines that linear_pack lays side by side: two strips
    GEMM_TILE_ROWS = 14,           // most rows of a tile
    GEMM_HELD_TILES = 2,           // most tiles that are packed together
    GEMM_MAX_RUNS = 48,            // of k, in one product
    GEMM_STREAM_FLOATS = 16 * 640, // of a tile of A that meets panels in memory
    GEMM_K_BLOCK = 320,            // most k of a step of all other tiles, a multiple of 16
    GEMM_K_BLOCK_AHEAD = 576, // the same where they need no packing, or get it before or while others are multiplied
    GEMM_TILE_FLOATS = GEMM_TILE_ROWS * GEMM_K_BLOCK_AHEAD + GEMM_STRIP, // room for a tile of A
    GEMM_GROUP_FLOATS = 4 << 16 // of B that a task packs for itself: a group of panels, in the second cache
};

typedef enum GemmOrder {
    GEMM_K_INNER, // element (line, k) is data[line·stride + k]
    GEMM_K_OUTER, // element (line, k) is data[k·stride + line]
    GEMM_PANELS   // element (line, k) is data[gemm_panels_at(line, k, stride, dtype)]: linear_pack's order, stride = K
} GemmOrder;

// Where element (line, k) lies in linear_pack's order, in elements. Each step of k is one cache line: 16 lines of fp32, or
// 32 of 16 bits, of which bf16 ones are paired (line i with i + 16) so that a shift and a mask widen them.
static inline int64_t gemm_panels_at(int64_t line, int64_t k, int64_t stride, DType dtype) {
    int64_t panel = line / GEMM_PANEL * stride * GEMM_PANEL, in = line % GEMM_PANEL;
    int64_t strip = in / GEMM_STRIP, lane = in % GEMM_STRIP;
    if (dtype == DTYPE_F32) return panel + (strip * stride + k) * GEMM_STRIP + lane;
    return panel + k * GEMM_PANEL + (dtype == DTYPE_BF16 ? lane * 2 + strip : in);
}

// One operand as stored: the rows of A or the columns of B are its "lines". F32, BF16 or F16.
typedef struct GemmLines {
    const void *data;
    DType dtype;
    GemmOrder order;
    int64_t stride; // elements (GEMM_PANELS: k-lines)
} GemmLines;

// Where element (line, k) lies, in elements, of lines that are not in panels.
static inline int64_t gemm_element(const GemmLines *lines, int64_t line, int64_t k) {
    return lines->order == GEMM_K_OUTER ? k * lines->stride + line : line * lines->stride + k;
}

// A run of consecutive k. Chains start at some runs and end at some; a chain that has ended is added to those that wait.
typedef struct GemmRun {
    int64_t first, count;
    bool starts, ends;
    int folds; // when it ends: how many sums that wait, the youngest first, are added to it; then it waits itself
    int slot;  // how many wait while it runs
} GemmRun;

typedef struct Gemm {
    int64_t m, n, k;
    const GemmRun
        *runs;      // instead of one chain over k; after the last run nothing waits but the result. NULL: one chain
    int run_count;  // at most GEMM_MAX_RUNS
    GemmLines a, b; // a is not GEMM_PANELS; with b in them it is GEMM_K_INNER
    void *c;        // [m, n], rows n apart
    DType dtype;    // of c
    float *chain; // [m, n] chains go on from these numbers, which are lost, unless it is c; NULL: from 0. Without runs
    bool adds;    // finished chains are added to what c (F32) holds. Without runs and bias
    const void *bias; // [n] or NULL: added to the finished chain
    DType bias_dtype;
} Gemm;

void gemm_run(Ops *ops, const Gemm *gemm);

// Two products, neither of which reads what the other writes: as one job where they fit, so that threads wait for each other
// once only.
void gemm_run_both(Ops *ops, const Gemm *first, const Gemm *second);
Tensor gemm_scratch(Device *device); // memory of chains that wait and of packed rows, for ops_open

// `count` lines of k numbers into linear_pack's order, those missing from the last panel as 0, in the lines' own dtype.
void gemm_pack(Ops *ops, void *panels, const GemmLines *lines, int64_t count, int64_t k);

// What suits an instruction set.
typedef struct GemmSizes {
    int64_t tile_rows;    // most rows of a tile
    int64_t direct_rows;  // most rows of a tile that widens 16-bit panels as it goes
    int64_t panel;        // columns of a tile: 16 or 32
    bool halves_in_tiles; // tiles of few rows multiply 16-bit panels where they lie, as if these were fp32
} GemmSizes;

// Where the part of so many parts begins that `count` things are cut into, as even as possible.
static inline int64_t gemm_part(int64_t count, int64_t parts, int64_t part) {
    int64_t size = count / parts, larger = count % parts;
    return part * size + (part < larger ? part : larger);
}

// Strips of lines, in the order that linear_pack gives a weight with this k; fp32 strips may be odd in number.
typedef struct GemmPackStrips {
    const GemmLines *lines;
    int64_t first, count, strips; // lines that exist; the others of the strips are 0
    int64_t k_first, k;
    void *out;
    DType dtype; // of out: F32 or that of the lines
} GemmPackStrips;

// A tile of A, packed: element (row, k) goes to k·rows + row, so that what a step of k multiplies by is one cache line or two.
// Fewer than GEMM_STRIP floats are written behind it.
typedef struct GemmPackTile {
    const GemmLines *lines;
    int64_t first, rows; // lines
    int64_t k_first, k;
} GemmPackTile;

// What one task computes: a rectangle of tiles of C.
typedef struct GemmBlock {
    const GemmLines *a, *b;
    const float *packed; // NULL: the task packs its own. Tiles of A with all k: row r's begins at r · packed_row
    int64_t packed_row;
    bool lies; // A is fp32 and multiplied where it lies, else packed
    const GemmRun *runs;
    int run_count;
    int64_t k_step;                 // most of a step of k, a multiple of 16
    int64_t row_first, rows, tiles; // of C in this round; tile t starts at row gemm_part(rows, tiles, t) of them
    int64_t tile_first, tile_last;  // of the task
    int64_t first, columns;         // of C in this round
    int64_t panel, panel_first, panel_last;
    int64_t next_panel, next_last; // what this thread is likely to multiply next
    bool direct;                   // B is multiplied where it lies (GEMM_PANELS), else the task packs it
    bool once;    // panel after panel, each by all tiles, whose rows are `packed`: panels come from memory once
    bool rereads; // as Ops says
    bool goes_on; // chains go on from `to`, else from 0
    float *to;    // where chains wait for the next step of k, and stay when c is NULL
    int64_t to_stride,
        to_slot; // floats from one row to the next; from the sums that wait in one slot to the next slot's
    void *c;     // where finished chains go
    DType dtype;
    bool adds; // to what is there
    int64_t c_stride;
    const void *bias; // of the round's first column
    DType bias_dtype;
} GemmBlock;

// The first row of a tile in its round.
static inline int64_t gemm_tile_row(const GemmBlock *block, int64_t tile) {
    return gemm_part(block->rows, block->tiles, tile);
}

// A tile, to be packed from this k on.
static inline GemmPackTile gemm_tile_of(const GemmBlock *block, int64_t tile, int64_t k_first, int64_t k) {
    int64_t row = gemm_tile_row(block, tile);
    return (GemmPackTile){block->a, block->row_first + row, gemm_tile_row(block, tile + 1) - row, k_first, k};
}
