// What passes between the stages of a step: one plain host struct of columns. The rollout fills ids, logprobs and finish
// reasons; the reward stage rewards; the advantage stage advantages; training reads them all.
#pragma once
#include "base/arena.h"

#include <stdint.h>

typedef enum FinishReason {
    FINISH_STOP,
    FINISH_LENGTH
} FinishReason; // ended by a stop id or string; cut off by a limit

// B samples; the tokens of sample b are ids[offset[b]] … ids[offset[b + 1] - 1], prompt first. All arrays are owned by the
// step's arena. Per-token columns have offset[B] entries; column t belongs to token t (0 where a token has no such value).
typedef struct Samples {
    int64_t count;              // B
    int32_t *prompt;            // [B] index of the prompt in this step: the group
    int32_t *question;          // [B] index in the dataset
    int64_t *offset;            // [B + 1]
    int32_t *prompt_length;     // [B] tokens of the prompt
    int32_t *ids;               // [tokens]
    float *generation_logprobs; // [tokens] as the sampler recorded them, 0 on the prompt
    float *reference_logprobs;  // [tokens] of the reference policy (unfiltered, tempered), or NULL
    FinishReason *finish;       // [B]
    const char **text;          // [B] decoded answer, special tokens left out
    float *reward;              // [B]
    float *valid;               // [B] 1, or 0: the sample takes part in no statistic and no loss
    float *advantage;           // [B]
} Samples;
