#include "ops/gemm.h"

#include "base/int64.h"
#include "ops/kernels.h"

// C is computed in rectangles, each by one task, in rounds. A task packs the panels of B that it needs, group by group as many
// as its second cache holds, for one step of k after the other. The rows of A, which every group meets, are multiplied where
// they lie, if they are fp32 and lie well for the caches, and that pays: where they meet few columns, or are too long for what
// follows. Else they are packed once for all tasks, in the scratch, where they must be transposed and all fit; else tile by tile,
// while others are multiplied where their numbers of one k lie side by side. Chains wait for the next step in fp32: in C itself,
// or, when C is narrower or has numbers to which they are added, in the scratch.
enum {
    SCRATCH_FLOATS = 1 << 22,
    PACKED_FLOATS = SCRATCH_FLOATS / 2,
    ROUND_COLUMNS = 1024,
    STREAMS_A_THREAD = 4,
    FEW_ROWS = 112,
    FEW_PANELS = 32, // for which it does not pay to pack rows that may lie
    SHARE = 11,      // of the second cache's 32 parts, for the panels of a task: the next ones come beside them
    SHARE_OWN = 17,  // where a task packs its own tiles: once for more panels
    STREAM_NUMBERS = 1 << 19
};

Tensor gemm_scratch(Device *device) {
    return DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, DTYPE_F32, SCRATCH_FLOATS);
}

typedef struct Round {
    const Kernels *kernels;
    int64_t panels, groups, row_steps, threads; // a task is a group of panels by a step of tiles
    GemmBlock block;
} Round;

enum { MOST_TOGETHER = 2 };

// Rounds, each of its own product, whose tasks the threads take one after the other.
typedef struct Job {
    Round rounds[MOST_TOGETHER];
    int count;
} Job;

static int64_t round_tasks(const Round *round) {
    return round->groups * round->row_steps;
}

static int64_t steps(int64_t count, int64_t step) {
    return (count + step - 1) / step;
}

static void multiply_task(void *context, int64_t index, int worker) {
    (void)worker;
    const Job *job = context;
    const Round *round = job->rounds;
    for (; index >= round_tasks(round); round++) index -= round_tasks(round);
    GemmBlock block = round->block;
    int64_t across = index / round->row_steps, down = index % round->row_steps;
    int64_t next = (index + round->threads) / round->row_steps;
    block.panel_first = gemm_part(round->panels, round->groups, across);
    block.panel_last = gemm_part(round->panels, round->groups, across + 1);
    if (next < round->groups && next > across) {
        block.next_panel = gemm_part(round->panels, round->groups, next);
        block.next_last = gemm_part(round->panels, round->groups, next + 1);
    }
    block.tile_first = gemm_part(block.tiles, round->row_steps, down);
    block.tile_last = gemm_part(block.tiles, round->row_steps, down + 1);
    round->kernels->gemm_block(&block);
}

// Cuts the round into rectangles that keep all threads busy to the end. A tile of A is fetched or packed once for each group of
// panels, a panel of B, where it is not packed already, once for each step of rows, which costs about as many multiplications
// as these shares say. At the end the threads, which are never equally fast, wait for about an eighth of a task.
static void cut_tasks(Round *round, int64_t fitting) {
    GemmBlock *block = &round->block;
    int64_t threads = round->threads, fewest = steps(round->panels, fitting ? fitting : 1);
    round->row_steps = 1;
    if (block->tiles == 1 && block->direct) { // waits for memory: panels side by side are one stream
        int64_t enough = round->panels * block->panel * block->b->stride / threads / STREAM_NUMBERS;
        round->groups =
            int64_smaller(round->panels, threads * (enough < 1 ? 1 : int64_smaller(enough, STREAMS_A_THREAD)));
        return;
    }
    if (block->once) {
        round->groups = int64_smaller(round->panels, steps(fewest, threads) * threads);
        return;
    }
    double least_cost = 1e9;
    for (int64_t down = 1; down <= int64_smaller(block->tiles, 4 * threads); down++) {
        int64_t groups = fewest;
        while (groups < round->panels && groups * down % threads) groups++;
        double tile_cost = 0.3 / (double)round->panels, panel_cost = block->direct ? 0 : 2.0 / (double)block->tiles;
        double cost =
            (double)groups * tile_cost + (double)down * panel_cost + 0.12 * (double)threads / (double)(groups * down);
        cost += (double)(steps(groups * down, threads) * threads) / (double)(groups * down);
        if (cost >= least_cost) continue;
        least_cost = cost;
        round->groups = groups;
        round->row_steps = down;
    }
}

typedef struct PackJob {
    const Kernels *kernels;
    const GemmLines *lines;
    int64_t count, k;
    char *out;
} PackJob;

static void pack_task(void *context, int64_t panel, int worker) {
    (void)worker;
    const PackJob *job = context;
    int64_t line = panel * GEMM_PANEL;
    job->kernels->gemm_pack_strips(
        &(GemmPackStrips){.lines = job->lines,
                          .first = line,
                          .count = job->count - line,
                          .strips = GEMM_PANEL / GEMM_STRIP,
                          .k = job->k,
                          .out = job->out + (size_t)(line * job->k) * dtype_size(job->lines->dtype),
                          .dtype = job->lines->dtype});
}

void gemm_pack(Ops *ops, void *panels, const GemmLines *lines, int64_t count, int64_t k) {
    PackJob job = {ops->kernels, lines, count, k, panels};
    team_run(ops->team, steps(count, GEMM_PANEL), pack_task, &job);
}

static const void *element(const void *data, DType dtype, int64_t i) {
    return data ? (const char *)data + (size_t)i * dtype_size(dtype) : NULL;
}

// How many sums may wait at a time, besides the result: 0 where chains wait in C (or none does).
static int64_t slots_of(const Gemm *gemm, bool apart, int64_t k_step) {
    int64_t slots = 0;
    for (int i = 0; i < gemm->run_count; i++) {
        const GemmRun *run = &gemm->runs[i];
        bool waits = i + 1 < gemm->run_count || run->count > k_step;
        if (waits && run->slot >= slots) slots = run->slot + 1;
    }
    return slots > 1 || apart ? slots : 0;
}

// k: that is summed over.
static bool starts(Ops *ops, const Gemm *gemm, uint64_t k) {
    uint64_t m = (uint64_t)gemm->m, n = (uint64_t)gemm->n;
    uint64_t out = m * n * dtype_size(gemm->dtype) * (gemm->chain || gemm->adds ? 2 : 1);
    return ops_starts(ops, 2 * m * n * k, m * k * dtype_size(gemm->a.dtype) + k * n * dtype_size(gemm->b.dtype) + out);
}

typedef struct PackRows {
    const Kernels *kernels;
    const GemmBlock *block;
    int64_t k;
    float *out;
    int64_t row_floats;
} PackRows;

static void pack_tile(void *context, int64_t tile, int worker) {
    (void)worker;
    const PackRows *job = context;
    GemmPackTile pack = gemm_tile_of(job->block, tile, 0, job->k);
    job->kernels->gemm_pack_tile(job->out + gemm_tile_row(job->block, tile) * job->row_floats, &pack);
}

// Floats of a packed row, with its share of what is written behind its tile.
static int64_t row_floats(const Gemm *gemm) {
    return gemm->k + GEMM_STRIP;
}

// All rows of a round, once for all its tasks, unless the round before has packed them.
static void pack_rows(Ops *ops, const Gemm *gemm, GemmBlock *block, bool packed) {
    PackRows job = {.kernels = ops->kernels,
                    .block = block,
                    .k = gemm->k,
                    .out = (float *)ops->packs.data + SCRATCH_FLOATS - PACKED_FLOATS,
                    .row_floats = row_floats(gemm)};
    if (!packed) team_run(ops->team, block->tiles, pack_tile, &job);
    block->packed = job.out;
    block->packed_row = job.row_floats;
}

// Whether A may be multiplied where it lies. Lines share a place in the first cache whose addresses differ by multiples of a page:
// of rows, at most two thirds of a place may be taken by a tile's numbers of one k, as panels pass beside them. Where the numbers
// of one k lie side by side, the second cache holds a step of k, in which too many would share a place at distances that alias.
static bool rows_lie(const Ops *ops, const Gemm *gemm) {
    enum { PAGE = 4096, LINE = 64, FLOAT = sizeof(float), ALIAS = 1024 };
    if (gemm->a.dtype != DTYPE_F32) return false;
    if (gemm->a.order == GEMM_K_OUTER) return gemm->a.stride * FLOAT % ALIAS != 0;
    int64_t taken[PAGE / LINE] = {0}, most = ops->first_floats * FLOAT / PAGE * 2 / 3;
    for (int64_t row = 0; row < ops->kernels->gemm_sizes().tile_rows; row++)
        if (++taken[row * gemm->a.stride * FLOAT % PAGE / LINE] > most) return false;
    return true;
}

// How a product is cut, and where its parts wait.
typedef struct Cuts {
    int64_t m_step, n_step, k_step; // of a round; most of a step of k
    int64_t panel;                  // columns of a tile
    bool direct;                    // tiles read B where it lies
    int64_t slots;                  // of scratch for chains that wait
    bool in_c;                      // else: in C
    bool once;                      // as GemmBlock says
    bool lies;                      // as GemmBlock says
    bool packs;                     // rows are packed once for all tasks
} Cuts;

// Floats of scratch in which chains may wait.
static int64_t scratch_for_waiting(bool packs) {
    return packs ? SCRATCH_FLOATS - PACKED_FLOATS : SCRATCH_FLOATS;
}

static Cuts cut_product(const Ops *ops, const Gemm *gemm) {
    GemmSizes sizes = ops->kernels->gemm_sizes();
    int64_t longest = 0;
    for (int i = 0; i < gemm->run_count; i++)
        if (gemm->runs[i].count > longest) longest = gemm->runs[i].count;
    bool one_tile = gemm->m <= sizes.tile_rows, apart = gemm->dtype != DTYPE_F32 || gemm->adds;
    bool panels = gemm->b.order == GEMM_PANELS, f32 = gemm->b.dtype == DTYPE_F32;
    bool halves = panels && !f32 && gemm->m <= (sizes.halves_in_tiles ? FEW_ROWS : sizes.direct_rows);
    Cuts cuts = {.m_step = gemm->m,
                 .n_step = steps(gemm->n, GEMM_PANEL) * GEMM_PANEL,
                 .k_step = 16,
                 .panel = halves ? GEMM_PANEL : sizes.panel,
                 .direct = halves || (panels && f32)};
    int64_t fitting = PACKED_FLOATS / row_floats(gemm);
    bool outer = gemm->a.order == GEMM_K_OUTER;
    cuts.once = cuts.direct && !one_tile && gemm->m <= FEW_ROWS;
    bool pays = outer ? longest > GEMM_K_BLOCK_AHEAD : gemm->m > fitting || gemm->n <= FEW_PANELS * cuts.panel;
    cuts.lies = !one_tile && !cuts.once && pays && rows_lie(ops, gemm);
    cuts.packs = cuts.once || (!one_tile && !outer && !cuts.lies && gemm->m <= fitting && gemm->n > cuts.panel);
    if (longest) {
        bool ahead = outer || cuts.lies || (cuts.packs && !cuts.once);
        int64_t most = GEMM_K_BLOCK;
        if (one_tile && cuts.direct)
            most = (GEMM_STREAM_FLOATS - GEMM_STRIP) / gemm->m / 16 * 16;
        else if (ahead) // a tile takes two thirds of the first cache, beside panels that pass
            most = int64_smaller(GEMM_K_BLOCK_AHEAD, ops->first_floats * 2 / 3 / sizes.tile_rows / 16 * 16);
        cuts.k_step = steps(steps(longest, steps(longest, most)), 16) * 16;
    }
    int64_t slots = gemm->chain ? 0 : slots_of(gemm, apart, cuts.k_step);
    cuts.slots = slots;
    cuts.in_c = !slots && !apart;
    int64_t room = scratch_for_waiting(cuts.packs), rows = gemm->m;
    if (slots && rows > room / slots / cuts.n_step) { // nearly square, so that what is packed serves many
        cuts.n_step = steps(cuts.n_step, steps(cuts.n_step, ROUND_COLUMNS) * GEMM_PANEL) * GEMM_PANEL;
        rows = int64_smaller(rows, room / slots / cuts.n_step);
    }
    if (cuts.packs)
        rows = int64_smaller(rows, fitting ? fitting : 1); // one row alone is a stream, which packs for itself
    cuts.m_step = steps(gemm->m, steps(gemm->m, rows));
    return cuts;
}

// Floats of scratch in which chains of a round wait.
static int64_t waiting_floats(const Cuts *cuts) {
    return cuts->slots * cuts->m_step * cuts->n_step;
}

static void add_round(Ops *ops, Job *job, const Gemm *gemm, const Cuts *cuts, int64_t row, int64_t column,
                      float *scratch) {
    int64_t rows = int64_smaller(cuts->m_step, gemm->m - row), columns = int64_smaller(cuts->n_step, gemm->n - column);
    void *c = (void *)element(gemm->c, gemm->dtype, row * gemm->n + column);
    Round *round = &job->rounds[job->count++];
    *round = (Round){.kernels = ops->kernels,
                     .threads = team_size(ops->team),
                     .panels = steps(columns, cuts->panel),
                     .block = {.a = &gemm->a,
                               .b = &gemm->b,
                               .runs = gemm->runs,
                               .run_count = gemm->run_count,
                               .k_step = cuts->k_step,
                               .row_first = row,
                               .rows = rows,
                               .tiles = steps(rows, ops->kernels->gemm_sizes().tile_rows),
                               .first = column,
                               .columns = columns,
                               .panel = cuts->panel,
                               .direct = cuts->direct,
                               .once = cuts->once,
                               .lies = cuts->lies,
                               .rereads = ops->rereads,
                               .goes_on = gemm->chain,
                               .to = gemm->chain  ? gemm->chain + row * gemm->n + column
                                     : cuts->in_c ? c
                                                  : scratch,
                               .to_stride = cuts->in_c || gemm->chain ? gemm->n : cuts->n_step,
                               .to_slot = cuts->m_step * cuts->n_step,
                               .c = !cuts->in_c || gemm->bias ? c : NULL,
                               .dtype = gemm->dtype,
                               .adds = gemm->adds,
                               .c_stride = gemm->n,
                               .bias = element(gemm->bias, gemm->bias_dtype, column),
                               .bias_dtype = gemm->bias_dtype}};
    if (cuts->packs && round->block.tiles > 1) pack_rows(ops, gemm, &round->block, column && rows == gemm->m);
    bool own = !cuts->packs && !cuts->lies && round->block.tiles > 1;
    int64_t share = ops->second_floats * (own ? SHARE_OWN : SHARE) / 32;
    cut_tasks(round, int64_smaller(share, GEMM_GROUP_FLOATS) / (cuts->panel * cuts->k_step));
}

static void run_job(Ops *ops, Job *job) {
    int64_t tasks = 0;
    for (int i = 0; i < job->count; i++) tasks += round_tasks(&job->rounds[i]);
    team_run(ops->team, tasks, multiply_task, job);
}

// A product with its runs, if it is to be done at all.
typedef struct Product {
    Gemm gemm;
    GemmRun all;
    Cuts cuts;
} Product;

static bool begin(Product *product, Ops *ops, const Gemm *gemm) {
    product->gemm = *gemm;
    product->all = (GemmRun){.count = gemm->k, .starts = true, .ends = true};
    gemm = &product->gemm;
    if (!gemm->run_count) {
        product->gemm.runs = &product->all;
        product->gemm.run_count = 1;
    }
    CHECK((!gemm->chain && !gemm->adds) || (gemm->dtype == DTYPE_F32 && gemm->run_count == 1 && !gemm->bias),
          "sums go on in %s, %d runs", dtype_name(gemm->dtype), gemm->run_count);
    CHECK(gemm->b.order != GEMM_PANELS || gemm->a.order == GEMM_K_INNER, "rows of order %d", gemm->a.order);
    int64_t k = 0;
    for (int i = 0; i < gemm->run_count; i++) k += gemm->runs[i].count;
    if (!starts(ops, gemm, (uint64_t)k) || !gemm->m || !gemm->n) return false;
    product->cuts = cut_product(ops, gemm);
    return true;
}

static void run_rounds(Ops *ops, const Product *product) {
    const Gemm *gemm = &product->gemm;
    const Cuts *cuts = &product->cuts;
    for (int64_t column = 0; column < gemm->n; column += cuts->n_step)
        for (int64_t row = 0; row < gemm->m; row += cuts->m_step) {
            Job job = {.count = 0};
            add_round(ops, &job, gemm, cuts, row, column, ops->packs.data);
            run_job(ops, &job);
        }
}

void gemm_run(Ops *ops, const Gemm *gemm) {
    Product product;
    if (begin(&product, ops, gemm)) run_rounds(ops, &product);
}

static bool one_round(const Product *product) {
    return product->gemm.m <= product->cuts.m_step && product->gemm.n <= product->cuts.n_step;
}

void gemm_run_both(Ops *ops, const Gemm *first, const Gemm *second) {
    Product products[MOST_TOGETHER];
    bool runs[] = {begin(&products[0], ops, first), begin(&products[1], ops, second)};
    if (!runs[0] || !runs[1] || !one_round(&products[0]) || !one_round(&products[1]) ||
        (products[0].cuts.packs && products[1].cuts.packs) ||
        waiting_floats(&products[0].cuts) + waiting_floats(&products[1].cuts) >
            scratch_for_waiting(products[0].cuts.packs || products[1].cuts.packs)) {
        for (int i = 0; i < MOST_TOGETHER; i++)
            if (runs[i]) run_rounds(ops, &products[i]);
        return;
    }
    Job job = {.count = 0};
    float *scratch = ops->packs.data;
    for (int i = 0; i < MOST_TOGETHER; i++) {
        add_round(ops, &job, &products[i].gemm, &products[i].cuts, 0, 0, scratch);
        scratch += waiting_floats(&products[i].cuts);
    }
    run_job(ops, &job);
}
