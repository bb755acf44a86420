# shellcheck shell=sh
# Sourced by end-to-end tests of runs on several ranks, with $family: a tiny model of it in $work/model, and what starts and compares
# runs. The caller writes $work/recipe.yaml. Without MPI the test ends here, as skipped.
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
# shellcheck source=tests/support/mpirun.sh
set -- "$whet" && . tests/support/mpirun.sh
if [ -z "$mpirun_command" ]; then skipped=1; check_closing; exit; fi
# shellcheck disable=SC2154 # the caller sets it
"$build"/tests/tool_make_model "$work/model" "$family" || exit 1
# ranks N COMMAND…: on N ranks; 0: the program alone. SECONDS_EACH is for a machine that is busy with more than this.
ranks() {
    number=$1; shift
    # shellcheck disable=SC2086 # words
    if [ "$number" = 0 ]; then timeout "${SECONDS_EACH:-120}" "$@"; else timeout "${SECONDS_EACH:-120}" $mpirun_command "$number" "$@"; fi
}
# train N NAME [key=value …]: a run in its own folder
train() {
    number=$1 name=$2; shift 2
    ranks "$number" "$whet" train "$work/recipe.yaml" policy.model_name="$work/model" logger.log_dir="$work/$name/logs" \
        checkpointing.checkpoint_dir="$work/$name" --quiet "$@"
}
strip() { sed 's/"\(timing\|performance\|memory\)[^,}]*[,}]//g' "$1"; }
# same A B STEP: all metrics, step STEP's samples, weights and moments; and sampler and trainer agree to the bit
same() {
    strip "$work/$1/logs/metrics.jsonl" >"$work/a"; strip "$work/$2/logs/metrics.jsonl" >"$work/b"
    cmp "$work/a" "$work/b" || return 1
    for file in "logs/train_data_step$3.jsonl" "logs/val_data_step$3.jsonl" "step_$3/training_info.json" \
        "step_$3/policy/weights/model/model.safetensors" "step_$3/policy/optimizer/optim/optimizer.safetensors"; do
        cmp "$work/$1/$file" "$work/$2/$file" || return 1
    done
    [ "$(grep -c '"train/max_abs_logprob_error":0.0[,}]' "$work/$2/logs/metrics.jsonl")" = "$3" ]
}
