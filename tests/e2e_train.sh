#!/bin/sh
# The real program on a tiny random model: the same bits whatever the threads, the instruction set and the batching, killed and
# resumed or not; a mismatch of exactly 0 with every precision, output dtype and filter; refusals that name the key.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
"$build"/tests/tool_make_model "$work/llama" llama && "$build"/tests/tool_make_model "$work/qwen" qwen2 || exit 1
cat >"$work/recipe.yaml" <<'R'
grpo: {num_prompts_per_step: 4, num_generations_per_prompt: 8, max_num_steps: 6, max_num_epochs: 100, val_period: 3,
       val_at_start: true, max_val_samples: 4, val_batch_size: 4}
policy:
  precision: float32
  train_global_batch_size: 16
  train_micro_batch_size: 4
  sequence_packing: {algorithm: concatenative} # keeps the order of the batch
  max_total_sequence_length: 96
  generation: {max_new_tokens: 16}
  optimizer: {kwargs: {lr: 1.0e-3}}
  scheduler: null
checkpointing: {save_period: 2, keep_top_k: null}
data:
  train: {dataset_name: arithmetic, operations: ["+"], left: [0, 4], right: [0, 4], split_validation_size: 5}
  default: {env_name: last_integer}
R
# train NAME MODEL [key=value …]: a run in its own folder
train() {
    name=$1 model=$2; shift 2
    "$whet" train "$work/recipe.yaml" policy.model_name="$work/$model" logger.log_dir="$work/$name/logs" \
        checkpointing.checkpoint_dir="$work/$name" --quiet "$@"
}
bits() { # bits A B: the last checkpoints hold the same weights and moments
    for file in policy/weights/model/model.safetensors policy/optimizer/optim/optimizer.safetensors; do
        cmp "$work/$1/step_6/$file" "$work/$2/step_6/$file" || return 1
    done
}
for model in llama qwen; do
    train $model $model; check "$model trains" $?
    grep -q '"train/reward":0.0*[1-9]' "$work/$model/logs/metrics.jsonl"; check "$model: some rewards are not 0" $?
    first=$work/$model/step_2/policy/weights/model/model.safetensors
    ! cmp -s "$first" "$work/$model/step_6/policy/weights/model/model.safetensors"; check "$model: weights move" $?
    train $model-3 $model whet.threads=3 whet.max_sequences=5 whet.prefill_chunk=7 policy.logprob_chunk_size=11 &&
        bits $model $model-3
    check "$model: threads, batching and chunks change no bit" $?
    static="policy.sequence_packing.enabled=false whet.reduction_block=4"
    # shellcheck disable=SC2086 # several words
    train $model-4 $model $static && train $model-8 $model $static policy.train_micro_batch_size=8 && bits $model-4 $model-8
    check "$model: with a reduction block micro-batches change no bit" $?
    train $model-kv $model whet.kv_cache_tokens=112 policy.generation.vllm_cfg.enable_prefix_caching=false &&
        bits $model $model-kv
    check "$model: a cache for two samples, and none of prefixes, changes no bit" $?
    for isa in scalar avx2 avx512; do
        WHET_ISA=$isa "$whet" score "$work/$model" /dev/null 2>&1 | grep -q "WHET_ISA\|this CPU" && { skipped=$((skipped + 1)); continue; }
        WHET_ISA=$isa train $model-$isa $model whet.threads=1 && bits $model $model-$isa
        check "$model: $isa gives the same bits" $?
    done
done
"$whet" generate "$work/llama/step_6" "What is 1 + 2?" --max-new-tokens 8 --json >"$work/out" && grep -q '"logprobs":\[-' "$work/out"
check "a checkpoint generates" $?
train lost llama policy.optimizer.kwargs.lr=1e3 policy.automodel_cfg.fsdp_output_dtype=float16 2>"$work/err" &&
    grep -q '"train/nan_samples":32.0' "$work/lost/logs/metrics.jsonl" && grep -q "32 of 32 samples ended because" "$work/err"
check "samples whose numbers are lost are counted, and the run goes on" $?
"$whet" score "$work/llama/step_6" - </dev/null 2>/dev/null; [ $? = 1 ]; check "nothing to score is an error" $?
train one llama logger.log_dir="$work/./one/." checkpointing.checkpoint_dir="$work/one" grpo.max_num_steps=1
check "logs and checkpoints in one folder under two names" $?
# Stopped at random moments: killed with SIGKILL, every other time while a checkpoint is being written, and asked to stop by
# SIGTERM and SIGINT. What is resumed is the run that was left alone: same weights and moments, same metrics.
strip() { sed 's/"\(timing\|performance\|memory\)[^,}]*[,}]//g' "$1"; }
same_run() { # same_run A B
    for file in policy/weights/model/model.safetensors policy/optimizer/optim/optimizer.safetensors; do
        cmp "$work/$1/step_40/$file" "$work/$2/step_40/$file" || return 1
    done
    strip "$work/$1/logs/metrics.jsonl" >"$work/a"; strip "$work/$2/logs/metrics.jsonl" >"$work/b"
    cmp "$work/a" "$work/b" && cmp "$work/$1/logs/train_data_step24.jsonl" "$work/$2/logs/train_data_step24.jsonl"
}
long="grpo.max_num_steps=40 checkpointing.save_period=1 checkpointing.keep_top_k=2"
begun=$(date +%s%N)
# shellcheck disable=SC2086 # several words
train alone llama $long grpo.val_num_generations_per_prompt=2; check "a longer run" $?
step=$((($(date +%s%N) - begun) / 40000000 + 1)) # milliseconds of a step on this machine
random=7
draw() { # draw LIMIT: sets drawn, a number below it
    random=$(((random * 1103515245 + 12345) % 2147483648)); drawn=$((random / 65536 % $1))
}
moment() { # so long that a run comes some steps further
    draw $((3 * step)); drawn=$((drawn + 30)); sleep "$(printf '%d.%03d' $((drawn / 1000)) $((drawn % 1000)))"
}
tries=0 kills=0 in_save=0
while [ $kills -lt 20 ] && [ $tries -lt 80 ]; do
    tries=$((tries + 1))
    [ $((tries % 2)) = 0 ] && rm -rf "$work"/killed/tmp_step_* # what is left now was written by the process that follows
    # The program itself in the background, not a subshell around it: the signal must reach it.
    # shellcheck disable=SC2086
    "$whet" train "$work/recipe.yaml" policy.model_name="$work/llama" logger.log_dir="$work/killed/logs" \
        checkpointing.checkpoint_dir="$work/killed" $long grpo.val_num_generations_per_prompt=2 --quiet &
    pid=$!
    if [ $((tries % 2)) = 0 ]; then
        until set -- "$work"/killed/tmp_step_*; [ -d "$1" ] || ! kill -0 $pid 2>/dev/null; do :; done
    else
        moment
    fi
    kill -9 $pid 2>/dev/null && kills=$((kills + 1))
    wait $pid 2>/dev/null
    set -- "$work"/killed/tmp_step_*
    [ $((tries % 2)) = 0 ] && [ -d "$1" ] && in_save=$((in_save + 1))
done
[ $kills -ge 20 ] && [ $in_save -gt 0 ]; check "killed $kills times, $in_save of them in a save" $?
# shellcheck disable=SC2086
train killed llama $long grpo.val_num_generations_per_prompt=2 && same_run alone killed
check "killed with SIGKILL $kills times and resumed: same bits, same metrics" $?
for most in 12 4 1; do # steps until a run is asked: fewer where the machine has become so much faster that it ended first
    rm -rf "$work/asked"
    tries=0 status=130 stopped=0
    while [ $tries -lt 40 ] && [ $status != 0 ]; do
        tries=$((tries + 1)) signal=TERM expected=143
        [ $((tries % 2)) = 0 ] && signal=INT expected=130
        draw $((most * step)); drawn=$((drawn + 100))
        # shellcheck disable=SC2086
        timeout --preserve-status -s $signal "$(printf '%d.%03d' $((drawn / 1000)) $((drawn % 1000)))" \
            "$whet" train "$work/recipe.yaml" policy.model_name="$work/llama" logger.log_dir="$work/asked/logs" \
            checkpointing.checkpoint_dir="$work/asked" $long checkpointing.save_period=7 \
            grpo.val_num_generations_per_prompt=2 2>"$work/err"
        status=$?
        [ $status = 0 ] || [ $status = $expected ] || break
        grep -q "stopped after step" "$work/err" && stopped=$((stopped + 1))
    done
    { [ $status = 0 ] && [ $stopped -le 1 ]; } || break
done
[ $status = 0 ] && [ $stopped -gt 1 ]; check "asked to stop $tries times, status 143 or 130" $?
same_run alone asked; check "asked to stop and resumed: same bits, same metrics" $?
# A disk that is full: one line, and what was saved is as it was.
train full llama grpo.max_num_steps=2
(ulimit -f 400; train full llama) 2>"$work/err"
[ $? = 1 ] && grep -q "checkpoint of step 4 was not saved: .*File too large" "$work/err" && [ ! -d "$work/full/tmp_step_4" ] &&
    train full llama && bits llama full
check "a checkpoint that finds no room: one line; the last one is whole and goes on" $?
# Sampler and trainer agree to the last bit.
for precision in float32 bfloat16 float16; do
    for output in float32 bfloat16 float16 param; do
        for filter in "1.0 1.0" "0.7 0.9"; do
            set -- $filter
            train mismatch llama policy.precision=$precision ++policy.automodel_cfg.fsdp_output_dtype=$output \
                policy.generation.temperature="$1" policy.generation.top_p="$2" grpo.max_num_steps=20 checkpointing.enabled=false
            [ "$(grep -c '"train/max_abs_logprob_error":0.0[,}]' "$work/mismatch/logs/metrics.jsonl")" = 20 ]
            check "mismatch is 0: $precision, outputs in $output, temperature $1, top_p $2" $?
        done
    done
done
# Every other family: trained, stopped, resumed and sampled from; windows, layers without rotation and norms of heads included.
for family in qwen3 mistral smollm3; do
    "$build"/tests/tool_make_model "$work/$family" $family || exit 1
    for precision in bfloat16 float16; do
        train $family-a $family policy.precision=$precision && train $family-b $family policy.precision=$precision grpo.max_num_steps=4 &&
            train $family-b $family policy.precision=$precision whet.threads=3 whet.prefill_chunk=7 && bits $family-a $family-b &&
            [ "$(grep -c '"train/max_abs_logprob_error":0.0[,}]' "$work/$family-b/logs/metrics.jsonl")" = 6 ]
        check "$family in $precision: mismatch is 0, stopped and resumed with the same bits" $?
        "$whet" generate "$work/$family-b/step_6" "1 + 2" --max-new-tokens 4 --json | grep -q '"logprobs":\[-'
        check "$family in $precision: a checkpoint generates" $?
        rm -rf "$work/$family-a"; mv "$work/$family-b" "$work/$family-$precision"
    done
done
for way in "sequence_packing.algorithm=modified_first_fit_decreasing" "sequence_packing.microbatch_order=largest_first" \
    "dynamic_batching.enabled=true policy.sequence_packing.enabled=false policy.dynamic_batching.sequence_length_round=8" \
    "sequence_packing.enabled=false policy.automodel_cfg.activation_checkpointing=true"; do
    # shellcheck disable=SC2086 # several words
    train packed llama policy.$way policy.train_global_batch_size=32 grpo.max_num_steps=6 &&
        train packed-3 llama policy.$way policy.train_global_batch_size=32 grpo.max_num_steps=6 whet.threads=3 policy.logprob_chunk_size=5 &&
        bits packed packed-3 && [ "$(grep -c '"train/max_abs_logprob_error":0.0[,}]' "$work/packed/logs/metrics.jsonl")" = 6 ]
    check "$way: mismatch is 0, threads and chunks change no bit" $?
    rm -rf "$work/packed" "$work/packed-3"
done
# Refusals: one line that names the key; nothing is left behind.
refuse() { # refuse PATTERN key=value …
    pattern=$1; shift
    train refused llama "$@" >"$work/out" 2>&1
    status=$?
    [ $status = 1 ] && [ "$(grep -c '' "$work/out")" = 1 ] && grep -q "$pattern" "$work/out" && [ ! -d "$work/refused/step_6" ]
    check "refused: $*" $?
}
refuse "fsdp_output_dtype.*float8.*float32.*bfloat16" ++policy.automodel_cfg.fsdp_output_dtype=float8
refuse "fsdp_output_dtype" ++policy.fsdp_output_dtype=bfloat16
refuse "num_prompts_per_step" ++grpo.num_prompts_per_stepp=4
refuse "precision.*int8" policy.precision=int8
refuse "train_mb_tokens.*95.*max_total_sequence_length, 96" policy.sequence_packing.train_mb_tokens=95
refuse "sequence_packing.algorithm.*best_fit.*first_fit_decreasing" policy.sequence_packing.algorithm=best_fit
refuse "dynamic_batching.enabled.*sequence_packing" policy.dynamic_batching.enabled=true
refuse "train_global_batch_size" policy.train_global_batch_size=7
refuse "dataset_name" data.train.dataset_name=gsm9k
refuse "no-such-model" policy.model_name=/no-such-model
check_closing
