#include "train/walk_block.h"

// A block on its way, and what of it is gathered.
typedef struct Block {
    Walk *walk;
    int unit;
    bool idle;
    BlockShape shape;
    BlockWeights weights;
    BlockGradients gradients;
    Tensor gathered[SHARD_BLOCK_SLICES], unreduced[SHARD_BLOCK_SLICES];
    BlockScratch scratch;
} Block;

static Block block_of(Walk *walk, int unit) {
    Block block = {.walk = walk,
                   .unit = unit,
                   .idle = walk->batch->count == 0,
                   .shape = block_shape(walk->share, unit, walk->options.tensor)};
    block.shape.divides_rows = walk->rows.divided;
    block_weights_share(&block.weights, &block.shape.sums);
    return block;
}

static const ShardSlice *slice_of(const Block *block, ShardBlockSlice slice) {
    return &block->walk->shards->units[block->unit].slices[slice];
}

// Once, however often it is asked for.
static void gather(Block *block, ShardBlockSlice slice) {
    Walk *walk = block->walk;
    Shards *shards = walk->shards;
    const ShardSlice *of = slice_of(block, slice);
    Tensor *gathered = &block->gathered[slice];
    if (gathered->data) return;
    *gathered = shard_gather(shards, &shards->weight[block->unit], block->unit, slice, walk->options.policy.compute);
    Tensor part = tensor_rows(gathered, 0, of->count);
    block_weights_view(&block->weights, shards->table, block->unit, &part, of->first);
}

static void let_go(Block *block, ShardBlockSlice slice) {
    shard_release(block->walk->shards, &block->gathered[slice]);
}

static void open_gradient(Block *block, ShardBlockSlice slice) {
    Shards *shards = block->walk->shards;
    const ShardSlice *of = slice_of(block, slice);
    block->unreduced[slice] = shard_unreduced(shards, block->unit, slice);
    Tensor part = tensor_rows(&block->unreduced[slice], 0, of->count);
    block_gradients_view(&block->gradients, shards->table, block->unit, &part, of->first);
}

static void reduce(Block *block, ShardBlockSlice slice) {
    shard_reduce(block->walk->shards, &block->unreduced[slice], block->unit, slice);
}

// ---- activations and temporaries

static Tensor rows_of(Walk *walk, DType dtype, int64_t columns) {
    return DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_ACTIVATION, dtype, walk->batch->count, columns);
}

static Tensor own_rows_of(Walk *walk) { // where ranks divide them
    return DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_ACTIVATION, walk->options.policy.compute, walk->rows.count,
                             walk->shape.hidden);
}

static void open_gate_up(Walk *walk, int unit) {
    walk->activations[unit].gate_up_T2F = rows_of(walk, walk->options.policy.compute, 2 * walk->shape.ffn);
}

static WalkCheckpointing what_is_kept(const Walk *walk, int unit) {
    bool all = unit >= walk->architecture->layer_count - walk->options.kept_blocks;
    return all ? WALK_KEEPS_ALL : walk->options.activation_checkpointing;
}

// What backward reads, for the micro-batch's tokens; the input is the caller's.
static void open_activations(Walk *walk, int unit) {
    const BlockShape *shape = &walk->shape;
    BlockActivations *a = &walk->activations[unit];
    DType compute = walk->options.policy.compute;
    // Keys and values are read from their pages; norms of heads want what was before them.
    a->qkv_TC = rows_of(walk, compute, shape->qk_norm ? shape->qkv_columns : shape->heads_columns);
    a->attn_TO = rows_of(walk, compute, shape->heads_columns);
    a->lse_TH = rows_of(walk, DTYPE_F32, shape->attention.query_heads);
    a->mid_TD = own_rows_of(walk);
    open_gate_up(walk, unit);
    a->kv = kv_pages_open(walk->ops, MEMORY_ACTIVATION, compute, walk->page_count, &shape->attention);
}

void walk_block_close(Walk *walk, int unit) {
    Device *device = &walk->ops->device;
    BlockActivations *a = &walk->activations[unit];
    device_release(device, &a->qkv_TC);
    device_release(device, &a->attn_TO);
    device_release(device, &a->lse_TH);
    device_release(device, &a->mid_TD);
    device_release(device, &a->gate_up_T2F);
    if (a->kv.keys.data) kv_pages_close(walk->ops, &a->kv);
}

static void open_norm(Block *block) {
    block->scratch.norm_TD =
        row_share_open(block->walk->ops, &block->walk->rows, block->walk->options.policy.compute, block->shape.hidden);
}

static void open_scratch(Block *block) {
    DType compute = block->walk->options.policy.compute;
    if (!block->scratch.norm_TD.data) open_norm(block);
    block->scratch.proj_TD = own_rows_of(block->walk);
    if (block->shape.qk_norm) block->scratch.qkv_TC = rows_of(block->walk, compute, block->shape.qkv_columns);
}

static void close_scratch(Block *block) {
    Device *device = &block->walk->ops->device;
    device_release(device, &block->scratch.norm_TD);
    device_release(device, &block->scratch.proj_TD);
    device_release(device, &block->scratch.qkv_TC);
}

static void open_act(Block *block) {
    block->scratch.act_TF = rows_of(block->walk, block->walk->options.policy.compute, block->shape.ffn);
}

static void close_act(Block *block) {
    device_release(&block->walk->ops->device, &block->scratch.act_TF);
}

// ---- forward

static void attention_forward_stage(Block *block) {
    Walk *walk = block->walk;
    gather(block, SHARD_ATTENTION);
    if (block->idle) return;
    block_attention_forward(walk->ops, &block->shape, &block->weights, &walk->cos_sin_PE, walk->batch,
                            &walk->activations[block->unit], &block->scratch);
}

static void gate_up_forward_stage(Block *block) {
    Walk *walk = block->walk;
    gather(block, SHARD_GATE_UP);
    if (block->idle) return;
    block_gate_up_forward(walk->ops, &block->shape, &block->weights, &walk->activations[block->unit], &block->scratch);
}

static void down_forward_stage(Block *block, Tensor *out_TD) {
    Walk *walk = block->walk;
    BlockActivations *a = &walk->activations[block->unit];
    gather(block, SHARD_DOWN);
    if (block->idle) return;
    open_act(block);
    block_down_forward(walk->ops, &block->shape, &block->weights, a, &block->scratch, out_TD);
    if (overflow_possible(walk->options.policy))
        block_note_overflow(walk->ops, &block->shape, &walk->overflow, block->unit, &block->weights, a, &block->scratch,
                            out_TD);
    close_act(block);
}

void walk_block_forward(Walk *walk, int unit, Tensor *out_TD) {
    Block block = block_of(walk, unit);
    if (!block.idle) {
        open_activations(walk, unit);
        open_scratch(&block);
    }
    gather(&block, SHARD_VECTORS);
    attention_forward_stage(&block);
    let_go(&block, SHARD_ATTENTION);
    gate_up_forward_stage(&block);
    let_go(&block, SHARD_GATE_UP);
    down_forward_stage(&block, out_TD);
    let_go(&block, SHARD_DOWN);
    let_go(&block, SHARD_VECTORS);
    close_scratch(&block);
    if (what_is_kept(walk, unit) == WALK_KEEPS_INPUTS) walk_block_close(walk, unit);
    if (what_is_kept(walk, unit) == WALK_KEEPS_ATTENTION)
        device_release(&walk->ops->device, &walk->activations[unit].gate_up_T2F);
}

// ---- backward

// A recomputation obeys the same policy: its input was kept after the cast on entry; the block's output is not needed.
static void make_again(Block *block) {
    Walk *walk = block->walk;
    WalkCheckpointing kept = what_is_kept(walk, block->unit);
    if (kept == WALK_KEEPS_ALL) return;
    if (!block->idle) {
        if (kept == WALK_KEEPS_INPUTS) open_activations(walk, block->unit);
        if (kept == WALK_KEEPS_ATTENTION) open_gate_up(walk, block->unit);
        open_scratch(block);
    }
    if (kept == WALK_KEEPS_INPUTS) attention_forward_stage(block);
    gate_up_forward_stage(block);
    close_scratch(block);
}

static void down_backward_stage(Block *block, const Tensor *d_TD) {
    Walk *walk = block->walk;
    Tensor room = {0}, all_TD = {0};
    if (!block->idle) {
        open_act(block);
        all_TD = row_share_spread(walk->ops, &walk->rows, &room, d_TD);
    }
    gather(block, SHARD_DOWN);
    if (!block->idle)
        block_down_backward(walk->ops, &block->weights, &walk->activations[block->unit], &block->scratch, &all_TD);
    let_go(block, SHARD_DOWN);
    open_gradient(block, SHARD_DOWN);
    if (!block->idle) block_down_backward_weight(walk->ops, &block->gradients, &block->scratch, &all_TD);
    reduce(block, SHARD_DOWN);
    device_release(&walk->ops->device, &room);
    close_act(block);
}

static void gate_up_backward_stage(Block *block, Tensor *d_TD) {
    Walk *walk = block->walk;
    BlockActivations *a = &walk->activations[block->unit];
    bool both = shard_whole(walk->shards); // the gradient stands all the time
    if (!block->idle) open_norm(block);
    open_gradient(block, SHARD_GATE_UP);
    if (!both) {
        if (!block->idle)
            block_gate_up_backward_weight(walk->ops, &block->shape, &block->weights, &block->gradients, a,
                                          &block->scratch);
        reduce(block, SHARD_GATE_UP);
    }
    gather(block, SHARD_GATE_UP);
    if (!block->idle) {
        open_scratch(block);
        block_gate_up_backward(walk->ops, &block->shape, &block->weights, &block->gradients, a, &block->scratch, d_TD,
                               both);
    }
    let_go(block, SHARD_GATE_UP);
    if (both) reduce(block, SHARD_GATE_UP);
}

static void attention_backward_stage(Block *block, Tensor *d_TD) {
    Walk *walk = block->walk;
    gather(block, SHARD_ATTENTION);
    open_gradient(block, SHARD_ATTENTION);
    if (!block->idle)
        block_attention_backward(walk->ops, &block->shape, &block->weights, &block->gradients, &walk->cos_sin_PE,
                                 walk->batch, &walk->activations[block->unit], &block->scratch, d_TD);
    let_go(block, SHARD_ATTENTION);
    reduce(block, SHARD_ATTENTION);
}

void walk_block_backward(Walk *walk, int unit, Tensor *d_TD) {
    Block block = block_of(walk, unit);
    gather(&block, SHARD_VECTORS);
    make_again(&block);
    open_gradient(&block, SHARD_VECTORS);
    down_backward_stage(&block, d_TD);
    gate_up_backward_stage(&block, d_TD);
    attention_backward_stage(&block, d_TD);
    close_scratch(&block);
    let_go(&block, SHARD_VECTORS);
    reduce(&block, SHARD_VECTORS);
    walk_block_close(walk, unit);
    device_release(&walk->ops->device, &walk->activations[unit].x_TD);
}
