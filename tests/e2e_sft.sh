#!/bin/sh
# Supervised fine-tuning by the real program on a tiny random model: the loss falls, every precision and family trains, killed at
# random moments and resumed to the same bits, the checkpoint generates.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
for family in llama qwen2; do "$build"/tests/tool_make_model "$work/$family" $family || exit 1; done
cat >"$work/recipe.yaml" <<'R'
sft: {max_num_steps: 24, max_num_epochs: 100, val_period: 8, val_batches: 0, val_global_batch_size: 4}
policy:
  precision: float32
  train_global_batch_size: 8
  train_micro_batch_size: 4
  max_total_sequence_length: 96
  optimizer: {kwargs: {lr: 1.0e-3}}
checkpointing: {save_period: 1, keep_top_k: 2}
data:
  train: {dataset_name: arithmetic, operations: ["+"], left: [0, 9], right: [0, 9], split_validation_size: 9}
R
train() { # train NAME MODEL [key=value …]: a run in its own folder
    name=$1 model=$2; shift 2
    "$whet" train "$work/recipe.yaml" policy.model_name="$work/$model" logger.log_dir="$work/$name/logs" \
        checkpointing.checkpoint_dir="$work/$name" --quiet "$@"
}
bits() { # bits A B: the last checkpoints hold the same weights and moments
    for file in policy/weights/model/model.safetensors policy/optimizer/optim/optimizer.safetensors; do
        cmp "$work/$1/step_24/$file" "$work/$2/step_24/$file" || return 1
    done
}
losses() { grep -o '"\(train/loss\|validation/val_loss\)":[^,}]*' "$work/$1/logs/metrics.jsonl"; }
for model in llama qwen2; do
    train $model $model; check "$model trains" $?
    losses $model | awk -F: '/train/ { if (!n++) first = $2; last = $2 } END { exit !(n == 24 && last < first / 2) }'
    check "$model: the loss falls" $?
    train $model-cut $model whet.threads=3 policy.train_micro_batch_size=8 whet.reduction_block=4 policy.logprob_chunk_size=11 \
        sft.val_micro_batch_size=3 whet.prefill_chunk=40 && bits $model $model-cut
    check "$model: threads, micro-batches and chunks change no bit" $?
done
kills=0
while [ $kills -lt 8 ]; do
    "$whet" train "$work/recipe.yaml" policy.model_name="$work/llama" logger.log_dir="$work/killed/logs" \
        checkpointing.checkpoint_dir="$work/killed" --quiet &
    pid=$!
    sleep "0.$((3 + kills * 5 % 7))"
    kill -9 $pid 2>/dev/null || kills=8
    kills=$((kills + 1))
    wait $pid 2>/dev/null
done
train killed llama && bits llama killed && losses llama >"$work/a" && losses killed >"$work/b" && cmp "$work/a" "$work/b"
check "killed and resumed: same bits, same losses" $?
for precision in bfloat16 float16; do
    for output in float32 bfloat16 float16; do
        train $precision-$output llama policy.precision=$precision ++policy.automodel_cfg.fsdp_output_dtype=$output \
            policy.automodel_cfg.activation_checkpointing=true policy.dynamic_batching.enabled=true &&
            losses $precision-$output | awk -F: '/train/ { if (!n++) first = $2; last = $2 } END { exit !(last < first / 2) }'
        check "the loss falls: $precision, outputs in $output" $?
    done
done
"$whet" generate "$work/llama/step_24" "What is 1 + 2?" --max-new-tokens 4 --json | grep -q '"logprobs":\[-'
check "a checkpoint generates" $?
# shellcheck source=tests/support/mpirun.sh
set -- "$whet" && . tests/support/mpirun.sh
if [ -n "$mpirun_command" ]; then
    for size in 1 2; do # ranks that share the model
        # shellcheck disable=SC2086 # words
        timeout 60 $mpirun_command 2 "$whet" train "$work/recipe.yaml" policy.model_name="$work/llama" --quiet \
            logger.log_dir="$work/ranks/logs" checkpointing.enabled=false policy.automodel_cfg.tensor_parallel_size=$size
        losses ranks >"$work/b"; cmp "$work/a" "$work/b"; check "two ranks, $size of them sharing the model: the losses of one" $?
        rm -rf "$work/ranks"
    done
else
    skipped=2
fi
train both llama ++grpo.seed=1 2>"$work/err"; [ $? = 1 ] && grep -q "a recipe has one algorithm" "$work/err"
check "two algorithms are refused" $?
check_closing
