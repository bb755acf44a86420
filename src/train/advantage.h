// Rewards → advantages: the estimators of NeMo-RL. Those of a recipe are reached by advantage_estimate; every one works on
// packed sequences, columns by token, double inside, in the order of samples and tokens.
//
//   grpo: reward − baseline of its group, divided by (spread + 1e-6) where normalize_rewards and spread > 0 (Shao et al. 2024;
//     leave-one-out: Ahmadian et al. 2024)
//   gdpo: that for each component of the reward, summed with weights; then the mean over the samples is taken off, and
//     divided by their sample standard deviation unless that is 0 (Liu et al. 2026)
//   reinforce_plus_plus: reward − mean of its group (minus_baseline), at each token less
//     reference_policy_kl_penalty · K of the loss with use_kl_in_reward, then whitened over the tokens with mask ≠ 0: mean
//     off, divided by the root of the population variance, which counts as 1e-8 at least (Hu 2025)
//   raw_reward: the reward, whitened likewise with normalize_advantages
#pragma once
#include "train/loss.h"

enum { ADVANTAGE_MAX_COMPONENTS = 16 };

// grpo.adv_estimator.*, and grpo.advantage_clip_*.
typedef struct AdvantageOptions {
    const char *name;                                   // "grpo", "gdpo", "reinforce_plus_plus", "raw_reward"
    bool normalize_rewards, use_leave_one_out_baseline; // grpo, gdpo
    bool minus_baseline;                                // reinforce_plus_plus
    bool normalize_advantages;                          // raw_reward
    int64_t reward_weight_count;                        // gdpo; 0: 1 for each component (null)
    double reward_weights[ADVANTAGE_MAX_COMPONENTS];    // in alphabetical order of the components' names
    double advantage_clip_low, advantage_clip_high;     // -INFINITY / INFINITY: off (null)
} AdvantageOptions;

// Refuses unknown estimators, those that need another model ("gae", "opd"), and clips that exclude each other, naming
// grpo.<key>; and what the loss leaves to the estimator when that does not do it (use_kl_in_reward).
bool advantage_options_check(const AdvantageOptions *options, const LossOptions *loss, Error *error);

// What the estimators read. Samples with valid = 0 take part in no statistic and get 0; their rewards may be NaN.
typedef struct AdvantageInput {
    int64_t count;         // B
    const int64_t *offset; // [B + 1] tokens of sample b: offset[b] … offset[b + 1] - 1
    const float *reward, *valid;
    const int32_t *group;            // [B] of equal prompts
    const float *mask;               // [tokens] token_mask · sample_mask
    int component_count;             // gdpo: at least 2
    const float *const *components;  // [component_count][B] by name ascending
    const float *policy, *reference; // [tokens] log-probs before the update; read if advantage_needs_reference only
} AdvantageInput;

// Whether the estimator reads reference log-probs: a KL penalty in the reward.
bool advantage_needs_reference(const AdvantageOptions *options, const LossOptions *loss);

// advantage[tokens] of every token, also where mask is 0 (as in NeMo-RL), clipped to [advantage_clip_low,
// advantage_clip_high]. Refuses gdpo with fewer than 2 components or as many weights as there are no components.
bool advantage_estimate(float *advantage, const AdvantageInput *input, const AdvantageOptions *options,
                        const LossOptions *loss, Error *error);

// ---- estimators that need another model: no recipe reaches them

// GAE (Schulman et al. 2016) with the extensions of VAPO (Yue et al. 2025). The reward of sample b lies at its last token with
// mask ≠ 0; use_kl_in_reward takes reference_policy_kl_penalty · K off at each. Backwards over the tokens with mask ≠ 0:
//   δ = reward + γ·V' − V;  A = δ + γ·λ·A', where V' and A' are those of the next such token, 0 behind the last
typedef struct GaeOptions {
    double gae_gamma, gae_lambda;
    double gae_lambda_value, gae_lambda_policy; // λ of returns, of advantages; NAN: gae_lambda (null)
    double length_adaptive_alpha; // > 0: λ of advantages is 1 − 1 / max(α · tokens of the answer, 1), not below 0
    bool normalize_advantages; // mean off, divided by the root of the sample variance + 1e-8, over tokens with mask ≠ 0
} GaeOptions;

// advantage[tokens] (0 where mask is 0) and returns[tokens] = A + V before normalisation (at a token of mask 0 the A carried
// forward). values[tokens] of the value model.
void advantage_gae(float *advantage, float *returns, const AdvantageInput *input, const float *values,
                   const GaeOptions *options, const LossOptions *loss);

// On-policy distillation: (teacher − policy) · mask.
void advantage_opd(float *advantage, const AdvantageInput *input, const float *teacher);
