#!/bin/sh
# whet bench: every kernel and phase is there, as a table and as JSON lines; refusals.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
"$build"/tests/tool_make_model "$work/model" qwen2 || exit 1
"$whet" bench --only "o " --seconds 0.001 --precision bfloat16 --json >"$work/out" && [ "$(grep -c '^{"isa":' "$work/out")" = 1 ] &&
    [ "$(grep -c '^{"kernel":"o .*"dtype":"bfloat16","seconds":[0-9.e-]*,.*"share_of_[a-z]*":[0-9.]*,"best_share_of_[a-z]*":[0-9.]*}$' "$work/out")" = 7 ]
check "kernels of one layer: three directions, four numbers of rows" $?
"$whet" bench --rows 3 --seconds 0.001 --json >"$work/out" && [ "$(grep -c '^{"kernel":"[a-z_]* .*, 3 rows","dtype":"' "$work/out")" = 40 ] &&
    [ "$(grep -c '' "$work/out")" = 41 ]
check "products with other rows, and nothing else: five layers, four products, two dtypes" $?
"$whet" bench "$work/model" --precision bfloat16 --sequences 8 --json >"$work/out" && [ "$(grep -c '^{"phase":' "$work/out")" = 6 ]
check "six phases of a model" $?
"$whet" bench "$work/model" --memory --sequences 8 >"$work/out" && grep -q "rollout_weights" "$work/out" && grep -q "the process held" "$work/out" &&
    ! grep -q "bandwidth" "$work/out"
check "memory of a model, without shares" $?
refuse() { # refuse STATUS PATTERN ARGUMENT …
    wanted=$1 pattern=$2
    shift 2
    "$whet" bench "$@" >"$work/out" 2>&1
    status=$?
    [ $status = "$wanted" ] && [ "$(grep -c '' "$work/out")" = 1 ] && grep -q "$pattern" "$work/out"
    check "refused: $*" $?
}
refuse 2 "shape.*gpt.*smollm2-135m" --shape gpt
refuse 2 "precision.*int8" --precision int8
for option in --memory "--sequences 3" "--prompt 3" "--answer 3" "--micro-batch 3"; do
    # shellcheck disable=SC2086 # two words
    refuse 2 "^whet bench: ${option% *} is for a MODEL" $option
done
refuse 2 "only is 'nothing'; no kernel measured" --only nothing
refuse 2 "only is 'attention'; no matrix product measured" --rows 3 --only attention
refuse 2 "rows is '0'; expected an integer from 1 to" --rows 0
refuse 2 "only is for kernels, without a MODEL" "$work/model" --only qkv
refuse 2 "rows is for kernels, without a MODEL" "$work/model" --rows 3
refuse 2 "seconds is for kernels, without a MODEL" "$work/model" --seconds 1
refuse 1 "positions" "$work/model" --prompt 100000
refuse 1 "no-such" "$work/no-such"
check_closing
