#!/bin/sh
# The real program on ranks that share the model: the bits of one rank in samples, metrics and checkpoints, whatever shares training
# and sampling have, resumed with other shares too; what cannot be divided is refused by name.
set -u
family=qwen3
# shellcheck source=tests/support/ranked_runs.sh
. tests/support/ranked_runs.sh
cat >"$work/recipe.yaml" <<'R'
grpo: {num_prompts_per_step: 4, num_generations_per_prompt: 2, max_num_steps: 2, max_num_epochs: 100, val_period: 2,
       val_at_start: false, max_val_samples: 3, val_batch_size: 3}
policy:
  precision: bfloat16
  train_global_batch_size: 8
  train_micro_batch_size: 2
  max_total_sequence_length: 64
  generation: {max_new_tokens: 8}
  optimizer: {kwargs: {lr: 1.0e-3}}
  scheduler: null
checkpointing: {save_period: 1, keep_top_k: null}
data:
  train: {dataset_name: arithmetic, operations: ["+"], left: [0, 9], right: [0, 30], split_validation_size: 3}
  default: {env_name: last_integer}
R
training=policy.automodel_cfg.tensor_parallel_size sampling=policy.generation.vllm_cfg.tensor_parallel_size
train 0 alone; check "one process" $?
train 2 both $training=2 $sampling=2 && same alone both 2; check "two ranks share training and sampling" $?
train 2 trained $training=2 && same alone trained 2; check "two ranks share training, each samples alone" $?
train 2 sampled $sampling=2 && same alone sampled 2; check "two ranks share sampling alone" $?
train 4 mesh $training=2 && same alone mesh 2; check "two by two ranks, each samples alone" $?
train 4 crossed $sampling=2 && same alone crossed 2; check "four ranks, two and two of which share sampling" $?
set -- policy.sequence_packing.enabled=false policy.dynamic_batching.enabled=true
train 0 dynamic-alone "$@" && train 4 dynamic $training=2 $sampling=2 "$@" && same dynamic-alone dynamic 2
check "two by two ranks, dynamic batches" $?

rows=policy.automodel_cfg.sequence_parallel=true
train 2 rows $training=2 $rows && same alone rows 2; check "two ranks divide the rows too" $?
train 4 rows-mesh $training=2 $rows && same alone rows-mesh 2; check "two by two ranks, of which two divide the rows" $?
for output in bfloat16 float16; do
    set -- policy.automodel_cfg.fsdp_output_dtype=$output policy.automodel_cfg.activation_checkpointing=true
    train 0 alone-$output "$@" && train 2 rows-$output "$@" $training=2 $rows && same alone-$output rows-$output 2
    check "two ranks divide rows of recomputed blocks, outputs in $output" $?
done
ranks 0 "$whet" train "$work/recipe.yaml" policy.model_name="$work/model" logger.log_dir="$work/rows-alone/logs" \
    checkpointing.checkpoint_dir="$work/rows-alone" $rows >"$work/out" 2>&1 && same alone rows-alone 2 &&
    grep -q "sequence_parallel has no effect: one tensor-parallel rank" "$work/out"
check "one rank has all rows, and says so" $?

set -- grpo.max_num_steps=1 grpo.val_period=1
train 0 six-alone "$@" whet.tensor_segments=6 &&
    ranks 6 "$whet" train "$work/recipe.yaml" policy.model_name="$work/model" logger.log_dir="$work/six/logs" \
        checkpointing.checkpoint_dir="$work/six" "$@" $training=6 >"$work/out" 2>&1 && same six-alone six 1 &&
    [ "$(grep -c "6 ranks cannot share the model's 2 segments of sums: .* whet.tensor_segments=6" "$work/out")" = 1 ]
check "six ranks share what the model's own segments cannot be: the bits of as many segments, and said so" $?

train 4 moved $training=2 grpo.max_num_steps=1 && train 2 moved && same alone moved 2
check "two by two ranks, resumed on two that share nothing" $?
train 2 shared grpo.max_num_steps=1 && train 2 shared $training=2 && same alone shared 2
check "two ranks that share nothing, resumed on two that share" $?
train 2 alone-again $training=2 grpo.max_num_steps=1 && train 0 alone-again && same alone alone-again 2
check "two ranks that share, resumed alone" $?

refused() { # refused SAYS N [key=value …]
    says=$1 number=$2; shift 2
    ! train "$number" no "$@" >"$work/out" 2>&1 && grep -q "$says" "$work/out" && [ "$(grep -c "$says" "$work/out")" = 1 ]
}
refused "$training: 4 does not divide 6 query heads, .*; possible are 1, 2, 6" 4 $training=4
check "a number of ranks that does not divide the heads" $?
refused "$training is 2, which does not divide the number of ranks, 1" 1 $training=2; check "more than there are ranks" $?
refused "whet.tensor_segments: 1 cannot be shared by the 2 ranks" 2 $training=2 whet.tensor_segments=1
check "segments that ranks cannot share" $?
check_closing
