#include "config/settings_table.h"

#include "base/strbuf.h"
#include "config/override.h"
#include "config/settings.h"
#include "config/settings_key.h"

#include <stdio.h>
#include <string.h>

// Honoured keys. A text ending in _OR_NULL takes null too, which gives the field that number.
#define BOOL(name, field, value, text)                                                                                 \
    { .key = name, .type = SETTING_BOOL, .offset = offsetof(Settings, field), .fallback = value, .help = text }
#define INTEGER(name, field, value, least, most, text)                                                                 \
    {                                                                                                                  \
        .key = name, .type = SETTING_INTEGER, .offset = offsetof(Settings, field), .fallback = value, .low = least,    \
        .high = most, .help = text                                                                                     \
    }
#define INTEGER_OR_NULL(name, field, value, least, most, off, text)                                                    \
    {                                                                                                                  \
        .key = name, .type = SETTING_INTEGER, .offset = offsetof(Settings, field), .fallback = value, .low = least,    \
        .high = most, .nullable = true, .null_value = off, .help = text                                                \
    }
#define REAL(name, field, value, least, most, text)                                                                    \
    {                                                                                                                  \
        .key = name, .type = SETTING_REAL, .offset = offsetof(Settings, field), .fallback = value, .low = least,       \
        .high = most, .help = text                                                                                     \
    }
#define REAL_OR_NULL(name, field, value, off, text)                                                                    \
    {                                                                                                                  \
        .key = name, .type = SETTING_REAL, .offset = offsetof(Settings, field), .fallback = value, .nullable = true,   \
        .null_value = off, .help = text                                                                                \
    }
#define TEXT(name, field, value, text)                                                                                 \
    { .key = name, .type = SETTING_TEXT, .offset = offsetof(Settings, field), .fallback = value, .help = text }
#define TEXT_OR_NULL(name, field, value, text)                                                                         \
    {                                                                                                                  \
        .key = name, .type = SETTING_TEXT, .offset = offsetof(Settings, field), .fallback = value, .nullable = true,   \
        .help = text                                                                                                   \
    }
#define CHOICE(name, field, value, choices, text)                                                                      \
    {                                                                                                                  \
        .key = name, .type = SETTING_CHOICE, .offset = offsetof(Settings, field), .fallback = value,                   \
        .allowed = choices, .help = text                                                                               \
    }
#define CHOICE_OR_NULL(name, field, value, choices, text)                                                              \
    {                                                                                                                  \
        .key = name, .type = SETTING_CHOICE, .offset = offsetof(Settings, field), .fallback = value,                   \
        .allowed = choices, .nullable = true, .help = text                                                             \
    }
#define SHAPED(name, shape, field, value, text)                                                                        \
    { .key = name, .type = shape, .offset = offsetof(Settings, field), .fallback = value, .help = text }
#define SHAPED_OR_NULL(name, shape, field, value, text)                                                                \
    {                                                                                                                  \
        .key = name, .type = shape, .offset = offsetof(Settings, field), .fallback = value, .nullable = true,          \
        .help = text                                                                                                   \
    }
// Honoured through the keys whose defaults name it.
#define SOURCE(name, kind, value, text)                                                                                \
    { .key = name, .type = kind, .offset = SETTING_NOWHERE, .fallback = value, .help = text }
#define SOURCE_OR_NULL(name, value, text)                                                                              \
    { .key = name, .type = SETTING_TEXT, .offset = SETTING_NOWHERE, .fallback = value, .nullable = true, .help = text }
// Refused but for the values that ask for nothing.
#define ONLY(name, value, choices, text)                                                                               \
    { .key = name, .class = SETTING_REFUSED, .fallback = value, .allowed = choices, .open = true, .help = text }
// Accepted without effect, for the reason given; IDLE_TREE with whatever lies below.
#define IDLE(name, value, reason)                                                                                      \
    { .key = name, .class = SETTING_NOT_APPLICABLE, .fallback = value, .help = reason }
#define IDLE_TREE(name, value, reason)                                                                                 \
    { .key = name, .class = SETTING_NOT_APPLICABLE, .fallback = value, .open = true, .help = reason }

#define BILLION 1e9
#define GYM "A penalty of NeMo-Gym's agents, which do not run here."
#define MEGATRON "an internal of Megatron; whet trains and samples with its own engine"
#define FUSED_LOSS "the loss always runs with the head; policy.logprob_chunk_size says by how many tokens"
#define MULTI_TOKEN "has a meaning with policy.megatron_cfg.mtp_num_layers only"
#define NO_EXPERTS "there are no experts"
#define ONE_STAGE "there is one pipeline stage: ranks divide the weights of every layer; results do not depend on it"
#define VLLM "an internal of vLLM; whet samples with its own engine"
#define ENVIRONMENT "an environment that is not here; a data set that names it is refused"
#define OTHER_ENGINE "a key of another generation backend; whet samples with its own engine"
#define RAY "an internal of Ray's workers; whet is one program"
#define RANKS "ranks are those that mpirun or srun starts; results do not depend on their number"
#define UPLOAD "metrics go to metrics.jsonl; nothing is sent to services"
#define GPU_MONITOR "no GPU is watched; memory by kind and phase is in the metrics"
#define AUTOMODEL "an internal of Automodel's loaders and kernels"
#define ASYNC "has a meaning with grpo.async_grpo.enabled only"
#define LORA "has a meaning with policy.automodel_cfg.lora_cfg.enabled only"
#define ONE_MEMORY "there is one memory"
#define ONE_PROGRAM "sampling runs where training runs; results do not depend on it"
#define FLOAT32_STATES "masters, gradients and moments are float32, divided over the ranks"
#define FUSED_ADAM "an option of Transformer Engine's FusedAdam, which policy.optimizer.name refuses"
#define QUANTISED "has a meaning with policy.quant_cfg only"

const Setting settings_table[] = {
    INTEGER("grpo.num_prompts_per_step", grpo.num_prompts_per_step, "32", 1, 1e6, "Questions of one step."),
    INTEGER("grpo.num_generations_per_prompt", grpo.num_generations_per_prompt, "16", 1, 1e6,
            "Samples of each question: the group that its advantages are computed in."),
    ONLY("grpo.max_rollout_turns", "1", "1", "Turns of a conversation with an environment."),
    INTEGER("grpo.max_num_epochs", run.max_num_epochs, "1", 1, BILLION, "Passes over the questions at most."),
    INTEGER("grpo.max_num_steps", run.max_num_steps, "1000000", 1, BILLION, "Steps at most, over all epochs."),
    SOURCE("grpo.normalize_rewards", SETTING_BOOL, "true", "Default of grpo.adv_estimator.normalize_rewards."),
    SOURCE("grpo.use_leave_one_out_baseline", SETTING_BOOL, "true",
           "Default of grpo.adv_estimator.use_leave_one_out_baseline."),
    INTEGER("grpo.val_period", run.val_period, "10", -BILLION, BILLION, "Validate every so many steps; 0: never."),
    INTEGER("grpo.val_start_at", run.val_start_at, "-1", -1, BILLION, "No periodic validation before this step."),
    BOOL("grpo.val_at_start", run.val_at_start, "false", "Validate before the first step too."),
    BOOL("grpo.val_at_end", run.val_at_end, "false", "Validate after the last step too."),
    INTEGER_OR_NULL("grpo.max_val_samples", grpo.max_val_samples, "256", 1, BILLION, BILLION,
                    "Questions of one validation at most; null: all."),
    INTEGER_OR_NULL("grpo.val_batch_size", grpo.val_batch_size, "256", 1, BILLION, 0,
                    "Questions validated together; null: all."),
    INTEGER(
        "grpo.val_num_generations_per_prompt", grpo.val_num_generations_per_prompt, "1", 1, 1e6,
        "Samples of each question in validation; from 2 on pass_k too, the share of questions with a reward above 0."),
    CHOICE_OR_NULL("grpo.stop_at_validation_metric", grpo.stop_at_validation_metric, "null",
                   "accuracy, pass_k, avg_length",
                   "The run ends when this metric of a validation reaches the threshold."),
    REAL_OR_NULL("grpo.stop_at_validation_threshold", grpo.stop_at_validation_threshold, "null", (double)NAN,
                 "That threshold; both keys or neither."),
    INTEGER("grpo.seed", run.seed, "42", 0, 9e18, "Seed of everything that is random."),
    BOOL("grpo.overlong_filtering", grpo.overlong_filtering, "false",
         "Leave samples cut off by a limit out of the loss; their rewards still count in the baseline."),
    REAL_OR_NULL("grpo.advantage_clip_low", adv_estimator.advantage_clip_low, "null", -(double)INFINITY,
                 "Advantages are not below this."),
    REAL_OR_NULL("grpo.advantage_clip_high", adv_estimator.advantage_clip_high, "null", (double)INFINITY,
                 "Advantages are not above this."),
    TEXT("grpo.adv_estimator.name", adv_estimator.name, "grpo",
         "How rewards become advantages: grpo, reinforce_plus_plus, raw_reward; gdpo for rewards of several "
         "components."),
    BOOL("grpo.adv_estimator.normalize_rewards", adv_estimator.normalize_rewards, "${grpo.normalize_rewards}",
         "Divide advantages by the spread of the group's rewards."),
    BOOL("grpo.adv_estimator.use_leave_one_out_baseline", adv_estimator.use_leave_one_out_baseline,
         "${grpo.use_leave_one_out_baseline}", "A sample's baseline is the mean of the others of its group."),
    BOOL("grpo.adv_estimator.minus_baseline", adv_estimator.minus_baseline, "true",
         "reinforce_plus_plus: take the mean of the group off the reward."),
    SHAPED_OR_NULL(
        "grpo.adv_estimator.reward_weights", SETTING_WEIGHTS, adv_estimator.reward_weights, "null",
        "A weight for each component of the reward, by name in alphabetical order: of the reward, and with gdpo of the "
        "advantages; null: 1."),
    BOOL("grpo.adv_estimator.normalize_advantages", adv_estimator.normalize_advantages, "true",
         "raw_reward: whiten the rewards over the tokens of the batch."),
    BOOL("grpo.skip_reference_policy_logprobs_calculation", grpo.skip_reference_policy_logprobs_calculation, "false",
         "Do without the reference policy; needs loss_fn.reference_policy_kl_penalty 0."),
    BOOL("grpo.use_dynamic_sampling", grpo.use_dynamic_sampling, "false",
         "Leave out groups whose rewards are all equal, and sample again until a step is full (DAPO)."),
    INTEGER("grpo.dynamic_sampling_max_gen_batches", grpo.dynamic_sampling_max_gen_batches, "10", 1, 1e6,
            "Rollouts of one step at most with grpo.use_dynamic_sampling; a step that is not full then ends the run."),
    REAL("grpo.batch_multiplier", grpo.batch_multiplier, "1", SETTING_ABOVE_ZERO, 1e6,
         "One rollout asks so many times grpo.num_prompts_per_step questions; with grpo.use_dynamic_sampling only."),
    BOOL("grpo.reward_shaping.enabled", reward_shaping.enabled, "false",
         "Lower the rewards of answers that are long or cut off."),
    INTEGER_OR_NULL("grpo.reward_shaping.overlong_buffer_length", reward_shaping.overlong_buffer_length, "128", 0,
                    BILLION, -1, "Answers lose reward from max_response_length less this many tokens on."),
    REAL_OR_NULL("grpo.reward_shaping.overlong_buffer_penalty", reward_shaping.overlong_buffer_penalty, "1", NAN,
                 "What an answer of max_response_length tokens loses; in between linearly."),
    INTEGER_OR_NULL("grpo.reward_shaping.max_response_length", reward_shaping.max_response_length,
                    "${policy.max_total_sequence_length}", 0, BILLION, -1, "Tokens at which the penalty is whole."),
    REAL_OR_NULL("grpo.reward_shaping.stop_properly_penalty_coef", reward_shaping.stop_properly_penalty_coef, "null",
                 NAN,
                 "In place of the penalty by length: factor from 0 to 1 for rewards of answers cut off by a limit."),
    BOOL("grpo.reward_scaling.enabled", reward_scaling.enabled, "false",
         "Map rewards linearly to another range, before everything else."),
    REAL("grpo.reward_scaling.source_min", reward_scaling.source_min, "0.0", 0, 0, "Lower rewards count as this."),
    REAL("grpo.reward_scaling.source_max", reward_scaling.source_max, "1.0", 0, 0, "Higher rewards count as this."),
    REAL("grpo.reward_scaling.target_min", reward_scaling.target_min, "0.0", 0, 0, "What source_min becomes."),
    REAL("grpo.reward_scaling.target_max", reward_scaling.target_max, "1.0", 0, 0, "What source_max becomes."),
    IDLE("grpo.seq_logprob_error_threshold", "null",
         "the log-probabilities of sampling and training are the same bits (train/max_abs_logprob_error), so no "
         "sequence "
         "is to be left out"),
    ONLY("grpo.invalid_tool_call_advantage", "null", "null", "Advantage of invalid tool calls."),
    ONLY("grpo.malformed_thinking_advantage", "null", "null", "Advantage of malformed thinking tags."),
    ONLY("grpo.invalid_tool_call_strategy", NULL, "null", "What becomes of invalid tool calls."),
    ONLY("grpo.num_val_generations_per_prompt", NULL, "1",
         "Another name of grpo.val_num_generations_per_prompt, which NeMo-RL does not read."),
    ONLY("grpo.penalize_invalid_tool_call", NULL, "false", "A penalty for invalid tool calls."),
    ONLY("grpo.penalize_malformed_thinking", NULL, "false", "A penalty for malformed thinking tags."),
    ONLY("grpo.zero_variance_prompt_filtering", NULL, "false",
         "A key that NeMo-RL does not read; grpo.use_dynamic_sampling leaves out groups of equal rewards."),
    ONLY("grpo.async_grpo.enabled", "false", "false", "Sample and train at the same time."),
    IDLE("grpo.async_grpo.max_trajectory_age_steps", "1", ASYNC),
    IDLE("grpo.async_grpo.max_generation_failures", "0", ASYNC),
    IDLE("grpo.async_grpo.in_flight_weight_updates", "false", ASYNC),
    IDLE("grpo.async_grpo.recompute_kv_cache_after_weight_updates", "false", ASYNC),
    IDLE("grpo.calculate_advantages_on_gpu", NULL, "advantages are computed on the host"),
    IDLE("grpo.deduplicate_multimodal_data", NULL, "there are no images"),
    IDLE("grpo.debug_payload_metrics", NULL, RAY),

    ONLY("reward_penalties.penalize_duplicated_reasoning", "false", "false", GYM),
    ONLY("reward_penalties.penalize_empty_final_answer", "false", "false", GYM),
    ONLY("reward_penalties.penalize_unwanted_tokens", "false", "false", GYM),
    ONLY("reward_penalties.penalize_malformed_think_tag", "false", "false", GYM),
    IDLE_TREE("reward_penalties.token_ids", "null", GYM),

    INTEGER("sft.max_num_epochs", run.max_num_epochs, "1", 1, BILLION, "Passes over the conversations at most."),
    INTEGER("sft.max_num_steps", run.max_num_steps, "60", 1, BILLION, "Steps at most, over all epochs."),
    INTEGER("sft.val_period", run.val_period, "10", -BILLION, BILLION, "Validate every so many steps; 0: never."),
    INTEGER("sft.val_batches", sft.val_batches, "8", -BILLION, BILLION,
            "Batches of a validation; 0 or less: all conversations that are held out."),
    INTEGER("sft.val_global_batch_size", sft.val_global_batch_size, "32", 1, BILLION,
            "Conversations of one of these batches."),
    INTEGER("sft.val_micro_batch_size", sft.val_micro_batch_size, "1", 1, BILLION,
            "Conversations walked together in validation, without packing and dynamic batching: memory, not results."),
    BOOL("sft.val_at_start", run.val_at_start, "true", "Validate before the first step too."),
    BOOL("sft.val_at_end", run.val_at_end, "false", "Validate after the last step too."),
    INTEGER("sft.seed", run.seed, "42", 0, 9e18, "Seed of everything that is random."),
    BOOL("sft.only_unmask_final", sft.only_unmask_final, "false",
         "Loss falls on the last message alone, not on all of the assistant's."),

    REAL("loss_fn.reference_policy_kl_penalty", loss_fn.reference_policy_kl_penalty, "0.01", 0, 0,
         "Weight of the KL term towards the policy that training began with."),
    CHOICE("loss_fn.reference_policy_kl_type", loss_fn.reference_policy_kl_type, "k3", "k1, k2, k3",
           "Estimator of the KL term."),
    REAL_OR_NULL("loss_fn.kl_input_clamp_value", loss_fn.kl_input_clamp_value, "20.0", (double)INFINITY,
                 "Differences of log-probabilities are clamped to this before the KL term."),
    REAL_OR_NULL("loss_fn.kl_output_clamp_value", loss_fn.kl_output_clamp_value, "10.0", (double)INFINITY,
                 "The KL term of a token is clamped to this."),
    REAL("loss_fn.ratio_clip_min", loss_fn.ratio_clip_min, "0.2", 0, 0, "Ratios below 1 - this are clipped."),
    REAL("loss_fn.ratio_clip_max", loss_fn.ratio_clip_max, "0.2", 0, 0, "Ratios above 1 + this are clipped."),
    REAL_OR_NULL("loss_fn.ratio_clip_c", loss_fn.ratio_clip_c, "null", NAN,
                 "Dual clip: bounds the loss of tokens with negative advantage."),
    BOOL("loss_fn.use_on_policy_kl_approximation", loss_fn.use_on_policy_kl_approximation, "false",
         "Weight the KL term by the ratio to the sampler."),
    BOOL("loss_fn.use_importance_sampling_correction", loss_fn.use_importance_sampling_correction, "false",
         "Weight tokens by the ratio of trainer and sampler."),
    CHOICE_OR_NULL("loss_fn.truncated_importance_sampling_type", loss_fn.truncated_importance_sampling_type, "null",
                   "tis, icepop, seq-mask-tis", "How that weight is bounded."),
    REAL_OR_NULL("loss_fn.truncated_importance_sampling_ratio", loss_fn.truncated_importance_sampling_ratio, "null",
                 NAN, "Its upper bound."),
    REAL_OR_NULL("loss_fn.truncated_importance_sampling_ratio_min", loss_fn.truncated_importance_sampling_ratio_min,
                 "null", NAN, "Its lower bound."),
    BOOL("loss_fn.sequence_level_importance_ratios", loss_fn.sequence_level_importance_ratios, "false",
         "One ratio for each sequence (GSPO)."),
    BOOL("loss_fn.token_level_loss", loss_fn.token_level_loss, "true",
         "Every token of the batch weighs the same; false: every sequence."),
    BOOL("loss_fn.force_on_policy_ratio", loss_fn.force_on_policy_ratio, "false",
         "Take the ratio as 1; needs one optimizer step for each rollout."),
    BOOL("loss_fn.use_kl_in_reward", loss_fn.use_kl_in_reward, "false",
         "Take the KL penalty off the reward at each token, not into the loss; reinforce_plus_plus does."),
    BOOL("loss_fn.use_cispo", loss_fn.use_cispo, "false", "The clipped ratio weighs the log-probability (CISPO)."),
    BOOL("loss_fn.disable_ppo_ratio", loss_fn.disable_ppo_ratio, "false",
         "The log-probability in place of the ratio (REINFORCE)."),
    REAL("loss_fn.positive_example_nll_weight", loss_fn.positive_example_nll_weight, "0.0", 0, 0,
         "Weight of the likelihood of rewarded samples."),

    BOOL("checkpointing.enabled", checkpointing.enabled, "true", "Write checkpoints."),
    TEXT("checkpointing.checkpoint_dir", checkpointing.checkpoint_dir, "results/grpo",
         "Folder of the run: its step_N are resumed from, too."),
    TEXT_OR_NULL("checkpointing.metric_name", checkpointing.metric_name, "'val:accuracy'",
                 "What decides which checkpoints stay: val: or train: and a metric; null: the newest."),
    BOOL("checkpointing.higher_is_better", checkpointing.higher_is_better, "true", "The sense of that metric."),
    INTEGER_OR_NULL("checkpointing.keep_top_k", checkpointing.keep_top_k, "3", 1, BILLION, -1,
                    "So many of the checkpoints of save_period stay, and the newest of all; null: all of them."),
    INTEGER("checkpointing.save_period", checkpointing.save_period, "10", 1, BILLION, "Steps between checkpoints."),
    BOOL("checkpointing.save_optimizer", checkpointing.save_optimizer, "true",
         "Write AdamW's moments too; without them a resumed run starts with none."),
    TEXT_OR_NULL("checkpointing.checkpoint_must_save_by", checkpointing.checkpoint_must_save_by, "null",
                 "DD:HH:MM:SS since the start: the run saves and ends before another step would be too late."),
    ONLY("checkpointing.model_save_format", "safetensors", "safetensors, null", "Format of the weights."),
    ONLY("checkpointing.save_consolidated", "false", "false",
         "A second copy for Transformers; every checkpoint's weights can be loaded by it already."),
    INTEGER_OR_NULL("checkpointing.ft_keep_latest_k", checkpointing.ft_keep_latest_k, "null", 1, BILLION, 0,
                    "So many of the newest checkpoints stay, besides those of keep_top_k."),
    INTEGER_OR_NULL("checkpointing.ft_save_period", checkpointing.ft_save_period, "null", 1, BILLION, 0,
                    "Steps between checkpoints that are no candidates of keep_top_k, against failures."),
    ONLY("checkpointing.pretrained_checkpoint", "null", "null", "A checkpoint in Megatron's format to start from."),
    IDLE("checkpointing.is_async", NULL, "checkpoints are written before the next step begins"),
    IDLE("checkpointing.model_cache_dir", NULL, AUTOMODEL),
    IDLE("checkpointing.model_repo_id", NULL, AUTOMODEL),
    ONLY("checkpointing.is_peft", "false", "false", "Checkpoints of adapters."),

#include "config/settings_policy.inc"

#include "config/settings_megatron.inc"

    INTEGER_OR_NULL("data.max_input_seq_length", data.max_input_seq_length, "${policy.max_total_sequence_length}", 1,
                    BILLION, BILLION, "Tokens of a prompt at most; the samples of a longer one are left out."),
    BOOL("data.shuffle", data.shuffle, "true", "Another order of the questions in every epoch."),
    IDLE("data.num_workers", "1", "questions are read by the program itself"),
    BOOL("data.use_multiple_dataloader", data.use_multiple_dataloader, "false",
         "Each data set of data.train has an order and epochs of its own, and they take turns."),
    INTEGER_OR_NULL("data.num_prompts_per_dataloader", data.num_prompts_per_dataloader, "null", 1, 1e6, 0,
                    "Prompts of a turn, with data.use_multiple_dataloader; divides those of a rollout."),
    BOOL("data.add_bos", data.add_bos, "true", "sft: the tokenizer's bos before a conversation that has none."),
    BOOL("data.add_eos", data.add_eos, "true",
         "sft: the tokenizer's eos behind a conversation that does not end in it."),
    BOOL("data.add_generation_prompt", data.add_generation_prompt, "false",
         "sft: no loss on the words with which the chat template begins an answer."),
    ONLY("data.custom_dataloader", NULL, "null", "A Python function that mixes data sets; here they take turns."),
    {.key = "data.train",
     .type = SETTING_DATASETS,
     .help = "The training questions: a data set, or a list of them. data.default and data.validation take the same "
             "keys (docs/data.md)."},
    TEXT("data.train.dataset_name", data.entry.dataset_name, "OpenMathInstruct-2",
         "arithmetic (questions that are made), gsm8k, ResponseDataset (data_path), or a file or folder."),
    TEXT_OR_NULL("data.train.data_path", data.entry.data_path, "null", "ResponseDataset: a file or folder of rows."),
    TEXT_OR_NULL("data.train.split", data.entry.split, "null",
                 "Which file of a folder, or part of gsm8k; null: train, in data.validation test."),
    TEXT_OR_NULL("data.train.input_key", data.entry.input_key, "null",
                 "Where a row has the question; null: the data set's own key, of files input."),
    TEXT_OR_NULL("data.train.output_key", data.entry.output_key, "null",
                 "Where a row has the right answer; null: the data set's own key, of files output."),
    TEXT_OR_NULL("data.train.chat_key", data.entry.chat_key, "null",
                 "Where a row has a conversation; null: messages, where there is one."),
    TEXT_OR_NULL("data.train.tool_key", data.entry.tool_key, "tools",
                 "sft: where a row has the tools that the chat template is given."),
    TEXT_OR_NULL("data.train.system_key", data.entry.system_key, "null", "Where a row has a system message."),
    TEXT_OR_NULL("data.train.system_prompt", data.entry.system_prompt, "null",
                 "The system message of rows that have none."),
    IDLE("data.train.use_preserving_dataset", NULL, "rows are always handed on as they stand"),
    {.key = "data.train.split_validation_size",
     .type = SETTING_REAL,
     .offset = offsetof(Settings, data.entry.split_validation_size),
     .fallback = "null",
     .high = BILLION,
     .nullable = true,
     .null_value = NAN,
     .help = "Questions kept for validation: a share when below 1, else their number; null: 0.05 without "
             "data.validation, else 0."},
    INTEGER("data.train.seed", data.entry.seed, "${grpo.seed}", 0, 9e18, "Which questions are kept."),
    ONLY("data.train.subset", NULL, "null, main, default", "A part of a data set of the hub."),
    INTEGER("data.train.repeat", data.entry.repeat, "1", 1, BILLION,
            "So many passes over the questions count as one; without split_validation_size."),
    INTEGER_OR_NULL("data.train.max_samples", data.entry.max_samples, "null", 1, BILLION, 0,
                    "Take so many of the rows; which ones data.train.seed decides."),
    ONLY("data.train.allowed_problem_types", NULL, "null", "Which questions of a video data set are taken."),
    IDLE("data.train.video_target_num_patches", NULL, "has a meaning with videos only"),
    IDLE("data.train.video_maintain_aspect_ratio", NULL, "has a meaning with videos only"),
    IDLE("data.train.download_dir", NULL, "`whet pull` fetches data into the cache"),
    ONLY("data.add_system_prompt", NULL, "false", "A system message of the environment's own."),
    BOOL("data.train.verifiable_only", data.entry.verifiable_only, NULL,
         "NuminaMath-1.5: leave out rows without an answer to compare with; true unless given."),
    BOOL("data.train.require_valid", data.entry.require_valid, NULL,
         "NuminaMath-1.5: leave out rows that are not marked as valid; true unless given."),
    BOOL("data.train.extract_answer", data.entry.extract_answer, "true",
         "gsm8k: the answer is what stands behind ####; false, with sft: all of it."),
    TEXT("data.train.env_name", data.entry.env_name, "${data.default.env_name}",
         "The reward: math, dapo, number, last_integer, english_multichoice, math_multi_reward, or one with "
         "env.<name>.command (docs/rewards.md)."),
    TEXT_OR_NULL("data.train.prompt_file", data.entry.prompt_file, "${data.default.prompt_file}",
                 "A text with the slot {} for the question."),
    TEXT_OR_NULL("data.train.system_prompt_file", data.entry.system_prompt_file, "${data.default.system_prompt_file}",
                 "A text that is the system message."),
    CHOICE("data.train.processor", data.entry.processor, "${data.default.processor}",
           "math_hf_data_processor, sft_processor, default",
           "How a row becomes ids: question into prompt_file, chat template; sft_processor with sft."),
    SHAPED("data.train.operations", SETTING_OPERATIONS, data.entry.arithmetic, "['+']", "arithmetic: of + - *."),
    SHAPED("data.train.left", SETTING_RANGE, data.entry.arithmetic.left_min, "[10,99]",
           "arithmetic: least and greatest left number."),
    SHAPED("data.train.right", SETTING_RANGE, data.entry.arithmetic.right_min, "[1,9]",
           "arithmetic: least and greatest right number."),
    {.key = "data.validation",
     .type = SETTING_DATASETS,
     .fallback = "null",
     .nullable = true,
     .help = "Validation questions besides those that data.train holds out: a data set, a list of them, or null."},
    SOURCE("data.default.env_name", SETTING_TEXT, "math", "Default of data.train.env_name."),
    SOURCE_OR_NULL("data.default.prompt_file", "null", "Default of data.train.prompt_file."),
    SOURCE_OR_NULL("data.default.system_prompt_file", "null", "Default of data.train.system_prompt_file."),
    SOURCE("data.default.processor", SETTING_TEXT, "math_hf_data_processor", "Default of data.train.processor."),
    ONLY("data.train_data_path", NULL, "null", "The older name of data.train.data_path."),
    ONLY("data.val_data_path", NULL, "null", "The older name of data.validation.data_path."),

    {.key = "env", .type = SETTING_GROUP, .fallback = "{}", .nullable = true, .help = "Rewards by name."},
    {.key = "env.math",
     .type = SETTING_GROUP,
     .fallback = "{}",
     .nullable = true,
     .help = "The reward math: keys are those of env.<name>."},
    CHOICE_OR_NULL("env.<name>.math_verify_impl", data.reward.math_verify_impl, NULL,
                   "hf_math_verify, dapo_math_verify", "math: compare values, or normalised texts as DAPO does."),
    CHOICE_OR_NULL("env.<name>.verifier_type", data.reward.verifier_type, NULL, "math, english_multichoice",
                   "math: compare answers, or letters of choices."),
    SHAPED_OR_NULL("env.<name>.command", SETTING_COMMAND, data.reward.command, NULL,
                   "A program that scores answers, JSON lines in and out (docs/rewards.md)."),
    REAL("env.<name>.timeout_seconds", data.reward.timeout_seconds, NULL, SETTING_ABOVE_ZERO, 1e6,
         "Seconds that the command has for a batch; 300 unless given."),
    ONLY("env.<name>.stop_strings", NULL, "null", "Stop strings of an environment; policy.generation.stop_strings."),
    IDLE("env.<name>.num_workers", NULL, "answers are judged by the program itself"),
    ONLY("env.should_use_nemo_gym", NULL, "false", "Rewards of NeMo-Gym's agents."),
    IDLE("env.should_log_nemo_gym_responses", NULL, "has a meaning with env.should_use_nemo_gym only"),
    IDLE("env.should_mask_flagged_samples", NULL, "has a meaning with env.should_use_nemo_gym only"),
    IDLE_TREE("env.<name>.cfg", NULL,
              "an option of an environment that is not here; a data set that names it is refused"),
    IDLE_TREE("env.<name>.reward_functions", NULL,
              "an option of an environment that is not here; a data set that names it is refused"),
    IDLE_TREE("env.code", NULL, ENVIRONMENT),
    IDLE_TREE("env.code_jaccard", NULL, ENVIRONMENT),
    IDLE_TREE("env.vlm", NULL, ENVIRONMENT),
    IDLE_TREE("env.reward_model", NULL, ENVIRONMENT),
    IDLE_TREE("env.nemo_gym", NULL, ENVIRONMENT),

    TEXT("logger.log_dir", logger.log_dir, "logs", "Folder of metrics and samples."),
    INTEGER("logger.num_val_samples_to_print", logger.num_val_samples_to_print, "0", 0, BILLION,
            "Answers shown after a validation."),
    BOOL("logger.tensorboard_enabled", logger.tensorboard_enabled, "false",
         "Write the metrics as TensorBoard events too, in log_dir/tensorboard."),
    IDLE("logger.wandb_enabled", "false", UPLOAD),
    IDLE("logger.mlflow_enabled", "false", UPLOAD),
    IDLE("logger.swanlab_enabled", "false", UPLOAD),
    IDLE("logger.monitor_gpus", "true", GPU_MONITOR),
    IDLE_TREE("logger.wandb", "{}", UPLOAD),
    IDLE_TREE("logger.tensorboard", "{}", "options of PyTorch's writer; events go to log_dir/tensorboard"),
    IDLE_TREE("logger.mlflow", "{}", UPLOAD),
    IDLE_TREE("logger.swanlab", "{}", UPLOAD),
    IDLE("logger.gpu_monitoring.collection_interval", "10", GPU_MONITOR),
    IDLE("logger.gpu_monitoring.flush_interval", "10", GPU_MONITOR),

    IDLE("cluster.gpus_per_node", "1", RANKS),
    IDLE("cluster.num_nodes", "1", RANKS),
    IDLE("cluster.master_port_range_low", "1400", RAY),
    IDLE("cluster.master_port_range_high", "1999", RAY),
    IDLE("cluster.segment_size", "null", RAY),
    IDLE_TREE("data_plane", "{}", RAY),
    ONLY("on_policy_distillation", "null", "null", "Distillation from teachers."),
    ONLY("async_rl", NULL, "null", "Sampling and training at the same time, by a controller."),

    INTEGER("whet.threads", whet.threads, "0", 0, 4096, "Threads; 0: one for each core that the process may use."),
    INTEGER_OR_NULL(
        "whet.tensor_segments", whet.tensor_segments, "null", 1, 16, 0,
        "Parts of the sums that tensor-parallel ranks share: their number is in the bits, that of the ranks, which "
        "divides it, is not; null: the largest of 1, 2, 4, 8 that the model allows, or the number of ranks."),
    INTEGER_OR_NULL(
        "whet.reduction_block", whet.reduction_block, "null", 1, BILLION, 0,
        "Samples whose gradients are summed together, dividing policy.train_micro_batch_size, which then changes "
        "no bit: it is walked in such blocks; null: the micro-batch."),
    INTEGER("whet.kept_blocks", whet.kept_blocks, "0", 0, 100000,
            "Of the last decoder blocks so many keep all that backward reads, whatever "
            "policy.automodel_cfg.activation_checkpointing says: memory for less recomputation; the same bits."),
    TEXT_OR_NULL(
        "whet.template_time", policy.template_time, "null",
        "What a chat template that prints today's date sees, as 2025-03-07 or 2025-03-07T04:05:06; null: now."),
    REAL("whet.min_p", generation.min_p, "0", 0, 1,
         "Sample from tokens at least so many times as likely as the likeliest; 0: all."),
    REAL("whet.val_min_p", val_generation.min_p, "${whet.min_p}", 0, 1, "min_p in validation."),
    INTEGER("whet.max_sequences", generation.max_sequences, "64", 1, 65536, "Samples decoded together."),
    INTEGER("whet.kv_cache_tokens", generation.kv_cache_tokens, "0", 0, 2147483647,
            "Tokens that the cache of keys and values holds; 0: what whet.max_sequences need."),
    INTEGER("whet.prefill_chunk", generation.prefill_chunk, "256", 1, 65536, "Prompt tokens walked at once."),
};
const size_t settings_table_count = sizeof settings_table / sizeof *settings_table;

static const Setting *find(const char *key) {
    for (size_t i = 0; i < settings_table_count; i++)
        if (!strcmp(settings_table[i].key, key)) return &settings_table[i];
    return NULL;
}

const Setting *settings_table_find(const char *key) {
    char row[SETTINGS_KEY_SIZE];
    const Setting *own = find(key);
    return own ? own : find(settings_key_row(row, key));
}

static bool is_group(const char *key) {
    for (size_t i = 0; i < settings_table_count; i++)
        if (strcmp(settings_table[i].key, key) && settings_key_at_or_below(settings_table[i].key, key)) return true;
    return false;
}

bool settings_table_group(const char *key) {
    char row[SETTINGS_KEY_SIZE];
    return is_group(key) || is_group(settings_key_row(row, key));
}

bool settings_table_knows(const char *key) {
    return settings_table_find(key) || settings_table_group(key);
}

bool settings_table_idle(const char *key) {
    bool group = false;
    for (size_t i = 0; i < settings_table_count; i++) {
        if (!strcmp(settings_table[i].key, key) || !settings_key_at_or_below(settings_table[i].key, key)) continue;
        if (settings_table[i].class == SETTING_HONOURED) return false;
        group = true;
    }
    return group;
}

const Setting *settings_table_open(const char *key) {
    for (size_t i = 0; i < settings_table_count; i++)
        if (settings_table[i].open && strcmp(key, settings_table[i].key) &&
            settings_key_at_or_below(key, settings_table[i].key))
            return &settings_table[i];
    return NULL;
}

bool settings_table_nullable(const char *key) {
    const Setting *row = settings_table_find(key);
    return row && row->nullable;
}

Algorithm settings_table_algorithm(const Value *root) {
    return value_get(root, settings_key_section(ALGORITHM_SFT)) ? ALGORITHM_SFT : ALGORITHM_GRPO;
}

const char *settings_table_fallback(const Setting *row, Algorithm algorithm) {
    // Where NeMo-RL's sft.yaml differs from its grpo_math_1B.yaml.
    static const char *const sft[][2] = {{"checkpointing.checkpoint_dir", "results/sft"},
                                         {"checkpointing.metric_name", "'val:val_loss'"},
                                         {"checkpointing.higher_is_better", "false"},
                                         {"policy.train_global_batch_size", "32"},
                                         {"policy.train_micro_batch_size", "1"},
                                         {"policy.max_total_sequence_length", "1024"},
                                         {"policy.sequence_packing.enabled", "false"},
                                         {"policy.optimizer.kwargs.weight_decay", "0.1"},
                                         {"policy.optimizer.kwargs.betas", "[0.9,0.98]"},
                                         {"policy.optimizer.kwargs.eps", "1e-5"},
                                         {"policy.scheduler", "null"},
                                         {"policy.megatron_cfg.optimizer.min_lr", "4.9999e-6"},
                                         {"policy.megatron_cfg.optimizer.weight_decay", "0.1"},
                                         {"policy.megatron_cfg.optimizer.adam_beta2", "0.98"},
                                         {"policy.megatron_cfg.optimizer.adam_eps", "1e-5"},
                                         {"policy.megatron_cfg.scheduler.lr_warmup_iters", "50"},
                                         {"policy.megatron_cfg.scheduler.lr_warmup_init", "4.9999e-6"},
                                         {"data.train.seed", "${sft.seed}"},
                                         {"data.default.processor", "sft_processor"}};
    if (!row->fallback || !settings_key_serves(row->key, algorithm)) return NULL;
    for (size_t i = 0; algorithm == ALGORITHM_SFT && i < sizeof sft / sizeof *sft; i++)
        if (!strcmp(sft[i][0], row->key)) return sft[i][1];
    return row->fallback;
}

Value *settings_table_defaults(Arena *arena, Algorithm algorithm) {
    static const Origin origin = {.place = SETTINGS_TABLE_DEFAULT};
    Value *root = value_container(arena, VALUE_MAP, origin);
    for (size_t i = 0; i < settings_table_count; i++) {
        const Setting *row = &settings_table[i];
        const char *fallback = settings_table_fallback(row, algorithm);
        if (!fallback) continue;
        Value *at = root, *value;
        Error error;
        CHECK(override_value(&value, arena, fallback, origin, &error), "%s: %s", row->key, error.text);
        const char *rest = row->key;
        char part[256];
        for (;;) {
            CHECK(value_next_part(&rest, part, sizeof part), "key %s", row->key);
            if (!*rest) break;
            if (!value_get(at, part)) value_set(arena, at, part, value_container(arena, VALUE_MAP, origin));
            at = value_get(at, part);
        }
        // An open tree's own default must not hide the rows below it.
        if (!value_get(at, part)) value_set(arena, at, part, value);
    }
    return root;
}
