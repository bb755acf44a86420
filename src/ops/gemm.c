#include "ops/gemm.h"

#include "ops/kernels.h"

// A round computes up to m_step rows of C by up to n_step columns over up to k_step of k: it packs its rows of A into the
// scratch, then multiplies; the tasks of the second part pack what they need of B for themselves. Chains that go on into the
// next block of k wait in fp32: in C itself, or, when C is narrower, in the second part of the scratch.
enum {
    A_FLOATS = 3 << 18,
    PARTIAL_FLOATS = 1 << 20,
    PACK_FLOATS = 1 << 14, // of one packing task
    PANEL_TILES = 8,       // a panel is packed for at least so many tiles
    TASKS_A_THREAD = 6
};

Tensor gemm_scratch(Device *device) {
    return DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, DTYPE_F32, A_FLOATS + PARTIAL_FLOATS);
}

typedef struct Round {
    const Kernels *kernels;
    GemmPackTiles pack;
    int64_t pack_step;                                // tiles of one packing task
    int64_t panels, panel_step, tile_step, row_steps; // multiplying: a task is a rectangle of panels and tiles
    int64_t next_step;                                // panels from a thread's task to its next one
    GemmBlock block;
} Round;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t steps(int64_t count, int64_t step) {
    return (count + step - 1) / step;
}

// Each task reads A as one stream: rows, or steps of k where those lie side by side.
static void pack_task(void *context, int64_t index, int worker) {
    (void)worker;
    const Round *round = context;
    GemmPackTiles pack = round->pack;
    if (pack.lines->order == GEMM_K_INNER) {
        pack.tile_first = index * round->pack_step;
        pack.tile_last = least(pack.tile_first + round->pack_step, pack.tiles);
        pack.k_to = pack.k;
    } else {
        pack.k_from = index * round->pack_step;
        pack.k_to = least(pack.k_from + round->pack_step, pack.k);
        pack.tile_last = pack.tiles;
    }
    round->kernels->gemm_pack_tiles(&pack);
}

static void multiply_task(void *context, int64_t index, int worker) {
    (void)worker;
    const Round *round = context;
    GemmBlock block = round->block;
    int64_t across = index / round->row_steps, down = index % round->row_steps;
    block.panel_first = across * round->panel_step;
    block.panel_last = least(block.panel_first + round->panel_step, round->panels);
    block.next_panel = block.panel_first + round->next_step;
    block.tile_first = down * round->tile_step;
    block.tile_last = least(block.tile_first + round->tile_step, block.tiles);
    round->kernels->gemm_block(&block);
}

// Whether so many equal tasks keep all threads busy to the end, more or less.
static bool even(int64_t tasks, int threads) {
    return steps(tasks, threads) * threads * 32 <= tasks * 33;
}

// Cuts the round into rectangles: groups of as many panels as fit, unless fewer spread more evenly over the threads; all
// rows to a group, unless more tasks do.
static void cut_tasks(Round *round, int threads) {
    GemmBlock *block = &round->block;
    int64_t fitting = block->k ? GEMM_GROUP_FLOATS / (block->panel * block->k) : 1;
    block->group = 1;
    for (int64_t group = 2; group <= least(fitting, round->panels); group++)
        if (steps(round->panels, group * threads) * group * threads * 32 <= round->panels * 33) block->group = group;
    int64_t stream = round->panels / (threads * TASKS_A_THREAD); // for one row of tiles: panels side by side
    round->panel_step = block->tiles == 1 && stream > block->group ? stream : block->group;
    int64_t across = steps(round->panels, round->panel_step), down = 1;
    int64_t most = block->direct ? block->tiles : steps(block->tiles, PANEL_TILES);
    while (down < least(most, threads) && !even(across * down, threads)) down++;
    round->tile_step = steps(block->tiles, down);
    round->row_steps = steps(block->tiles, round->tile_step);
    round->next_step = steps(threads, round->row_steps) * round->panel_step;
}

static void run_round(Ops *ops, Round *round) {
    GemmPackTiles *pack = &round->pack;
    bool by_rows = pack->lines->order == GEMM_K_INNER;
    int64_t parts = steps(pack->rows * pack->k, PACK_FLOATS), count = by_rows ? pack->tiles : pack->k;
    round->pack_step = parts ? steps(count, parts) : count;
    if (!by_rows) round->pack_step = gemm_depth(round->pack_step);
    cut_tasks(round, team_size(ops->team));
    team_run(ops->team, round->pack_step ? steps(count, round->pack_step) : 0, pack_task, round);
    team_run(ops->team, steps(round->panels, round->panel_step) * round->row_steps, multiply_task, round);
}

static const void *element(const void *data, DType dtype, int64_t i) {
    return data ? (const char *)data + (size_t)i * dtype_size(dtype) : NULL;
}

void gemm_run(Ops *ops, const Gemm *gemm) {
    CHECK(!gemm->accumulate || gemm->dtype == DTYPE_F32, "sums go on in %s", dtype_name(gemm->dtype));
    ops->flops += 2 * (uint64_t)gemm->m * (uint64_t)gemm->n * (uint64_t)gemm->k;
    if (!ops_runs(ops) || !gemm->m || !gemm->n) return;
    float *scratch = ops->packs.data, *partial = scratch + A_FLOATS;
    GemmSizes sizes = ops->kernels->gemm_sizes();
    bool one_tile = gemm->m <= sizes.tile_rows, narrow = gemm->dtype != DTYPE_F32;
    bool direct = gemm->b.order == GEMM_PANELS && (gemm->b.dtype == DTYPE_F32 || gemm->m <= sizes.direct_rows);

    int64_t panel = direct && gemm->b.dtype != DTYPE_F32 ? GEMM_PANEL : sizes.panel;
    int64_t k_most = one_tile && direct ? A_FLOATS / gemm->m / 16 * 16 : sizes.k_block;
    int64_t k_blocks = gemm->k ? steps(gemm->k, k_most) : 1, k_step = gemm_depth(steps(gemm->k, k_blocks));
    int64_t m_blocks = k_step ? steps(gemm->m, least(ops->cached_floats, A_FLOATS) / k_step) : 1;
    int64_t m_step = steps(gemm->m, m_blocks), n_step = steps(gemm->n, GEMM_PANEL) * GEMM_PANEL;
    if (narrow && k_blocks > 1) n_step = least(n_step, PARTIAL_FLOATS / m_step / GEMM_PANEL * GEMM_PANEL);

    for (int64_t column = 0; column < gemm->n; column += n_step) {
        for (int64_t row = 0; row < gemm->m; row += m_step) {
            for (int64_t k_block = 0; k_block < k_blocks; k_block++) {
                bool first = k_block == 0, last = k_block == k_blocks - 1;
                int64_t k_first = k_block * k_step, k = least(k_step, gemm->k - k_first);
                int64_t rows = least(m_step, gemm->m - row), columns = least(n_step, gemm->n - column);
                void *c = (void *)element(gemm->c, gemm->dtype, row * gemm->n + column);
                Round round = {.kernels = ops->kernels,
                               .pack = {.lines = &gemm->a,
                                        .first = row,
                                        .rows = rows,
                                        .tiles = gemm_tiles(rows, sizes.tile_rows),
                                        .k_first = k_first,
                                        .k = k,
                                        .out = scratch},
                               .panels = steps(columns, panel),
                               .block = {.rows = rows,
                                         .tiles = gemm_tiles(rows, sizes.tile_rows),
                                         .first = column,
                                         .columns = columns,
                                         .panel = panel,
                                         .k_first = k_first,
                                         .k = k,
                                         .a = scratch,
                                         .b = &gemm->b,
                                         .direct = direct,
                                         .bias = element(gemm->bias, gemm->bias_dtype, column),
                                         .bias_dtype = gemm->bias_dtype,
                                         .dtype = gemm->dtype,
                                         .c_stride = gemm->n}};
                GemmBlock *block = &round.block;
                block->to = narrow ? partial : c;
                block->partial_stride = narrow ? n_step : gemm->n;
                block->from = first && !gemm->accumulate ? NULL : block->to;
                if (last && (narrow || gemm->bias)) block->c = c;
                run_round(ops, &round);
            }
        }
    }
}
