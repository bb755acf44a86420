// The head on many ranks: it is gathered, and its gradient reduced, piece by piece of the vocabulary, so that no rank ever holds
// the matrix. All ranks of a round walk all pieces in order, those without loss rows too; inside, chunks of loss rows.
//
//   walk_head_open
//   for each piece: walk_piece_open; for each chunk: walk_piece_forward, (softmax_blocks, softmax_targets); walk_piece_close
//   (softmax_fold, loss)
//   for each piece: walk_piece_open; for each chunk: walk_piece_forward, (softmax_backward_piece), walk_piece_backward;
//                   walk_piece_close
//   walk_head_close
//
// The bits are those of walk_head_forward and walk_head_backward.
#pragma once
#include "ops/softmax.h"
#include "train/walk.h"

typedef struct WalkPiece {
    int64_t first, count;  // rows of the head, of this rank's share of it
    int64_t token, tokens; // the tokens that they are; the rows behind them are padding
    int unit, slice;
    Tensor gathered, unreduced; // unreduced.data NULL in the first pass
    LinearWeight weight;        // [count, D]
    Tensor gradient;            // [count, D], a view of unreduced
} WalkPiece;

int walk_piece_count(const Walk *walk);
int64_t walk_piece_most(const Walk *walk); // rows of a piece

// Copies the logits of a piece, of this rank and of those that share the model, to where the vocabulary has them: whole_CV.
void walk_piece_spread(Walk *walk, const WalkPiece *piece, Tensor *whole_CV, const Tensor *logits_CP);

void walk_piece_open(WalkPiece *piece, Walk *walk, int index, bool backward);
void walk_piece_close(WalkPiece *piece, Walk *walk); // reduces what backward left

// logits_CP (fp32) of loss rows first..first+C-1, and what comes back; P is the piece's count.
void walk_piece_forward(Walk *walk, const WalkPiece *piece, Tensor *logits_CP, int64_t first);
void walk_piece_backward(Walk *walk, const WalkPiece *piece, const Tensor *dlogits_CP, int64_t first);
