#!/bin/sh
# The real program on several ranks of this machine: the bits of one rank in samples, metrics and checkpoints, resumed on other
# numbers of ranks too; each sample scored once; ranks that are killed, stopped, out of memory or without their file take all with
# them, with one message and the last checkpoint whole. RANKS="6" sh tests/e2e_ranks.sh tries another number than 1, 2, 4 and 8.
set -u
family=llama
# shellcheck source=tests/support/ranked_runs.sh
. tests/support/ranked_runs.sh
cat >"$work/recipe.yaml" <<'R'
grpo: {num_prompts_per_step: 6, num_generations_per_prompt: 4, max_num_steps: 4, max_num_epochs: 100, val_period: 2,
       val_at_start: true, max_val_samples: 5, val_batch_size: 3, val_num_generations_per_prompt: 2}
policy:
  precision: bfloat16
  train_global_batch_size: 12
  train_micro_batch_size: 2
  max_total_sequence_length: 96
  generation: {max_new_tokens: 16}
  optimizer: {kwargs: {lr: 1.0e-3}}
  scheduler: null
checkpointing: {save_period: 1, keep_top_k: null}
data:
  train: {dataset_name: arithmetic, operations: ["+"], left: [0, 9], right: [0, 30], split_validation_size: 5}
  default: {env_name: last_integer}
R

# --- the same bits
train 0 alone; check "one process" $?
for n in ${RANKS:-1 2 4 8}; do
    train "$n" on"$n" && same alone on"$n" 4; check "$n ranks: the bits of one" $?
    [ "$(grep -c '"step":4' "$work/on$n/logs/memory.json")" = "$n" ]; check "$n ranks in memory.json" $?
done
if [ -z "${RANKS:-}" ]; then
    threads=$(($(nproc) / 2)); [ $threads = 0 ] && threads=1
    grep -q '"ranks": 2' "$work/on2/logs/environment.json" &&
        [ "$(grep -c "\"threads\": $threads\$" "$work/on2/logs/environment.json")" = 2 ]
    check "2 ranks in environment.json, each with half of the cores" $?
fi
# bytes KIND NAME: at the peak of the first step
bytes() { sed -n "s/.*\"memory\/at_peak\/$1\":\([0-9]*\).*/\1/p" "$work/$2/logs/metrics.jsonl" | head -n 1; }
if [ -z "${RANKS:-}" ]; then
    # Two blocks of four slices and the root's two matrices are padded by less than 1,024 numbers a rank each.
    padding=$((10 * 4 * 1024))
    [ "$(bytes weight_shard on4)" -lt $(($(bytes weight_shard alone) / 4 + padding)) ] &&
        [ "$(bytes optimizer on4)" -lt $(($(bytes optimizer alone) / 4 + 2 * padding)) ]
    check "4 ranks hold a quarter each" $?
fi
train 3 few whet.max_sequences=5 && same alone few 4; check "3 ranks with few seats take requests over: same bits" $?
# Packing is the default. Eight ranks have more places than there are micro-batches.
for way in static dynamic; do
    set -- policy.sequence_packing.enabled=false grpo.max_num_steps=2
    [ $way = static ] || set -- "$@" policy.dynamic_batching.enabled=true
    train 0 $way-alone "$@" && train 8 $way "$@" && same $way-alone $way 2; check "8 ranks, $way batches: the bits of one" $?
done
train 4 moved grpo.max_num_steps=2 && train 2 moved grpo.max_num_steps=3 && train 0 moved && same alone moved 4
check "4 ranks, resumed on 2, resumed alone: same bits" $?

# --- each sample is scored once, by one command
cat >"$work/judge.sh" <<'S'
while read -r line; do
    printf '%s\n' "$line" >>"$1"
    id=${line##*\"id\":}
    echo "{\"id\":${id%%[,\}]*},\"rewards\":{\"never\":0,\"always\":0.5}}"
done
S
train 3 judged grpo.max_num_steps=1 grpo.val_period=0 grpo.val_at_start=false data.train.env_name=judge \
    "++env.judge={command: [sh, $work/judge.sh, $work/judged.lines], timeout_seconds: 30}" &&
    [ "$(wc -l <"$work/judged.lines")" = 24 ] && grep -q '"train/reward":0.5' "$work/judged/logs/metrics.jsonl"
check "a command of the user's sees each of 24 samples once" $?

# --- failures: start NAME begins a long run of 3 ranks; hit COMMAND… does something to its second rank after a checkpoint
start() {
    name=$1; shift
    rm -rf "${work:?}/$name"
    # shellcheck disable=SC2086 # words; the program itself in the background, so that it is the shell's child
    $mpirun_command 3 "$whet" train "$work/recipe.yaml" policy.model_name="$work/model" logger.log_dir="$work/$name/logs" \
        checkpointing.checkpoint_dir="$work/$name" --quiet grpo.max_num_steps=4000 >"$work/out" 2>&1 &
    mpirun=$!
    waited=0
    until [ -d "$work/$name/step_2" ] || [ $waited = 300 ]; do sleep 0.1; waited=$((waited + 1)); done
    second=$(ps -eo pid=,comm=,args= | awk -v work="$work" '$2 == "whet" && index($0, work) && ++n == 2 { print $1 }')
}
ended() { # ended SECONDS: the run ends within them, not well; sets status. No rank is left
    waited=0
    while kill -0 $mpirun 2>/dev/null && [ $waited -lt $(($1 * 10)) ]; do sleep 0.1; waited=$((waited + 1)); done
    kill -9 $mpirun 2>/dev/null && return 1
    wait $mpirun
    status=$?
    case $(ps -o stat= -p "$second") in '' | Z*) ;; *) return 1 ;; esac
    [ $status != 0 ]
}
whole() { # whole NAME: the newest checkpoint of the failed run goes on
    newest=$(find "$work/$1" -maxdepth 1 -name 'step_*' | sed 's/.*_//' | sort -n | tail -n 1)
    [ "$newest" -ge 2 ] && train 0 "$1" grpo.max_num_steps=$((newest + 1)) && [ -d "$work/$1/step_$((newest + 1))" ]
}
start killed; kill -9 "$second"; ended 30; check "a rank is killed: all end" $?
whole killed; check "a rank is killed: the last checkpoint is whole" $?
if command -v prlimit >/dev/null; then
    start full; prlimit --pid "$second" --as=1000000; ended 30; check "a rank is out of memory: all end" $?
    ! grep -q UCX "$work/out" && [ "$(grep -c "^whet" "$work/out")" = 1 ] && grep -q "^whet: cannot get\|^whet train: .*rank 1 of 3: .*: Cannot allocate memory" "$work/out"
    check "a rank is out of memory: one message: $(head -c 300 "$work/out")" $?
    whole full; check "a rank is out of memory: the last checkpoint is whole" $?
else
    skipped=$((skipped + 3))
fi
start asked; kill -USR1 "$second"; ended 30; check "a rank is asked to stop: all stop" $?
whole asked; check "a rank is asked to stop: the last checkpoint is whole" $?
# one PATTERN N COMMAND…: the command fails in one line that matches
one() {
    pattern=$1; shift
    begun=$(date +%s)
    ranks "$@" >"$work/out" 2>&1 && return 1
    [ $(($(date +%s) - begun)) -le 30 ] && [ "$(grep -c ^whet "$work/out")" = 1 ] && grep -q "^$pattern" "$work/out"
}
cat >"$work/second.sh" <<'S'
# The second rank is given other words behind the rest: second.sh WORDS COMMAND…
words=$1; shift
[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 1 ] && set -- "$@" $words
exec "$@"
S
set -- "$whet" train "$work/recipe.yaml" policy.model_name="$work/model" logger.log_dir="$work/none/logs" \
    checkpointing.checkpoint_dir="$work/none" --quiet
one "whet train: rank 1 of 3: /nowhere: no such model" 3 sh "$work/second.sh" policy.model_name=/nowhere "$@"
check "a rank without its model: $(head -c 300 "$work/out")" $?
one "whet train: /nowhere: no such model" 3 "$@" policy.model_name=/nowhere; check "no rank has the model: $(head -c 300 "$work/out")" $?
one "whet train: rank 1 of 2: what data.train and data.validation name differs from that of rank 0" 2 \
    sh "$work/second.sh" data.train.seed=7 "$@"
check "a rank with other questions: $(head -c 300 "$work/out")" $?
one "whet train: rank 1 of 3: policy.optimizer.kwargs.lr differs from that of rank 0" 3 \
    sh "$work/second.sh" policy.optimizer.kwargs.lr=2.0e-3 "$@"
check "a rank with another recipe: $(head -c 300 "$work/out")" $?
for file in config.json tokenizer_config.json chat_template.jinja; do
    rm -rf "$work/other"; cp -r "$work/model" "$work/other"
    case $file in
    config.json) says=configuration; sed -i 's/"rope_theta": [0-9.e]*/"rope_theta": 500.0/' "$work/other/$file" ;;
    tokenizer_config.json) says=tokenizer; echo ' ' >>"$work/other/$file" ;;
    *) says="chat template"; echo '{{ messages[0].content }}' >"$work/other/$file" ;;
    esac
    one "whet train: rank 1 of 3: the model's $says differs from that of rank 0" 3 \
        sh "$work/second.sh" policy.model_name="$work/other" "$@"
    check "a rank with another $file: $(head -c 300 "$work/out")" $?
done
cp -r "$work/model" "$work/copy"
ranks 2 sh "$work/second.sh" "policy.model_name=$work/copy whet.threads=2" "$@" grpo.max_num_steps=1 >"$work/out" 2>&1
check "ranks have threads and places of their own: $(head -c 300 "$work/out")" $?
one "whet train: .*grpo.max_num_stepz.*grpo.max_num_steps" 4 "$@" grpo.max_num_stepz=1; check "a wrong key is told once: $(head -c 300 "$work/out")" $?

check_closing
