// One optimizer step on one global batch: micro-batch by micro-batch forward, head and loss in chunks, backward; then the
// global norm, clipping and AdamW. Loss and gradients are normalised by the counts of the whole global batch; each micro-batch
// sums its own from 0, in the order of its tokens, and these sums are added in the order of the micro-batches. So the cut into
// micro-batches is part of the result, and nothing else is: not the chunks of the head, nor recomputation, nor threads.
#pragma once
#include "base/log.h"
#include "comm/comm.h"
#include "ops/softmax.h"
#include "train/batch.h"
#include "train/loss.h"
#include "train/micro_batches.h"
#include "train/walk.h"

typedef struct UpdateOptions {
    BatchingOptions batching; // no sequence may be longer than its budget
    int64_t head_chunk;       // loss rows whose logits exist at a time (policy.logprob_chunk_size); 0: chosen
    SoftmaxFilter filter;     // as in sampling
    OptimizerOptions optimizer;
    double lr;   // of this step
    Comm *stops; // its ranks look between micro-batches whether some was sent a signal; NULL: none looks
    bool nll;    // supervised fine-tuning: −log p instead of the policy-gradient loss
} UpdateOptions;

typedef struct UpdateResult {
    LossMetrics metrics;
    double grad_norm; // before clipping
    double global_valid_seqs, global_valid_toks;
    // max |log-prob of this walk − generation log-prob| over loss tokens: ∞ where this walk's filter drops a sampled token,
    // NaN where one is NaN.
    double max_abs_logprob_error;
    int64_t filtered_tokens;     // loss tokens that top-k or top-p no longer keeps: left out (their log-prob is −∞)
    Overflow overflow;           // of float16 at the boundaries of units
    int64_t nonfinite_gradients; // 1 when the norm was not finite; the step was then skipped
} UpdateResult;

// done, when not NULL, is advanced by each micro-batch's sequences. False when it stopped for a signal: weights and moments are
// as before, *result is undefined.
bool update_policy(UpdateResult *result, Walk *walk, const TrainBatch *batch, const LossOptions *loss,
                   const UpdateOptions *options, Progress *progress, int64_t *done);

// What several optimizer steps of one rollout come to, as NeMo-RL reports it: update_add each to a result that began as
// update_none, then update_average. Means of metrics and of global counts, extrema over all, sums of what was counted;
// grad_norm and max_abs_logprob_error are the last step's.
UpdateResult update_none(void);
void update_add(UpdateResult *sum, const UpdateResult *part);
void update_average(UpdateResult *sum, int64_t steps);
