#!/bin/sh
# whet compare as a user meets it: arms trained, stopped and gone on with, what is written, what is refused.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
"$build"/tests/tool_make_model "$work/llama" llama || exit 1
cat >"$work/recipe.yaml" <<'R'
grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 8, max_num_epochs: 100, val_period: 4,
       val_at_start: true, max_val_samples: 10, val_batch_size: 10}
policy:
  precision: bfloat16
  train_global_batch_size: 8
  max_total_sequence_length: 96
  generation: {max_new_tokens: 12, val_temperature: 1.0}
checkpointing: {save_period: 4}
data:
  train: {dataset_name: arithmetic, left: [0, 9], right: [0, 9], split_validation_size: 10}
  default: {env_name: last_integer}
R
vary=policy.automodel_cfg.fsdp_output_dtype=float32,bfloat16
# compare FOLDER [word …]
compare() {
    out=$1; shift
    "$whet" compare "$work/recipe.yaml" policy.model_name="$work/llama" --out "$work/$out" "$@"
}
compare whole --vary $vary --seeds 1,2 >"$work/whole.txt" 2>"$work/err"; check "arms are trained and compared" $?
for name in summary.json report.html curves.svg curves.png memory.svg memory.png float32_seed1/metrics.jsonl bfloat16_seed2/step_8; do
    [ -e "$work/whole/$name" ]; check "$name is there" $?
done
grep -q 'bfloat16 against float32: not decided' "$work/whole.txt"; check "a verdict" $?
grep -q 'The prompts of all 8 batches are the same' "$work/whole.txt"; check "the proofs" $?
compare whole --vary $vary --seeds 1,2 >"$work/again.txt" 2>"$work/err" && [ "$(grep -c 'there already' "$work/err")" = 4 ] &&
    cmp "$work/whole.txt" "$work/again.txt"
check "the same command runs nothing again and says the same" $?
# Stopped by a signal wherever it is, and gone on with: the same figures but for times.
tries=0 status=143
while [ $tries -lt 30 ] && [ $status = 143 ]; do
    tries=$((tries + 1))
    timeout --preserve-status -s TERM "0.$((tries % 3 + 1))" "$whet" compare "$work/recipe.yaml" policy.model_name="$work/llama" \
        --out "$work/stopped" --vary $vary --seeds 1,2 >"$work/stopped.txt" 2>"$work/err"
    status=$?
done
[ $status = 0 ] || { compare stopped --vary $vary --seeds 1,2 >"$work/stopped.txt" 2>"$work/err"; status=$?; }
figures() { grep '^| bfloat16, seed\|^| [0-9]\|^- \*\*\|^- bfl' "$1" | grep -v '^| [a-z0-9]*, seed [0-9] | [0-9.]* | [0-9.]* |$'; }
figures "$work/whole.txt" >"$work/a"; figures "$work/stopped.txt" >"$work/b"
[ $status = 0 ] && [ -s "$work/a" ] && cmp "$work/a" "$work/b"; check "stopped $tries times and gone on with: the same figures" $?
"$whet" compare "$work/whole/float32_seed1" "$work/whole/bfloat16_seed1" --out "$work/runs" >"$work/out" 2>&1 && [ -f "$work/runs/summary.json" ]
check "runs that exist" $?
compare planned --vary $vary --plan >"$work/out" 2>&1 && grep -q 'alive at it: unit_output' "$work/out" && [ -f "$work/planned/plan.json" ] &&
    [ ! -d "$work/planned/float32" ]
check "a plan runs nothing" $?
compare first --vary $vary --first-difference --steps 1 >"$work/out" 2>/dev/null && grep -q 'root unit, rms_norm_forward' "$work/out"
check "the first difference" $?
"$whet" compare --first-difference "$work/whole/float32_seed1" "$work/whole/float32_seed2" --steps 1 --out "$work/first" >"$work/out" 2>/dev/null &&
    grep -q 'The first tensor whose bits differ: step 1' "$work/out"
check "the first difference of two runs" $?
for arm in 1 2 3 4; do compare beside --vary $vary --seeds 1,2 --arm $arm --quiet >"$work/out" 2>&1 & done
wait
compare beside --vary $vary --seeds 1,2 >"$work/beside.txt" 2>"$work/err" && [ "$(grep -c 'there already' "$work/err")" = 4 ] &&
    figures "$work/beside.txt" >"$work/b" && cmp "$work/a" "$work/b"
check "arms side by side: the same figures" $?
printf '# Title\n\n<!-- compare whole/summary.json verdict -->\n<!-- /compare -->\n' >"$work/page.md"
"$whet" compare --document "$work/page.md" && grep -q 'not decided' "$work/page.md"; check "figures in a document" $?
refuse() { # refuse STATUS PATTERN word …
    expected=$1 pattern=$2; shift 2
    "$whet" compare "$@" >"$work/out" 2>"$work/err"
    [ $? = "$expected" ] && grep -q "$pattern" "$work/err" && [ "$(grep -c '' "$work/err")" = 1 ]; check "refused: $*" $?
}
refuse 2 'a recipe or runs are missing'
refuse 2 'vary KEY=A,B is missing' "$work/recipe.yaml"
refuse 2 'belongs to --plan' "$work/recipe.yaml" --vary $vary --ranks 2
refuse 2 'belongs to runs' "$work/recipe.yaml" --vary $vary --plan --margin 0.1
refuse 2 'two recipes' "$work/recipe.yaml" --first-difference --vary grpo.seed=1,2,3
refuse 2 'two recipes' "$work/recipe.yaml" --first-difference
refuse 1 'there are 2' "$work/recipe.yaml" policy.model_name="$work/llama" --vary $vary --arm 3 --out "$work/none"
refuse 1 'is no run' "$work/whole/float32_seed1" "$work/llama"
refuse 1 'unknown key' "$work/recipe.yaml" --vary policy.precisoin=float32,bfloat16
refuse 1 "'policy.precisoin'; there is no such setting; did you mean policy.precision?" "$work/whole/float32_seed1" "$work/whole/bfloat16_seed1" --vary policy.precisoin
refuse 1 'grpo.seed decides which questions are asked' "$work/recipe.yaml" policy.model_name="$work/llama" --vary grpo.seed=1,2 --out "$work/none"
: >"$work/file"
refuse 1 "^whet compare: $work/file/float32: cannot make the folder: Not a directory" "$work/recipe.yaml" policy.model_name="$work/llama" --vary $vary --out "$work/file" --quiet
refuse 1 'holds a run by another recipe' "$work/recipe.yaml" policy.model_name="$work/llama" --vary $vary --seeds 1,2 --out "$work/whole" grpo.num_prompts_per_step=4 policy.train_global_batch_size=16
check_closing
