#!/bin/sh
# The real program on ranks that share the model: the bits of one rank in samples, metrics and checkpoints, whatever shares training
# and sampling have, resumed with other shares too; what cannot be divided is refused by name.
set -u
build=${BUILD:-build}
whet=$build/whet
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
check() { # check NAME STATUS
    if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1"; fi
}
# shellcheck source=tests/support/mpirun.sh
set -- "$whet" && . tests/support/mpirun.sh
if [ -z "$mpirun_command" ]; then echo "counted: 0 passed, 0 failed, 1 skipped"; exit 0; fi
"$build"/tests/tool_make_model "$work/qwen3" qwen3 || exit 1
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
# train N NAME [key=value …]: a run of N ranks (0: the program alone) in its own folder
train() {
    number=$1 name=$2; shift 2
    set -- "$whet" train "$work/recipe.yaml" policy.model_name="$work/qwen3" logger.log_dir="$work/$name" \
        checkpointing.checkpoint_dir="$work/$name" --quiet "$@"
    # shellcheck disable=SC2086 # words
    if [ "$number" = 0 ]; then timeout 60 "$@"; else timeout 60 $mpirun_command "$number" "$@"; fi
}
strip() { sed 's/"\(timing\|performance\|memory\)[^,}]*[,}]//g' "$1"; }
same() { # same NAME: metrics, samples, weights and moments are those of one rank
    strip "$work/alone/metrics.jsonl" >"$work/one"; strip "$work/$1/metrics.jsonl" >"$work/other"
    cmp "$work/one" "$work/other" && cmp "$work/alone/train_data_step2.jsonl" "$work/$1/train_data_step2.jsonl" &&
        cmp "$work/alone/val_data_step2.jsonl" "$work/$1/val_data_step2.jsonl" &&
        for file in weights/model/model.safetensors optimizer/optim/optimizer.safetensors; do
            cmp "$work/alone/step_2/policy/$file" "$work/$1/step_2/policy/$file" || return 1
        done
}

train 0 alone; check "one process" $?
[ "$(grep -c '"train/max_abs_logprob_error":0.0' "$work/alone/metrics.jsonl")" = 2 ]; check "log-probs agree" $?
train 2 both $training=2 $sampling=2 && same both; check "two ranks share training and sampling" $?
train 2 trained $training=2 && same trained; check "two ranks share training, each samples alone" $?
train 2 sampled $sampling=2 && same sampled; check "two ranks share sampling alone" $?
train 4 mesh $training=2 && same mesh; check "two by two ranks" $?

train 4 moved $training=2 grpo.max_num_steps=1 && train 2 moved $training=2 && same moved
check "two by two ranks, resumed on two that share" $?
train 2 alone-again $training=2 grpo.max_num_steps=1 && train 0 alone-again && same alone-again
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
echo "counted: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
