// Everything a recipe can say, as structs. Each field's key, default, range and meaning is a row of config/settings_table.c;
// fields carry the name of their key's last part. `whet config RECIPE` prints them all (config/explain.h).
#pragma once
#include "config/settings_key.h"
#include "config/value.h"
#include "model/precision.h"
#include "rollout/generation_options.h"
#include "text/dataset.h"
#include "text/reward.h"
#include "train/advantage.h"
#include "train/loss.h"
#include "train/micro_batches.h"
#include "train/optimizer.h"
#include "train/reward_shaping.h"
#include "train/walk.h"

// What grpo.* and sft.* both say: how long a run is, and when it validates.
typedef struct RunOptions {
    int64_t max_num_steps, max_num_epochs; // whichever ends first
    int64_t val_period;                    // 0 or less: no periodic validation
    int64_t val_start_at;                  // no periodic validation before this step
    bool val_at_start, val_at_end;
    int64_t seed;
} RunOptions;

// grpo.*
typedef struct GrpoOptions {
    int64_t num_prompts_per_step, num_generations_per_prompt; // P, G
    int64_t max_val_samples, val_batch_size;                  // questions
    int64_t val_num_generations_per_prompt;                   // samples of each
    const char *stop_at_validation_metric;                    // "accuracy", …; NULL: no early end
    double stop_at_validation_threshold;                      // NAN: none
    bool overlong_filtering; // truncated samples take part in the baseline, not in the loss
    bool skip_reference_policy_logprobs_calculation;
    bool use_dynamic_sampling; // sample until P groups have rewards that differ
    int64_t dynamic_sampling_max_gen_batches;
    double batch_multiplier; // prompts of one rollout, in P
} GrpoOptions;

// sft.*
typedef struct SftOptions {
    int64_t val_batches;           // 0 or less: as many as there are
    int64_t val_global_batch_size; // conversations of one of them
    int64_t val_micro_batch_size;  // of these walked together
    bool only_unmask_final;        // loss falls on the last message alone
} SftOptions;

// policy.*
typedef struct PolicyOptions {
    const char *model_name; // folder or GGUF file
    const char *tokenizer_name, *chat_template;
    const char *chat_template_kwargs; // a JSON object, or NULL
    const char *hf_config_overrides;  // the same
    const char *template_time;        // whet.template_time; NULL: now
    const char *precision, *fsdp_output_dtype;
    PrecisionPolicy dtypes; // what the two say
    WalkCheckpointing activation_checkpointing;
    int64_t tensor_parallel_size;    // ranks that share the model in training
    bool sequence_parallel;          // and rows of micro-batches
    int64_t train_global_batch_size; // samples of one optimizer step; divides P · G
    int64_t train_micro_batch_size, logprob_batch_size;
    int64_t logprob_chunk_size; // tokens whose logits exist at a time; 0: our choice (null)
    int64_t max_total_sequence_length;
    DynamicBatchingOptions dynamic_batching;
    SequencePackingOptions sequence_packing;
    BatchingOptions batching; // what these and train_micro_batch_size say
} PolicyOptions;

// policy.megatron_cfg.*: enabled, it says how to train in place of policy.automodel_cfg, policy.optimizer and policy.scheduler
// (config/settings_megatron.h).
typedef struct MegatronOptions {
    bool enabled;
    int64_t tensor_model_parallel_size;
    bool sequence_parallel;
    bool activation_checkpointing;
    const char *recompute_granularity; // "full" or "selective"
    const char *optimizer;             // "adam"
    double lr, min_lr, weight_decay, adam_beta1, adam_beta2, adam_eps;
    double clip_grad;                            // 0: no clipping
    double start_weight_decay, end_weight_decay; // NAN: weight_decay
    const char *lr_decay_style;                  // "constant", "linear" or "cosine"
    int64_t lr_decay_iters, lr_warmup_iters;     // steps; 0: none given
    double lr_warmup_init;
} MegatronOptions;

// data.*, env.*
typedef struct DataOptions {
    int64_t max_input_seq_length; // samples of longer prompts are left out
    bool shuffle;
    bool use_multiple_dataloader;       // an order for each data set of data.train, taken in turn
    int64_t num_prompts_per_dataloader; // by so many; 0: one order for all
    bool add_bos, add_eos;      // around a conversation that is learned from, where the template leaves them out
    bool add_generation_prompt; // what begins an answer belongs to the message before it
    int64_t train_count, validation_count;
    DatasetOptions *train, *validation; // data.train, data.validation
    int64_t reward_count;
    RewardOptions *rewards; // env.*
    DatasetOptions entry;   // the one that is being read
    RewardOptions reward;   // the one that is being read
} DataOptions;

// checkpointing.*
typedef struct CheckpointOptions {
    bool enabled;
    const char *checkpoint_dir;
    const char *metric_name; // "val:accuracy", "train:reward"; NULL: keep the newest
    bool higher_is_better;
    int64_t keep_top_k; // -1: all (null)
    int64_t save_period;
    bool save_optimizer;
    int64_t ft_save_period, ft_keep_latest_k; // 0: none (null)
    const char *checkpoint_must_save_by;      // "DD:HH:MM:SS" since the start; NULL: none
    double must_save_seconds;                 // what it says; 0: none
} CheckpointOptions;

// logger.*
typedef struct LoggerOptions {
    const char *log_dir;
    bool tensorboard_enabled;
    int64_t num_val_samples_to_print;
} LoggerOptions;

// whet.*: what NeMo-RL has no key for. The engine's keys are in GenerationOptions.
typedef struct WhetOptions {
    int64_t threads;         // 0: all cores that the process may use
    int64_t reduction_block; // 0: the micro-batch (null)
    int64_t tensor_segments; // 0: those of the model (null)
    int64_t kept_blocks;     // of the last ones, without activation checkpointing
} WhetOptions;

// A key that the recipe sets and that means nothing here.
typedef struct SettingsNote {
    const char *key, *value, *origin, *reason;
} SettingsNote;

typedef struct Settings {
    Algorithm algorithm; // whose keys the others are
    RunOptions run;
    GrpoOptions grpo;
    SftOptions sft;
    AdvantageOptions adv_estimator;
    RewardScaling reward_scaling;
    RewardShaping reward_shaping;
    LossOptions loss_fn;
    CheckpointOptions checkpointing;
    PolicyOptions policy;
    MegatronOptions megatron;
    OptimizerOptions optimizer;
    ScheduleOptions scheduler;
    GenerationOptions generation, val_generation; // training and validation sampling
    DataOptions data;
    LoggerOptions logger;
    WhetOptions whet;
    const char *recipe_path;
    const char *alias; // where policy.dtensor_cfg stands, or NULL
    int64_t note_count;
    SettingsNote *notes; // in the recipe's order
    const Value *tree;   // everything, resolved, with origins
} Settings;

// Loads the recipe and what it inherits over the built-in defaults (those of NeMo-RL's grpo_math_1B), applies the overrides
// in order, resolves interpolations, checks every key against the table and the settings against each other. All memory is
// the arena's. The error names file:line or override, key, value and what is allowed.
bool settings_load(Settings **settings, Arena *arena, const char *recipe_path, int override_count, char **overrides,
                   Error *error);

// One log line for the alias and one for each reason among the notes, with its keys.
void settings_log_notes(const Settings *settings);

// Where the value of a key was written: "recipe.yaml:12", "override grpo.seed=7", "built-in default".
const char *settings_origin(const Settings *settings, Arena *arena, const char *key);

const char *settings_tensor_key(const Settings *settings);    // the key of policy.tensor_parallel_size
bool settings_validates(const Settings *settings);            // validation happens at all
int64_t settings_prompts_per_batch(const Settings *settings); // of one rollout; SFT: conversations of a step
