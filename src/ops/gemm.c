#include "ops/gemm.h"

#include "ops/kernels.h"

// A round computes up to A_FLOATS / k rows by B_FLOATS / k columns of C over up to K_BLOCK of k: it packs its lines of A
// and B into the scratch (first tasks), then multiplies (second tasks). Chains that go on into the next block of k wait in
// fp32: in C itself, or, when C is narrower, in the scratch's third part.
enum {
    A_FLOATS = 3 << 18,
    B_FLOATS = 1 << 20,
    PARTIAL_FLOATS = 1 << 20,
    SCRATCH_FLOATS = A_FLOATS + B_FLOATS + PARTIAL_FLOATS,
    CACHE_FLOATS = 1 << 16, // what a task keeps of A or B in its core's cache
    K_TASK = 16,            // rows of lines that lie side by side: of one packing task
    TASKS_A_THREAD = 6
};

Tensor gemm_scratch(Device *device) {
    return DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, DTYPE_F32, SCRATCH_FLOATS);
}

typedef struct Round {
    const Gemm *gemm;
    const Kernels *kernels;
    GemmPack a, b;
    int64_t a_tasks, b_tasks, a_task_pieces;          // packing
    int64_t panels, panel_step, tile_step, row_steps; // multiplying: a task is a rectangle of panels and tiles
    GemmBlock block;
} Round;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t steps(int64_t count, int64_t step) {
    return (count + step - 1) / step;
}

// Lines side by side are packed by rows of k, others by pieces.
static int64_t pack_tasks(const GemmPack *pack, int64_t task_pieces) {
    return pack->lines->order == GEMM_K_OUTER ? steps(pack->k, K_TASK) : steps(pack->pieces, task_pieces);
}

static void pack_part(const Kernels *kernels, GemmPack pack, int64_t task_pieces, int64_t index) {
    if (pack.lines->order == GEMM_K_OUTER) {
        pack.k_from = index * K_TASK;
        pack.k_to = least(pack.k_from + K_TASK, pack.k);
        pack.piece_first = 0;
        pack.piece_last = pack.pieces;
    } else {
        pack.k_from = 0;
        pack.k_to = pack.k;
        pack.piece_first = index * task_pieces;
        pack.piece_last = least(pack.piece_first + task_pieces, pack.pieces);
    }
    kernels->gemm_pack(&pack);
}

static void pack_task(void *context, int64_t index, int worker) {
    (void)worker;
    const Round *round = context;
    if (index < round->a_tasks)
        pack_part(round->kernels, round->a, round->a_task_pieces, index);
    else
        pack_part(round->kernels, round->b, 1, index - round->a_tasks);
}

static void multiply_task(void *context, int64_t index, int worker) {
    (void)worker;
    const Round *round = context;
    GemmBlock block = round->block;
    int64_t across = index / round->row_steps, down = index % round->row_steps;
    block.panel_first = across * round->panel_step;
    block.panel_last = least(block.panel_first + round->panel_step, round->panels);
    block.tile_first = down * round->tile_step;
    block.tile_last = least(block.tile_first + round->tile_step, block.tiles);
    round->kernels->gemm_block(&block);
}

// Cuts the round into rectangles that are small enough for the caches, and to keep all threads busy to the end.
static void cut_tasks(Round *round, int threads) {
    GemmBlock *block = &round->block;
    int64_t wanted = threads > 1 ? (int64_t)threads * TASKS_A_THREAD : 1, depth = block->k ? block->k : 1;
    round->panels = steps(block->columns, block->panel);
    round->panel_step = least(CACHE_FLOATS / (block->panel * depth) + 1, round->panels);
    while (round->panel_step > 1 && steps(round->panels, round->panel_step) * block->tiles < wanted)
        round->panel_step = (round->panel_step + 1) / 2;
    int64_t across = steps(round->panels, round->panel_step);
    int64_t down = steps(wanted, across), cached = steps(block->rows * depth, CACHE_FLOATS);
    round->tile_step = steps(block->tiles, down > cached ? down : cached);
    round->row_steps = steps(block->tiles, round->tile_step);
}

static void run_round(Ops *ops, Round *round, bool pack_a, bool pack_b) {
    int threads = team_size(ops->team);
    round->a_task_pieces = steps(round->a.pieces, (int64_t)threads * TASKS_A_THREAD);
    round->a_tasks = pack_a ? pack_tasks(&round->a, round->a_task_pieces) : 0;
    round->b_tasks = pack_b ? pack_tasks(&round->b, 1) : 0;
    cut_tasks(round, threads);
    team_run(ops->team, round->a_tasks + round->b_tasks, pack_task, round);
    team_run(ops->team, steps(round->panels, round->panel_step) * round->row_steps, multiply_task, round);
}

static const void *element(const void *data, DType dtype, int64_t i) {
    return data ? (const char *)data + (size_t)i * dtype_size(dtype) : NULL;
}

void gemm_run(Ops *ops, const Gemm *gemm) {
    CHECK(!gemm->accumulate || gemm->dtype == DTYPE_F32, "sums go on in %s", dtype_name(gemm->dtype));
    ops->flops += 2 * (uint64_t)gemm->m * (uint64_t)gemm->n * (uint64_t)gemm->k;
    if (!ops_runs(ops) || !gemm->m || !gemm->n) return;
    float *scratch = ops->packs.data, *partial = scratch + A_FLOATS + B_FLOATS;
    GemmSizes sizes = ops->kernels->gemm_sizes();
    bool few = gemm->m <= sizes.tile_rows; // one tile high: panels are read once, so packing them again would not pay
    bool direct = gemm->b.order == GEMM_PANELS && (few || (gemm->b.dtype == DTYPE_F32 && sizes.panel == GEMM_PANEL));
    bool narrow = gemm->dtype != DTYPE_F32;

    int64_t k_most = few && direct ? A_FLOATS / gemm->m : sizes.k_block;
    int64_t k_blocks = steps(gemm->k, k_most);
    if (!k_blocks) k_blocks = 1;
    int64_t k_step = steps(gemm->k, k_blocks), k_cost = k_step ? k_step : 1;
    int64_t m_step = least(gemm->m, A_FLOATS / k_cost);
    int64_t n_step = steps(gemm->n, GEMM_PANEL) * GEMM_PANEL;
    if (!direct) n_step = least(n_step, B_FLOATS / k_cost / GEMM_PANEL * GEMM_PANEL);
    if (narrow && k_blocks > 1) n_step = least(n_step, PARTIAL_FLOATS / m_step / GEMM_PANEL * GEMM_PANEL);

    Round round = {.gemm = gemm, .kernels = ops->kernels};
    bool a_once = k_blocks == 1 && m_step == gemm->m; // A's lines stay packed for all columns
    for (int64_t column = 0; column < gemm->n; column += n_step) {
        for (int64_t row = 0; row < gemm->m; row += m_step) {
            for (int64_t k_block = 0; k_block < k_blocks; k_block++) {
                bool first = k_block == 0, last = k_block == k_blocks - 1;
                int64_t k_first = k_block * k_step, rows = least(m_step, gemm->m - row);
                int64_t depth = least(k_step, gemm->k - k_first), columns = least(n_step, gemm->n - column);
                int64_t tiles = gemm_tiles(rows, sizes.tile_rows), panels = steps(columns, sizes.panel);
                round.a = (GemmPack){&gemm->a, row, rows, tiles, 0, k_first, depth, scratch, DTYPE_F32, 0, 0, 0, 0};
                round.b = (GemmPack){&gemm->b,           column,    columns, panels, sizes.panel, k_first, depth,
                                     scratch + A_FLOATS, DTYPE_F32, 0,       0,      0,           0};
                GemmBlock *block = &round.block;
                *block = (GemmBlock){.rows = rows,
                                     .tiles = tiles,
                                     .columns = columns,
                                     .k = depth,
                                     .a = scratch,
                                     .b = scratch + A_FLOATS,
                                     .b_dtype = DTYPE_F32,
                                     .b_stride = depth * sizes.panel,
                                     .panel = sizes.panel,
                                     .bias_dtype = gemm->bias_dtype,
                                     .dtype = gemm->dtype,
                                     .c_stride = gemm->n};
                if (direct) {
                    int64_t line = column / GEMM_PANEL * gemm->b.stride + k_first;
                    block->b = element(gemm->b.data, gemm->b.dtype, line * GEMM_PANEL);
                    block->b_dtype = gemm->b.dtype;
                    block->b_stride = gemm->b.stride * GEMM_PANEL;
                    block->panel = GEMM_PANEL;
                }
                void *c = (void *)element(gemm->c, gemm->dtype, row * gemm->n + column);
                block->to = narrow ? partial : c;
                block->partial_stride = narrow ? n_step : gemm->n;
                block->from = first && !gemm->accumulate ? NULL : block->to;
                if (last && (narrow || gemm->bias)) block->c = c;
                block->bias = element(gemm->bias, gemm->bias_dtype, column);
                run_round(ops, &round, !a_once || column == 0, !direct);
            }
        }
    }
}
