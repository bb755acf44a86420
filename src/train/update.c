#include "train/update.h"

#include "base/int64.h"
#include "base/stop_signal.h"
#include "model/vocabulary_share.h"
#include "train/walk_piece.h"

#include <math.h>

enum { HEAD_CHUNK = 256 }; // loss rows, enough for large products

// Host columns of a micro-batch's loss rows, picked from the batch; log-probs and gradients are filled chunk by chunk.
typedef struct Columns {
    float *current, *unfiltered, *previous, *generation, *reference, *advantage, *mask, *dcurrent, *dunfiltered;
    bool *dropped;                      // the filter no longer keeps the token
    SoftmaxRow *rows, *rows_unfiltered; // of one chunk
    SoftmaxBlock *blocks_NS;            // of one chunk, where ranks divide the vocabulary
    LossSequence *sequences;            // NULL: the loss reads none
} Columns;

// One micro-batch on its way through head and loss.
typedef struct HeadPass {
    Walk *walk;
    const TrainBatch *batch;
    const MicroBatch *micro;
    const LossOptions *loss;
    const UpdateOptions *options;
    LossCounts counts;
    float scale;                 // of all gradients while they are on their way
    bool filtered;               // the KL term reads unfiltered log-probs, and the rest others
    bool divided;                // logits are those of this rank's share of the vocabulary
    int64_t capacity, most_rows; // rows of logits at a time; loss rows of the round's largest micro-batch
    Columns columns;
    Tensor logits;
} HeadPass;

static void pick(float *out, const float *column, const MicroBatch *micro) {
    for (int64_t i = 0; column && i < micro->loss_count; i++) out[i] = column[micro->loss_columns[i]];
}

static void columns_open(Columns *columns, const HeadPass *pass, Arena *arena) {
    int64_t count = pass->micro->loss_count;
    const TrainBatch *batch = pass->batch;
    float **all[] = {&columns->current,    &columns->unfiltered, &columns->previous,
                     &columns->generation, &columns->reference,  &columns->advantage,
                     &columns->mask,       &columns->dcurrent,   &columns->dunfiltered};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = arena_array(arena, float, count);
    columns->dropped = arena_array(arena, bool, count);
    columns->rows = arena_array(arena, SoftmaxRow, pass->capacity);
    columns->rows_unfiltered = arena_array(arena, SoftmaxRow, pass->capacity);
    pick(columns->mask, batch->mask, pass->micro);
    pick(columns->generation, batch->generation, pass->micro);
    pick(columns->previous, batch->previous ? batch->previous : batch->generation, pass->micro);
    pick(columns->reference, batch->reference, pass->micro);
    pick(columns->advantage, batch->advantage, pass->micro);
    if (!pass->options->nll && loss_reads_sequences(pass->loss))
        columns->sequences = arena_array(arena, LossSequence, pass->micro->tokens.span_count);
}

// Room for the softmax blocks of so many rows of the whole vocabulary.
static Tensor blocks_open(const HeadPass *pass, int64_t rows) {
    _Static_assert(sizeof(SoftmaxBlock) == 2 * sizeof(float), "a block is two floats");
    return DEVICE_TENSOR_RAW(&pass->walk->ops->device, MEMORY_LOGITS, DTYPE_F32, rows,
                             softmax_block_count(pass->walk->architecture->vocab_size), 2);
}

// Rows first..last-1, all of one sequence.
static LossTokens tokens_of(const HeadPass *pass, int64_t sequence, int64_t first, int64_t last) {
    const Columns *columns = &pass->columns;
    const float *reward = pass->batch->reward;
    return (LossTokens){.count = last - first,
                        .current = columns->current + first,
                        .current_unfiltered = (pass->filtered ? columns->unfiltered : columns->current) + first,
                        .previous = columns->previous + first,
                        .generation = columns->generation + first,
                        .reference = pass->batch->reference ? columns->reference + first : NULL,
                        .advantage = columns->advantage + first,
                        .mask = columns->mask + first,
                        .positive = reward && reward[pass->micro->sequences[sequence]] > 0,
                        .sequence = columns->sequences ? &columns->sequences[sequence] : NULL};
}

// Logits of rows first..first+N-1 and this rank's share of the vocabulary, and their log-probs from those of all shares.
static void share_forward(HeadPass *pass, Tensor *logits_NS, int64_t first) {
    const Walk *walk = pass->walk;
    const Columns *columns = &pass->columns;
    const int32_t *targets = pass->micro->loss_targets + first;
    int64_t rows = logits_NS->size[0], blocks = softmax_block_count(walk->architecture->vocab_size);
    int64_t token = tensor_share_vocabulary_first(walk->share), count = tensor_share_vocabulary_count(walk->share);
    float temperature = pass->options->filter.temperature, *current = columns->current + first;
    walk_head_share_forward(pass->walk, logits_NS, first);
    if (count) {
        softmax_blocks(walk->ops, columns->blocks_NS, blocks, logits_NS, token, count, temperature);
        softmax_targets(walk->ops, current, logits_NS, targets, token, count, temperature);
    }
    vocabulary_share_fold(walk->ops, walk->share, walk->options.tensor, columns->rows, columns->blocks_NS, current,
                          targets, rows);
    for (int64_t i = 0; i < rows; i++) current[i] = softmax_logprob_of(current[i], &columns->rows[i]);
}

static void share_backward(HeadPass *pass, Tensor *logits_NS, int64_t first) {
    const Walk *walk = pass->walk;
    softmax_backward_piece(walk->ops, logits_NS, pass->columns.rows, NULL, pass->micro->loss_targets + first,
                           pass->columns.dcurrent + first, NULL, tensor_share_vocabulary_first(walk->share),
                           tensor_share_vocabulary_count(walk->share), pass->options->filter);
    walk_head_share_backward(pass->walk, logits_NS, first);
}

// Logits of rows first..first+N-1, and their log-probs into the columns.
static void head_forward(HeadPass *pass, Tensor *logits_NV, int64_t first) {
    Ops *ops = pass->walk->ops;
    Columns *columns = &pass->columns;
    int64_t V = pass->walk->architecture->vocab_size;
    const SoftmaxFilter filter = pass->options->filter, plain = {.temperature = filter.temperature, .top_p = 1};
    const int32_t *targets = pass->micro->loss_targets + first;
    if (pass->divided) {
        share_forward(pass, logits_NV, first);
        return;
    }
    walk_head_forward(pass->walk, logits_NV, first);
    softmax_rows(ops, columns->rows, logits_NV, V, filter);
    softmax_logprobs(ops, columns->current + first, logits_NV, columns->rows, targets, filter);
    if (!pass->filtered) return;
    softmax_rows(ops, columns->rows_unfiltered, logits_NV, V, plain);
    softmax_logprobs(ops, columns->unfiltered + first, logits_NV, columns->rows_unfiltered, targets, plain);
}

// An earlier step of this rollout may have moved a token out of the filter's set: it counts as unchanged.
static void mark_dropped(HeadPass *pass, int64_t first, int64_t count) {
    Columns *columns = &pass->columns;
    for (int64_t i = first; i < first + count; i++) {
        columns->dropped[i] = columns->current[i] == -INFINITY;
        if (columns->dropped[i]) columns->current[i] = columns->generation[i];
    }
}

static void measure_errors(UpdateResult *result, const Columns *columns, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++)
        loss_metrics_raise(&result->max_abs_logprob_error,
                           fabs((double)columns->current[i] - (double)columns->generation[i]));
}

static void leave_out_dropped(UpdateResult *result, Columns *columns, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        if (!columns->dropped[i]) continue;
        columns->mask[i] = 0;
        result->filtered_tokens++;
    }
}

static void sequences_of(UpdateResult *result, HeadPass *pass) {
    for (int64_t b = 0; b < pass->micro->tokens.span_count; b++) {
        LossTokens tokens = tokens_of(pass, b, pass->micro->loss_offset[b], pass->micro->loss_offset[b + 1]);
        loss_sequence(&pass->columns.sequences[b], &result->metrics, &tokens, pass->loss, pass->counts);
    }
}

// Loss and gradients of the log-probs of rows first..first+count-1, which begin in sequence *sequence.
static void chunk_loss(UpdateResult *result, HeadPass *pass, int64_t first, int64_t count, int64_t *sequence) {
    Columns *columns = &pass->columns;
    if (!ops_runs(pass->walk->ops)) return; // there are no log-probs
    if (pass->options->nll) {
        loss_nll(&result->metrics.loss, columns->dcurrent + first, columns->current + first, columns->mask + first,
                 count, pass->counts.valid_toks);
        return;
    }
    leave_out_dropped(result, columns, first, count);
    for (int64_t begin = first, end; begin < first + count; begin = end) {
        while (pass->micro->loss_offset[*sequence + 1] <= begin) ++*sequence;
        end = int64_smaller(pass->micro->loss_offset[*sequence + 1], first + count);
        LossTokens tokens = tokens_of(pass, *sequence, begin, end);
        loss_clipped_pg(&result->metrics, columns->dcurrent + begin, columns->dunfiltered + begin, &tokens, pass->loss,
                        pass->counts);
    }
}

// float16, within blocks or between them, keeps gradients of activations in range by a power of two, which is taken out of the fp32 sums again: the one next
// below the number of tokens, so that a token's gradient is as large as if the loss were a sum.
static float gradient_scale(const Walk *walk, double valid_toks) {
    int exponent = 0;
    if (overflow_possible(walk->options.policy) && valid_toks >= 1) frexp(valid_toks, &exponent);
    return exponent ? ldexpf(1, exponent - 1) : 1;
}

static void scale_gradients(HeadPass *pass, int64_t first, int64_t count) {
    for (int64_t i = first; pass->scale != 1 && i < first + count; i++) {
        pass->columns.dcurrent[i] *= pass->scale;
        if (pass->filtered) pass->columns.dunfiltered[i] *= pass->scale;
    }
}

static void chunk_backward(HeadPass *pass, Tensor *logits_NV, int64_t first) {
    Columns *columns = &pass->columns;
    if (pass->divided) {
        share_backward(pass, logits_NV, first);
        return;
    }
    softmax_backward(pass->walk->ops, logits_NV, columns->rows, pass->filtered ? columns->rows_unfiltered : NULL,
                     pass->micro->loss_targets + first, columns->dcurrent + first,
                     pass->filtered ? columns->dunfiltered + first : NULL, pass->walk->architecture->vocab_size,
                     pass->options->filter);
    walk_head_backward(pass->walk, logits_NV, first);
}

// Log-probs of all rows, for a loss whose first gradient depends on the last token of a sequence. Logits are not kept: the
// head is walked again for the gradients.
static void all_logprobs(HeadPass *pass) {
    int64_t total = pass->micro->loss_count;
    for (int64_t first = 0; first < total; first += pass->capacity) {
        int64_t count = int64_smaller(total - first, pass->capacity);
        Tensor logits_NV = tensor_rows(&pass->logits, 0, count);
        head_forward(pass, &logits_NV, first);
        mark_dropped(pass, first, count);
    }
}

// What follows the log-probs of rows first..first+count-1: errors, loss and its gradients.
static void rows_loss(UpdateResult *result, HeadPass *pass, int64_t first, int64_t count, int64_t *sequence) {
    if (!pass->options->nll) {
        measure_errors(result, &pass->columns, first, count);
        mark_dropped(pass, first, count);
    }
    if (pass->columns.sequences && first == 0) sequences_of(result, pass);
    chunk_loss(result, pass, first, count, sequence);
    scale_gradients(pass, first, count);
}

static int64_t head_chunk(const HeadPass *pass) {
    return pass->options->head_chunk ? pass->options->head_chunk : HEAD_CHUNK;
}

// Rows of logits at a time. Left to us: all, where they take no more memory than those of a chunk and the chains of the head's
// gradient, D floats a column of this rank, which wait between chunks.
static int64_t rows_at_a_time(const HeadPass *pass, int64_t total, int64_t columns) {
    int64_t chains = pass->walk->share->vocab_size * pass->walk->shape.hidden;
    if (!pass->options->head_chunk && (total - HEAD_CHUNK) * columns <= chains) return total;
    return int64_smaller(total, head_chunk(pass));
}

// Head, log-softmax, loss and their backward, chunk by chunk.
static void head_and_loss(UpdateResult *result, HeadPass *pass, Arena *arena) {
    Device *device = &pass->walk->ops->device;
    int64_t total = pass->micro->loss_count, sequence = 0;
    const Walk *walk = pass->walk;
    pass->divided = tensor_sum_shared(walk->options.tensor) && !softmax_filters(pass->options->filter);
    int64_t columns = (pass->divided ? walk->share : walk->architecture)->vocab_size;
    pass->capacity = rows_at_a_time(pass, total, columns);
    pass->logits = DEVICE_TENSOR_RAW(device, MEMORY_LOGITS, DTYPE_F32, pass->capacity, columns);
    walk_head_open(pass->walk, pass->micro->loss_rows, total);
    columns_open(&pass->columns, pass, arena);
    Tensor blocks = {0};
    if (pass->divided) blocks = blocks_open(pass, pass->capacity);
    pass->columns.blocks_NS = blocks.data;
    if (pass->columns.sequences && loss_reads_current_first(pass->loss) && pass->capacity < total) all_logprobs(pass);
    for (int64_t first = 0; first < total; first += pass->capacity) {
        int64_t count = int64_smaller(total - first, pass->capacity);
        Tensor logits_NV = tensor_rows(&pass->logits, 0, count);
        head_forward(pass, &logits_NV, first);
        rows_loss(result, pass, first, count, &sequence);
        chunk_backward(pass, &logits_NV, first);
    }
    device_release(device, &blocks);
    device_release(device, &pass->logits);
    walk_head_close(pass->walk);
}

// Logits of a piece of the vocabulary, of rows first..first+C-1 in a matrix that fits.
static Tensor piece_logits(HeadPass *pass, const WalkPiece *piece, int64_t first) {
    int64_t count = int64_smaller(pass->micro->loss_count - first, pass->capacity);
    Tensor room = TENSOR_RESHAPE(&pass->logits, tensor_count(&pass->logits));
    room = tensor_rows(&room, 0, count * piece->count);
    Tensor logits_CP = TENSOR_RESHAPE(&room, count, piece->count);
    walk_piece_forward(pass->walk, piece, &logits_CP, first);
    return logits_CP;
}

// Log-probs of all rows, from the blocks of the vocabulary; columns.rows are then those of all rows.
static void logprobs_in_pieces(HeadPass *pass, Arena *arena) {
    Walk *walk = pass->walk;
    Columns *columns = &pass->columns;
    const int32_t *targets = pass->micro->loss_targets;
    int64_t total = pass->micro->loss_count, S = softmax_block_count(walk->architecture->vocab_size);
    Tensor blocks = blocks_open(pass, total);
    SoftmaxBlock *blocks_NS = blocks.data;
    float temperature = pass->options->filter.temperature;
    columns->rows = arena_array(arena, SoftmaxRow, total);
    for (int i = 0; i < walk_piece_count(walk); i++) {
        WalkPiece piece;
        walk_piece_open(&piece, walk, i, false);
        for (int64_t first = 0; piece.tokens && first < total; first += pass->capacity) {
            Tensor logits_CP = piece_logits(pass, &piece, first);
            softmax_blocks(walk->ops, blocks_NS + first * S, S, &logits_CP, piece.token, piece.tokens, temperature);
            softmax_targets(walk->ops, columns->current + first, &logits_CP, targets + first, piece.token, piece.tokens,
                            temperature);
        }
        walk_piece_close(&piece, walk);
    }
    vocabulary_share_fold(walk->ops, walk->share, walk->options.tensor, columns->rows, blocks_NS, columns->current,
                          targets, total);
    device_release(&walk->ops->device, &blocks);
    for (int64_t i = 0; i < total; i++)
        columns->current[i] = softmax_logprob_of(columns->current[i], &columns->rows[i]);
}

// Log-probs of all rows where filters need whole rows of logits: chunk by chunk, for each of which the head is gathered again.
static void logprobs_of_whole_rows(HeadPass *pass, Arena *arena) {
    Walk *walk = pass->walk;
    Columns *columns = &pass->columns;
    int64_t total = pass->micro->loss_count, V = walk->architecture->vocab_size;
    const SoftmaxFilter filter = pass->options->filter, plain = {.temperature = filter.temperature, .top_p = 1};
    columns->rows = arena_array(arena, SoftmaxRow, total);
    columns->rows_unfiltered = arena_array(arena, SoftmaxRow, total);
    Tensor all_CV = DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_LOGITS, DTYPE_F32, total ? pass->capacity : 0, V);
    for (int64_t first = 0; first < pass->most_rows; first += head_chunk(pass)) {
        int64_t count = int64_larger(int64_smaller(total - first, pass->capacity), 0);
        Tensor logits_CV = tensor_rows(&all_CV, 0, count);
        for (int i = 0; i < walk_piece_count(walk); i++) {
            WalkPiece piece;
            walk_piece_open(&piece, walk, i, false);
            if (count) {
                Tensor logits_CP = piece_logits(pass, &piece, first);
                walk_piece_spread(walk, &piece, &logits_CV, &logits_CP);
            }
            walk_piece_close(&piece, walk);
        }
        if (!count) continue;
        const int32_t *targets = pass->micro->loss_targets + first;
        softmax_rows(walk->ops, columns->rows + first, &logits_CV, V, filter);
        softmax_logprobs(walk->ops, columns->current + first, &logits_CV, columns->rows + first, targets, filter);
        if (!pass->filtered) continue;
        softmax_rows(walk->ops, columns->rows_unfiltered + first, &logits_CV, V, plain);
        softmax_logprobs(walk->ops, columns->unfiltered + first, &logits_CV, columns->rows_unfiltered + first, targets,
                         plain);
    }
    device_release(&walk->ops->device, &all_CV);
}

static void piece_backward(HeadPass *pass, const WalkPiece *piece, int64_t first) {
    const Columns *columns = &pass->columns;
    Tensor logits_CP = piece_logits(pass, piece, first);
    softmax_backward_piece(pass->walk->ops, &logits_CP, columns->rows + first,
                           pass->filtered ? columns->rows_unfiltered + first : NULL, pass->micro->loss_targets + first,
                           columns->dcurrent + first, pass->filtered ? columns->dunfiltered + first : NULL,
                           piece->token, piece->tokens, pass->options->filter);
    walk_piece_backward(pass->walk, piece, &logits_CP, first);
}

// The same on many ranks: pieces of the vocabulary outside, for each is gathered, and chunks of rows inside; twice, for the
// gradients need the log-probs first. A rank without rows walks along.
static void head_in_pieces(UpdateResult *result, HeadPass *pass, Arena *arena) {
    Walk *walk = pass->walk;
    int64_t total = pass->micro->loss_count, sequence = 0;
    pass->capacity = int64_larger(int64_smaller(total, head_chunk(pass)), 1);
    walk_head_open(walk, pass->micro->loss_rows, total);
    pass->logits = DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_LOGITS, DTYPE_F32, total ? pass->capacity : 0,
                                     walk_piece_most(walk));
    columns_open(&pass->columns, pass, arena);
    if (softmax_filters(pass->options->filter))
        logprobs_of_whole_rows(pass, arena);
    else
        logprobs_in_pieces(pass, arena);
    if (total) rows_loss(result, pass, 0, total, &sequence);
    for (int i = 0; i < walk_piece_count(walk); i++) {
        WalkPiece piece;
        walk_piece_open(&piece, walk, i, true);
        for (int64_t first = 0; first < total; first += pass->capacity) piece_backward(pass, &piece, first);
        walk_piece_close(&piece, walk);
    }
    device_release(&walk->ops->device, &pass->logits);
    walk_head_close(walk);
}

UpdateResult update_none(void) {
    return (UpdateResult){.metrics = loss_metrics_zero()};
}

void update_add(UpdateResult *sum, const UpdateResult *part) {
    loss_metrics_add(&sum->metrics, &part->metrics);
    sum->grad_norm = part->grad_norm;
    sum->global_valid_seqs += part->global_valid_seqs;
    sum->global_valid_toks += part->global_valid_toks;
    sum->max_abs_logprob_error = part->max_abs_logprob_error;
    sum->filtered_tokens += part->filtered_tokens;
    overflow_add(&sum->overflow, &part->overflow);
    sum->nonfinite_gradients += part->nonfinite_gradients;
}

void update_average(UpdateResult *sum, int64_t steps) {
    double share = 1.0 / (double)steps;
    loss_metrics_scale(&sum->metrics, share);
    sum->global_valid_seqs *= share;
    sum->global_valid_toks *= share;
}

// What a micro-batch brings to its step's result.
static void fold(UpdateResult *result, const UpdateResult *part) {
    loss_metrics_add(&result->metrics, &part->metrics);
    loss_metrics_raise(&result->max_abs_logprob_error, part->max_abs_logprob_error);
    result->filtered_tokens += part->filtered_tokens;
    overflow_add(&result->overflow, &part->overflow);
}

static MicroBatches cut(const TrainBatch *batch, const BatchingOptions *options, Arena *arena) {
    MicroBatches cuts;
    Error error;
    int64_t *lengths = arena_array(arena, int64_t, batch->count);
    for (int64_t b = 0; b < batch->count; b++) lengths[b] = batch->offset[b + 1] - batch->offset[b];
    CHECK(micro_batches_cut(&cuts, lengths, batch->count, 0, 1, false, options, arena, &error), "%s", error.text);
    return cuts;
}

// The micro-batches that carry loss, in order: the others bring nothing.
static int64_t *with_loss(int64_t *count, const TrainBatch *batch, const MicroBatches *cuts, Arena *arena) {
    int64_t *found = arena_array(arena, int64_t, cuts->count);
    *count = 0;
    for (int64_t m = 0; m < cuts->count; m++) {
        bool loss = false;
        for (int64_t i = cuts->first[m]; i < cuts->first[m + 1] && !loss; i++) {
            int64_t b = cuts->sequences[i];
            for (int64_t t = batch->offset[b] + 1; t < batch->offset[b + 1] && !loss; t++) loss = batch->mask[t] != 0;
        }
        if (loss) found[(*count)++] = m;
    }
    return found;
}

// One round: each rank walks the micro-batch of its number, if there is one. What they bring is folded in their order.
static void walk_round(UpdateResult *result, HeadPass *pass, const MicroBatches *cuts, const int64_t *numbers,
                       int64_t count, Arena *arena) {
    Walk *walk = pass->walk;
    Comm *comm = shard_comm(walk->shards);
    Ledger *ledger = &walk->ops->device.ledger;
    MicroBatch *micros = arena_array(arena, MicroBatch, comm->size);
    TokenBatch *round = arena_array(arena, TokenBatch, comm->size);
    UpdateResult *parts = arena_array(arena, UpdateResult, comm->size), *own = &parts[comm->rank];
    for (int rank = 0; rank < count; rank++) {
        int64_t m = numbers[rank], first = cuts->first[m];
        micros[rank] = batch_micro_of(pass->batch, cuts->sequences + first, cuts->first[m + 1] - first, arena);
        round[rank] = micros[rank].tokens;
        pass->most_rows = int64_larger(pass->most_rows, micros[rank].loss_count);
    }
    pass->micro = &micros[comm->rank];
    *own = update_none();
    walk->overflow = (Overflow){0};
    ledger_enter(ledger, PHASE_FORWARD);
    walk_forward(walk, round, pass->micro->page_count);
    ledger_enter(ledger, PHASE_BACKWARD);
    if (shard_whole(walk->shards))
        head_and_loss(own, pass, arena);
    else
        head_in_pieces(own, pass, arena);
    walk_backward(walk);
    own->overflow = walk->overflow;
    comm_all_gather(comm, parts, sizeof *parts);
    for (int rank = 0; rank < count; rank++) fold(result, &parts[rank]);
}

bool update_policy(UpdateResult *result, Walk *walk, const TrainBatch *batch, const LossOptions *loss,
                   const UpdateOptions *options, Progress *progress, int64_t *done) {
    Ledger *ledger = &walk->ops->device.ledger;
    Arena arena = {0}, lists = {0};
    bool filtered = softmax_filters(options->filter) && !options->nll && loss_needs_reference(loss);
    LossCounts counts = batch_counts(batch);
    const float scale = gradient_scale(walk, counts.valid_toks);
    *result = update_none();
    result->global_valid_seqs = counts.valid_seqs;
    result->global_valid_toks = counts.valid_toks;
    CHECK(options->nll || loss->positive_example_nll_weight == 0 || batch->reward, "positive examples without rewards");
    MemoryPhase before = ledger_enter(ledger, PHASE_FORWARD);
    walk_begin(walk, batch->ids + batch->offset[0], batch->offset[batch->count] - batch->offset[0]);
    MicroBatches cuts = cut(batch, &options->batching, &lists);
    Comm *comm = shard_comm(walk->shards);
    int64_t total, *numbers = with_loss(&total, batch, &cuts, &lists), before_done = done ? *done : 0;
    bool stopped = false;
    for (int64_t m = 0; m < total && !stopped; m += comm->size) {
        HeadPass pass = {.walk = walk,
                         .batch = batch,
                         .loss = loss,
                         .options = options,
                         .counts = counts,
                         .filtered = filtered,
                         .scale = scale};
        int64_t count = int64_smaller(comm->size, total - m);
        walk_round(result, &pass, &cuts, numbers + m, count, &arena);
        arena_reset(&arena);
        if (done) *done = before_done + cuts.first[numbers[m + count - 1] + 1];
        if (progress && done) progress_update(progress, *done);
        stopped = options->stops && comm_any(options->stops, stop_signal_taken());
    }
    if (done && !stopped) *done = before_done + batch->count;
    arena_close(&lists);
    walk_end(walk);
    result->metrics.num_valid_samples = counts.valid_seqs;

    ledger_enter(ledger, PHASE_OPTIMIZER);
    result->grad_norm = shard_gradient_norm(walk->shards, walk->options.tensor) / (double)scale;
    // A NaN or infinite norm would spoil every weight at once: the step is left out and reported.
    result->nonfinite_gradients = !isfinite(result->grad_norm);
    if (!result->nonfinite_gradients && !stopped)
        shard_update(walk->shards, &options->optimizer, options->lr,
                     optimizer_clip_factor(result->grad_norm, options->optimizer.max_grad_norm) / (double)scale);
    shard_gradients_close(walk->shards);
    ledger_enter(ledger, before);
    arena_close(&arena);
    return !stopped;
}
