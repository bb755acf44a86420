// Log-probs of given sequences under a resident model, without gradients: the reference policy, `whet score`, tests. The
// numbers are the bits that the rollout engine records and that the training walk computes for the same tokens.
#pragma once
#include "base/log.h"
#include "model/resident.h"

enum { SCORE_MAX_ROWS = 64 };

// B sequences in host columns: the tokens of sequence b are ids[offset[b]] … ids[offset[b + 1] - 1]; offset[0] may be any
// start. A sequence may be empty.
typedef struct ScoreInput {
    int64_t count;         // B
    const int64_t *offset; // [B + 1] ascending
    const int32_t *ids;
    const float *wanted; // tokens with a nonzero value get a log-prob; NULL: all
    int64_t logit_rows;  // rows whose logits exist at a time; 0, or more than SCORE_MAX_ROWS: so many
} ScoreInput;

// logprobs[t] = log p(ids[t] | the tokens before it in its sequence) with the filter; 0 for the first token of a sequence and
// for tokens not wanted. Walks whole sequences together up to token_budget rows (0: all that the resident has room for); a
// longer one is walked alone in pieces. Pages and logits live during the call (MEMORY_SCRATCH, MEMORY_LOGITS). Refuses ids
// outside the vocabulary and sequences beyond the resident's rotary table. progress (NULL: none) is advanced to the tokens
// walked, of offset[B] - offset[0].
bool score_sequences(Resident *resident, float *logprobs, const ScoreInput *input, SoftmaxFilter filter,
                     int64_t token_budget, Progress *progress, Error *error);
