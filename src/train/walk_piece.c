#include "train/walk_piece.h"

#include "base/int64.h"
#include "model/tensor_sum.h"

#include <string.h>

static const Parameter *head_parameter(const Walk *walk) {
    int root = (int)walk->architecture->layer_count;
    const Parameter *head = parameters_find(walk->shards->table, root, PARAMETER_HEAD);
    return head ? head : parameters_find(walk->shards->table, root, PARAMETER_EMBEDDING); // tied
}

int walk_piece_count(const Walk *walk) {
    int64_t rows = walk->shards->piece_rows;
    return (int)((head_parameter(walk)->rows + rows - 1) / rows);
}

int64_t walk_piece_most(const Walk *walk) {
    return int64_smaller(walk->shards->piece_rows, head_parameter(walk)->rows);
}

void walk_piece_spread(Walk *walk, const WalkPiece *piece, Tensor *whole_CV, const Tensor *logits_CP) {
    Comm self = comm_self(), *tensor = tensor_sum_shared(walk->options.tensor) ? walk->options.tensor : &self;
    Device *device = &walk->ops->device;
    int64_t C = logits_CP->size[0], P = logits_CP->size[1], V = whole_CV->size[1], rows = head_parameter(walk)->rows;
    Tensor parts = DEVICE_TENSOR_RAW(device, MEMORY_COMMUNICATION, DTYPE_F32, tensor->size, C, P);
    Tensor own = tensor_rows(&parts, tensor->rank, 1);
    rows_cast(walk->ops, &own, logits_CP);
    comm_all_gather(tensor, parts.data, tensor_bytes(logits_CP));
    for (int64_t rank = 0; ops_runs(walk->ops) && rank < tensor->size; rank++) {
        int64_t token = rank * rows + piece->first, count = int64_smaller(P, V - token);
        for (int64_t i = 0; i < C && count > 0; i++)
            memcpy((float *)whole_CV->data + i * V + token, (const float *)parts.data + (rank * C + i) * P,
                   (size_t)count * sizeof(float));
    }
    device_release(device, &parts);
}

static Tensor matrix_of(const Tensor *flat, int64_t rows, int64_t columns) {
    Tensor part = tensor_rows(flat, 0, rows * columns);
    return TENSOR_RESHAPE(&part, rows, columns);
}

void walk_piece_open(WalkPiece *piece, Walk *walk, int index, bool backward) {
    Shards *shards = walk->shards;
    const Parameter *head = head_parameter(walk);
    int64_t first = index * shards->piece_rows, D = head->cols;
    *piece = (WalkPiece){.first = first,
                         .count = int64_smaller(shards->piece_rows, head->rows - first),
                         .unit = head->unit,
                         .slice = shard_slice_of(shards, head) + index};
    piece->gathered =
        shard_gather(shards, &shards->weight[head->unit], head->unit, piece->slice, walk->options.policy.compute);
    int64_t real = int64_smaller(piece->count, tensor_share_vocabulary_count(walk->share) - first);
    piece->token = tensor_share_vocabulary_first(walk->share) + first;
    piece->tokens = int64_larger(real, 0);
    Tensor rows = matrix_of(&piece->gathered, piece->count, D);
    piece->weight = (LinearWeight){.n = piece->count, .k = D, .rows = rows};
    if (!backward) return;
    piece->unreduced = shard_unreduced(shards, head->unit, piece->slice);
    piece->gradient = matrix_of(&piece->unreduced, piece->count, D);
}

void walk_piece_close(WalkPiece *piece, Walk *walk) {
    shard_release(walk->shards, &piece->gathered);
    if (piece->unreduced.data) shard_reduce(walk->shards, &piece->unreduced, piece->unit, piece->slice);
}

void walk_piece_forward(Walk *walk, const WalkPiece *piece, Tensor *logits_CP, int64_t first) {
    Tensor norm_CD = tensor_rows(&walk->head.norm_ND, first, logits_CP->size[0]);
    linear_forward(walk->ops, logits_CP, &norm_CD, &piece->weight, NULL);
}

// How many sums of segments wait when segment i begins.
static int waiting_before(int segments, int64_t i) {
    int waiting = 0;
    for (int at = 0; at < i; at++) waiting += 1 - linear_segments_folds(segments, at);
    return waiting;
}

static Tensor chain_rows(WalkHead *head, int slot, int64_t first, int64_t count) {
    Tensor chains_ND = tensor_rows(&head->chains_WND, slot, 1);
    chains_ND = TENSOR_RESHAPE(&chains_ND, head->count, head->chains_WND.size[2]);
    return tensor_rows(&chains_ND, first, count);
}

// The chains over the vocabulary go on from piece to piece, and end where segments do; linear_backward_input, in pieces.
static void input_chains(Walk *walk, const WalkPiece *piece, const Tensor *dlogits_CP, int64_t first) {
    WalkHead *head = &walk->head;
    const LinearSegments *sums = &walk->shape.sums.vocabulary;
    int segments = sums->count ? sums->count : 1;
    int64_t V = head_parameter(walk)->rows, size = segments > 1 ? sums->groups[0].piece : V;
    int64_t count = dlogits_CP->size[0], end = piece->first + piece->count;
    for (int64_t s = piece->first / size; s < segments; s++) {
        int64_t start = int64_smaller(s * size, V), stop = int64_smaller((s + 1) * size, V);
        int64_t from = int64_larger(start, piece->first), to = int64_smaller(stop, end);
        if (start >= end && end < V) return; // of a later piece; those behind the vocabulary are empty
        int slot = waiting_before(segments, s);
        Tensor chain = chain_rows(head, slot, first, count);
        linear_backward_input_part(walk->ops, &chain, dlogits_CP, &piece->weight, from - piece->first, to - from,
                                   from == start);
        if (to < stop) return;
        for (int folds = linear_segments_folds(segments, (int)s); folds; folds--) {
            Tensor below = chain_rows(head, --slot, first, count);
            rows_add(walk->ops, &below, &below, &chain);
            chain = below;
        }
    }
}

void walk_piece_backward(Walk *walk, const WalkPiece *piece, const Tensor *dlogits_CP, int64_t first) {
    WalkHead *head = &walk->head;
    int64_t count = dlogits_CP->size[0], D = walk->shape.hidden;
    if (!head->chains_WND.data) {
        int segments = walk->shape.sums.vocabulary.count, most = 0;
        for (int s = 0; s < segments; s++) most = (int)int64_larger(most, waiting_before(segments, s));
        head->chains_WND =
            DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_ACTIVATION, DTYPE_F32, most + 1, head->count, D);
    }
    Tensor norm_CD = tensor_rows(&head->norm_ND, first, count), gradient = piece->gradient;
    linear_backward_weight_part(walk->ops, &gradient, &gradient, dlogits_CP, &norm_CD,
                                (LinearPart){.first = first == 0, .last = false});
    input_chains(walk, piece, dlogits_CP, first);
    if (piece->first + piece->count == head_parameter(walk)->rows) head->done += count;
}
