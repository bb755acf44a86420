// A batch for the training walk, made up: sequences of several lengths, the first tokens of each a prompt without loss.
#pragma once
#include "train/batch.h"

enum { TOY_BATCH_SEQUENCES = 11, TOY_BATCH_LONGEST = 40, TOY_BATCH_PROMPT = 3 };

// Room for the columns of a TrainBatch.
typedef struct ToyBatch {
    int64_t offset[TOY_BATCH_SEQUENCES + 1];
    int32_t ids[TOY_BATCH_SEQUENCES * TOY_BATCH_LONGEST];
    float mask[TOY_BATCH_SEQUENCES * TOY_BATCH_LONGEST], sample_mask[TOY_BATCH_SEQUENCES],
        generation[TOY_BATCH_SEQUENCES * TOY_BATCH_LONGEST], reference[TOY_BATCH_SEQUENCES * TOY_BATCH_LONGEST],
        advantage[TOY_BATCH_SEQUENCES * TOY_BATCH_LONGEST], reward[TOY_BATCH_SEQUENCES];
} ToyBatch;

typedef struct ToyBatchShape {
    int64_t count;         // of sequences, at most TOY_BATCH_SEQUENCES
    int shortest, lengths; // sequence b has shortest + 31 b % lengths tokens
    int left_out;          // a sequence that takes no part; -1: none
    float logprob;         // of the sampler, about; the reference's are 0.1 below
} ToyBatchShape;

// The columns lie in room. The ids are the caller's to fill.
TrainBatch toy_batch(ToyBatch *room, ToyBatchShape shape);
