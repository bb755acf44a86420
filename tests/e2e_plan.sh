#!/bin/sh
# whet plan as a user meets it: a step planned without weights, side by side, fitted; what it refuses.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
refuses() { # refuses STATUS MESSAGE WORD…: one line on standard error, nothing on standard output
    status=$1 message=$2; shift 2
    "$whet" plan "$@" >"$work/out" 2>"$work/err"
    [ "$? $(wc -c <"$work/out") $(wc -l <"$work/err")" = "$status 0 1" ] && grep -qF -- "$message" "$work/err"
    check "plan $*: $(cat "$work/err")" $?
}
says() { # says PATTERN: the last output
    grep -q -- "$1" "$work/out"; check "output has '$1'" $?
}

for recipe in recipes/*.yaml; do
    "$whet" plan "$recipe" --memory-only >"$work/out"; check "$recipe" $?
    says "^peak of a step: [0-9.]* MiB in "
done
founding=recipes/output_dtype_tp1.yaml dtypes=policy.automodel_cfg.fsdp_output_dtype
"$whet" plan $founding --machine h100 >"$work/out"; check "the founding recipe" $?
says "^Qwen/Qwen2.5-1.5B: 1,543,714,304 parameters"
says "each assumed to be a prompt of 128 and an answer of 384 tokens"
says "^An estimate, and a lower bound"
"$whet" plan $founding --vary $dtypes=float32,bfloat16 --memory-only >"$work/out"; check "side by side" $?
says "^                   float32  bfloat16  difference"
says "^forward .* -6.0$" # the last block's output: 2,048 · 1,536 · 2 bytes
says "^update .* +0.0$"  # which is gone at the peak
"$whet" plan $founding --vary $dtypes=float32,bfloat16 --vary policy.train_micro_batch_size=1,2 --memory-only --json >"$work/out" &&
    "$whet" plan $founding --memory-only --json --fit 2GiB >"$work/fit"
check "JSON" $?
for file in out fit; do python3 -c 'import json, sys; json.load(sys.stdin)' <"$work/$file" 2>/dev/null || [ ! -x /usr/bin/python3 ]; check "$file is JSON" $?; done
[ "$(grep -c '"arm"' "$work/out")" = 4 ]; check "each value with each" $?
grep -q '"micro_batch": 0' "$work/fit"; check "nothing fits" $?
"$whet" plan $founding --memory-only --fit 2GiB >"$work/out"; check "fitted" $?
says "the step does not fit, its peak is 6123.3 MiB in rollout$"
says "micro-batch: not even one sample fits"
"$whet" plan $founding --ranks 4 --tp 2 --memory-only >"$work/out"; check "ranks" $?
says "; 4 ranks$"
"$whet" plan $founding --tflops 1 --bandwidth 100 --prompt-tokens 100 --answer-tokens 7 >"$work/out"; check "own figures" $?
says "the machine given: 1.0 and 1.0 TFLOP/s"
says "a prompt of 100 and an answer of 7 tokens"

refuses 2 "something is missing" --ranks 1
refuses 1 "nowhere.yaml" nowhere.yaml
refuses 1 "policy.model_name: 'Qwen/Qwen2.5-73B' is no file and no model whose shape is known" $founding policy.model_name=Qwen/Qwen2.5-73B
refuses 1 "whet.kept_blocks: 29, but the model has 28 blocks" $founding whet.kept_blocks=29
refuses 2 "--machine is 'h1000'; expected a100|h100" $founding --machine h1000
refuses 2 "did you mean h100" $founding --machine h10
refuses 2 "--tflops and --bandwidth are needed both" $founding --tflops 3
refuses 2 "--tflops is 'many'" $founding --tflops many
refuses 2 "--vary is 'policy.precision'; expected KEY=A,B" $founding --vary policy.precision
refuses 2 "has one value" $founding --vary policy.precision=float32
refuses 1 "policy.precision" $founding --vary policy.precision=float32,float31
refuses 2 "one recipe is fitted at a time" $founding --vary policy.precision=float32,bfloat16 --fit 80GiB
refuses 2 "--fit is 'much'; expected a size" $founding --fit much
refuses 2 "--ranks is '0'" $founding --ranks 0
refuses 1 "policy.automodel_cfg.tensor_parallel_size is 3, which does not divide the number of ranks, 8" $founding --tp 3
refuses 1 "--prompt-tokens is 512; the recipe allows at most 511" $founding --prompt-tokens 512
refuses 1 "--answer-tokens is 500" $founding --prompt-tokens 100 --answer-tokens 500
refuses 2 "did you mean --memory-only" $founding --memory-onl
check_closing
