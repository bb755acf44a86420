#!/bin/sh
# whet export: what is written is the same model, in one file or in several; refusals leave nothing behind.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
printf '{"ids":[1,2,3,4,5,6,7,8,9]}\n{"ids":[9,8,7,6,5,4,3,2,1]}\n' >"$work/texts"
scores() { "$whet" score "$1" "$work/texts" --precision float32 2>/dev/null; }
for family in llama qwen2 qwen3 mistral smollm3; do
    "$build"/tests/tool_make_model "$work/$family" $family || exit 1
    "$whet" export "$work/$family" "$work/$family-out" --dtype float32 --quiet &&
        scores "$work/$family" >"$work/a" && scores "$work/$family-out" >"$work/b" && cmp "$work/a" "$work/b"
    check "$family: float32 is the same model to the bit" $?
done
"$whet" export "$work/qwen2" "$work/parts" --dtype float32 --max-shard-size 64K --quiet &&
    [ "$(ls "$work"/parts/model-*-of-*.safetensors | wc -l)" -gt 2 ] && [ ! -e "$work/parts/model.safetensors" ] &&
    scores "$work/parts" >"$work/b" && scores "$work/qwen2" >"$work/a" && cmp "$work/a" "$work/b"
check "several files are the same model" $?
for dtype in bfloat16 float16; do
    "$whet" export "$work/llama" "$work/$dtype" --dtype $dtype --quiet && "$whet" export "$work/$dtype" "$work/$dtype-again" --dtype $dtype --quiet &&
        cmp "$work/$dtype/model.safetensors" "$work/$dtype-again/model.safetensors" && scores "$work/$dtype" >"$work/b"
    check "$dtype: rounded once" $?
done
cat >"$work/recipe.yaml" <<R
grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 2, val_period: 0}
policy:
  model_name: $work/llama
  precision: float32
  train_global_batch_size: 8
  max_total_sequence_length: 64
  tokenizer: {chat_template: "{% for m in messages %}{{ m['content'] }}{% endfor %}"}
  generation: {max_new_tokens: 8}
  scheduler: null
checkpointing: {save_period: 2, checkpoint_dir: $work/run, metric_name: null}
logger: {log_dir: $work/run}
data:
  train: {dataset_name: arithmetic, operations: ["+"], left: [0, 4], right: [0, 4]}
  default: {env_name: last_integer}
R
"$whet" train "$work/recipe.yaml" --quiet && "$whet" export "$work/run/step_2" "$work/trained" --dtype float32 --quiet &&
    scores "$work/run/step_2" >"$work/a" && scores "$work/trained" >"$work/b" && cmp "$work/a" "$work/b"
check "a checkpoint's masters" $?
grep -q "for m in messages" "$work/trained/chat_template.jinja" && cmp -s "$work/llama/tokenizer.json" "$work/trained/tokenizer.json"
check "with the run's chat template and the model's tokenizer" $?
# With less room of its own than the largest tensor takes (the embedding: 108 MiB in float32).
real=${WHET_SMOLLM2:-${WHET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/whet}/SmolLM2-135M-Instruct.Q4_1.gguf}
if [ -f "$real" ] && command -v prlimit >/dev/null; then
    prlimit --data=60000000 "$whet" export "$real" "$work/large" --dtype float32 --quiet
    check "in little memory" $?
    rm -rf "$work/large"
else
    skipped=$((skipped + 1))
fi
refuse() { # refuse STATUS PATTERN ARGUMENT …
    wanted=$1 pattern=$2
    shift 2
    "$whet" export "$@" >"$work/out" 2>&1
    status=$?
    [ $status = "$wanted" ] && [ "$(grep -c '' "$work/out")" = 1 ] && grep -q "$pattern" "$work/out"
    check "refused: $*" $?
}
refuse 1 "trained.*config.json already" "$work/llama" "$work/trained"
refuse 1 "no-such" "$work/no-such" "$work/new"
refuse 2 "dtype.*int8.*bfloat16" "$work/llama" "$work/new" --dtype int8
refuse 1 "texts/folder" "$work/llama" "$work/texts/folder"
[ ! -e "$work/new" ]; check "refusals leave nothing behind" $?
check_closing
