#!/bin/sh
# The command line as a user meets it: help, completion, prompts from everywhere, output that goes nowhere.
set -u
build=${BUILD:-build}
whet=$build/whet
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
check() { # check NAME STATUS
    if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1"; fi
}
same() { # same NAME EXPECTED FOUND
    [ "$2" = "$3" ]; check "$1: expected \"$2\", found \"$3\"" $?
}
"$build"/tests/tool_make_model "$work/llama" llama || exit 1
model=$work/llama

# --- help
"$whet" help >"$work/out" && for verb in $("$whet" completion bash | sed -n "s/^_whet_verbs='\(.*\)'/\1/p"); do
    grep -q "^  $verb " "$work/out"; check "the overview names $verb" $?
    "$whet" help "$verb" | grep -q "^usage: whet $verb"; check "help $verb" $?
    COLUMNS=60 "$whet" "$verb" --help | sed '/^usage/d; /^examples/,$d; s/[^ -~]*//g' >"$work/narrow"
    ! grep -q '.\{61\}' "$work/narrow"; check "help $verb keeps to 60 columns ($(grep '.\{61\}' "$work/narrow"))" $?
done
"$whet" --version | grep -q '^whet [0-9]'; check "version" $?
"$whet" >"$work/out" 2>"$work/err"; same "nothing said" "2 0" "$? $(wc -c <"$work/out")"
grep -q '^usage: whet VERB' "$work/err"; check "nothing said is answered by the overview" $?

# --- completion
for shell in bash zsh fish; do
    "$whet" completion $shell >"$work/completion.$shell" && [ -s "$work/completion.$shell" ]; check "completion $shell" $?
    if command -v $shell >/dev/null; then
        $shell -n "$work/completion.$shell"; check "completion $shell is well-formed" $?
    else
        skipped=$((skipped + 1))
    fi
done
"$whet" completion csh 2>"$work/err"; same "an unknown shell" "2 1" "$? $(grep -c "'csh' is none of the shells bash, zsh and fish" "$work/err")"
mkdir -p "$work/place/a folder" "$work/hub/models--Org--Some-Model" && : >"$work/place/a file" && : >"$work/place/b.yaml"
# completes EXPECTED WORD…: what the last word may become, sorted, parted by |
completes() {
    expected=$1; shift
    found=$(cd "$work/place" && HF_HUB_CACHE=$work/hub bash -c '
        . ../completion.bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _whet 2>&1
        for reply in "${COMPREPLY[@]}"; do echo "$reply"; done' whet "$@" | LC_ALL=C sort | tr '\n' '|')
    same "completion of: $*" "$expected" "${found%|}"
}
if command -v bash >/dev/null; then
    completes "generate" whet gen
    completes "completion" whet comp
    completes "--temperature" whet generate --temp
    completes "--temperature" whet generate model prompt --temp
    completes "float32" whet generate --precision fl
    completes "float32" whet generate --precision = fl
    completes "--precision=float32" whet generate --precision=fl
    completes "bfloat16|float16|float32|param" whet score m --output-dtype ''
    completes "bfloat16|float16|float32|param" whet score m --output-dtype =
    completes "" whet generate --seed ''
    completes "a file|a folder" whet score model a
    completes "Org/Some-Model|a file|a folder|b.yaml" whet generate ''
    completes "Org/Some-Model" whet generate --seed 3 Org
    completes "" whet generate model ''
    completes "a file|a folder" whet generate --prompts a
    completes "b.yaml" whet train --quiet b
    completes "grpo." whet train b.yaml gr
    completes "grpo.adv_estimator.|grpo.advantage_clip_high=|grpo.advantage_clip_low=" whet train b.yaml grpo.adv
    completes "+grpo.seed=" whet train b.yaml +grpo.see
    completes "++grpo.seed=" whet config b.yaml a = b ++grpo.see
    completes "~grpo.seed" whet train b.yaml "~grpo.see"
    completes "false|true" whet train b.yaml checkpointing.enabled =
    completes "k2" whet train b.yaml loss_fn.reference_policy_kl_type = k2
    completes "+checkpointing.enabled=true" whet train b.yaml +checkpointing.enabled=t
    completes "" whet train b.yaml grpo.seed = ''
    completes "bash|fish|zsh" whet completion ''
    completes "score" whet help sc
    completes "" whet nonsense ''
else
    skipped=$((skipped + 1))
fi

echo "counted: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
