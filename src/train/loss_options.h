// The options of the policy-gradient loss: loss_fn.* of the recipe.
#pragma once
#include "base/error.h"

#include <stdint.h>

typedef struct LossOptions {
    double reference_policy_kl_penalty;
    const char *reference_policy_kl_type;               // "k1", "k2", "k3"
    double kl_input_clamp_value, kl_output_clamp_value; // INFINITY: off (null)
    double ratio_clip_min, ratio_clip_max;
    double ratio_clip_c; // dual clip; NAN: off (null)
    bool use_on_policy_kl_approximation, use_importance_sampling_correction;
    const char *truncated_importance_sampling_type; // NULL, "tis", "icepop", "seq-mask-tis"
    double truncated_importance_sampling_ratio, truncated_importance_sampling_ratio_min; // NAN: null
    bool sequence_level_importance_ratios, token_level_loss, force_on_policy_ratio, use_kl_in_reward, use_cispo,
        disable_ppo_ratio;
    double positive_example_nll_weight;
} LossOptions;

LossOptions loss_options_default(void); // NeMo-RL's defaults

// Refuses contradictory options, as NeMo-RL does, and those that would have no effect. The message names loss_fn.<key>,
// what was found and what is expected.
bool loss_options_check(const LossOptions *options, Error *error);
