#!/bin/sh
# recipes/output_dtype_gsm8k.yaml as it stands, but for the model (the same architecture, tiny and random), the questions (made up, laid
# out as gsm8k) and how many there are in a step: what the recipe says is what happens.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
recipe=recipes/output_dtype_gsm8k.yaml
"$build"/tests/tool_make_model "$work/qwen2" qwen2 || exit 1
export WHET_CACHE="$work/cache"
mkdir -p "$WHET_CACHE/data/gsm8k"
for split in train test; do
    n=0
    while [ $n -lt 20 ]; do # a random model says a digit last now and then
        printf '{"question": "%s %d: Ann has %d apples, and buys 2. How many has she?", "answer": "<<%d+2=%d>>She has %d.\\n#### %d"}\n' \
            $split $n $((n % 8)) $((n % 8)) $((n % 8 + 2)) $((n % 8 + 2)) $((n % 8 + 2))
        n=$((n + 1))
    done >"$WHET_CACHE/data/gsm8k/$split.jsonl"
done

# The recipe holds what the original experiment was.
"$whet" config $recipe >"$work/config" 2>/dev/null
while read -r line; do
    sed 's/ *#.*//; s/^ *//' "$work/config" | grep -qxF -- "$line"; check "the recipe has '$line'" $?
done <<'R'
model_name: Qwen/Qwen2.5-Math-1.5B-Instruct
num_prompts_per_step: 32
num_generations_per_prompt: 8
train_global_batch_size: 256
train_micro_batch_size: 4
max_total_sequence_length: 1536
max_new_tokens: 1024
lr: 5.0e-06
max_val_samples: 512
val_temperature: 1.0
reference_policy_kl_penalty: 0.01
R
sed -n '/^  dynamic_batching:/,/^  sequence_packing:/p' "$work/config" | grep -q '^    enabled: true ' &&
    sed -n '/^  dynamic_batching:/,/^  sequence_packing:/p' "$work/config" | grep -q '^    train_mb_tokens: 6144 '
check "micro-batches of 4 · 1,536 tokens" $?
grep -q '^  scheduler: .*LinearLR, kwargs: {start_factor: 0.1, end_factor: 1.0, total_iters: 50}' "$work/config"; check "50 updates of warm-up" $?

"$whet" train $recipe policy.model_name="$work/qwen2" +policy.hf_config_overrides.max_position_embeddings=1536 \
    checkpointing.checkpoint_dir="$work/run" grpo.num_prompts_per_step=3 grpo.max_val_samples=12 \
    grpo.max_num_steps=4 grpo.val_period=2 checkpointing.save_period=2 >"$work/out" 2>"$work/err"
check "it trains" $?
# value STEP NAME: of a metric
value() { sed -n "s|^{\"step\":$1,.*\"$2\":\([^,}]*\).*|\1|p" "$work/run/metrics.jsonl"; }
holds() { awk "BEGIN { exit !($2) }"; check "$1: $2" $?; }
for step in 1 2 3 4; do
    holds "warm-up of 50 steps" "($(value $step train/lr) - 5e-6 * (0.1 + 0.9 * ($step - 1) / 50)) ^ 2 < 1e-20"
    holds "sampler and trainer agree" "$(value $step train/max_abs_logprob_error) == 0"
    holds "samples of an update" "$(value $step train/global_valid_seqs) == 24"
done
holds "the policy has left the reference" "$(value 4 train/kl_penalty) > 0"
holds "answers longer than the toy's windows" "$(value 1 train/max_gen_tokens_per_sample) > 512 && $(value 1 train/max_gen_tokens_per_sample) <= 1024"
for step in 0 2 4; do
    sed -n 's/.*\(test [0-9]*\): Ann.*/\1/p' "$work/run/val_data_step$step.jsonl" >"$work/asked"
    sed -n '1,12s/.*\(test [0-9]*\): Ann.*/\1/p' "$WHET_CACHE/data/gsm8k/test.jsonl" | cmp -s - "$work/asked"
    check "step $step: the first questions of the test split are asked" $?
done
[ -d "$work/run/step_2" ] && [ -d "$work/run/step_4" ]; check "checkpoints" $?
check_closing
