// What passes between the stages of a step: one plain host struct of columns. The rollout fills ids, logprobs and finish
// reasons; the reward stage rewards; the advantage stage advantages; training reads them all.
#pragma once
#include "base/arena.h"
#include "text/reward.h"

#include <stdbool.h>
#include <stdint.h>

// How an answer ended.
typedef enum FinishReason {
    FINISH_STOP,        // by a stop id, its last token
    FINISH_STOP_STRING, // by a stop string, which its last token completes
    FINISH_LENGTH,      // cut off by a limit
    FINISH_NAN          // the logits held NaN or infinity, or were all -infinity: no token could be drawn
} FinishReason;
const char *samples_finish_name(FinishReason reason); // "stop" (both kinds), "length", "nan"

// B samples; the tokens of sample b are ids[offset[b]] … ids[offset[b + 1] - 1], prompt first. All arrays are owned by the
// step's arena. Per-token columns have offset[B] entries; column t belongs to token t (0 where a token has no such value).
typedef struct Samples {
    int64_t count;              // B
    int32_t *prompt;            // [B] index of the prompt in this step: the group
    int32_t *question;          // [B] index in the dataset
    int64_t *offset;            // [B + 1]
    int32_t *prompt_length;     // [B] tokens of the prompt; the answer is what follows, empty only after FINISH_NAN
    int32_t *ids;               // [tokens]
    float *generation_logprobs; // [tokens] as the sampler recorded them, 0 on the prompt
    float *reference_logprobs;  // [tokens] of the reference policy (unfiltered, tempered), or NULL
    FinishReason *finish;       // [B]
    int32_t *stopped_by;        // [B] the stop id, or the number of the stop string; -1 when neither ended the answer
    const char **text;          // [B] decoded answer, special tokens left out
    float *reward;              // [B]
    float *valid;               // [B] 1, or 0: the sample takes part in no statistic and no loss
    int component_count;        // of the reward; 0: it has none, or the samples' rewards have different ones
    const char *component_name[REWARD_MAX_COMPONENTS]; // ascending
    float *component[REWARD_MAX_COMPONENTS];           // [B] each
    float *advantage;                                  // [tokens]
} Samples;

// Room for count samples of so many tokens in all: the columns that the rollout fills, zeros. out->count stays 0.
void samples_open(Samples *out, int64_t count, int64_t tokens, Arena *arena);

// The reward of every valid sample becomes Σ weights[c] · component[c], in double; one weight for each component.
void samples_weigh_reward(Samples *samples, const double *weights);

// Adds the samples of `from` for which keep[b] to the pool (zero-initialised: empty), in order, at most `most` of them, with
// every column that `from` has; both must have the same. The pool's arrays are the arena's. Returns how many of those to be
// kept were left over.
int64_t samples_append(Samples *pool, const Samples *from, const bool *keep, int64_t most, Arena *arena);
