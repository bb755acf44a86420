#!/bin/sh
# What a careless or hostile user gives to the program on a tiny random model: each refusal is one line that names what is
# wrong, with status 1, or 2 where the command line itself is wrong; nothing is lost and nothing passed over in silence.
set -u
build=${BUILD:-build}
whet=$build/whet
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
check() { # check NAME STATUS
    if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1"; fi
}
"$build"/tests/tool_make_model "$work/llama" llama || exit 1
model=$work/llama

cat >"$work/recipe.yaml" <<'R'
grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 4, max_num_epochs: 100, val_period: 0}
policy:
  train_global_batch_size: 8
  max_total_sequence_length: 96
  generation: {max_new_tokens: 16}
  scheduler: null
checkpointing: {save_period: 2, keep_top_k: null}
data:
  train: {dataset_name: arithmetic, operations: ["+"], left: [0, 4], right: [0, 4], split_validation_size: 5}
  default: {env_name: last_integer}
R

# refused STATUS PATTERN WORD…: the words are refused so, in one line that matches, with nothing on standard output
refused() {
    wanted=$1 pattern=$2; shift 2
    "$whet" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ $status = "$wanted" ] && [ ! -s "$work/out" ] && [ "$(grep -c '' "$work/err")" = 1 ] && grep -q "$pattern" "$work/err"
    check "status $wanted, $pattern: $* (status $status: $(head -n 3 "$work/err"))" $?
}

# --- the command line
for words in "train --help" "train a.yaml --help" "train a.yaml grpo.seed=1 -h" "generate --samples 3 $model hi --help" \
    "score -h" "--help train" "help train" "help train --help"; do
    # shellcheck disable=SC2086 # words
    "$whet" $words 2>"$work/err" | grep -q '^usage: whet \(train\|generate\|score\) ' && [ ! -s "$work/err" ]
    check "help: $words" $?
done
refused 2 "unknown verb 'trian'.*'train'" trian
refused 2 "unknown verb" nope --help
refused 2 "too much is given" help train score
refused 2 "RECIPE" train
refused 2 "unknown option --sampels.*--samples" generate "$model" hi --sampels 3
refused 2 "^whet generate: --samples is '0'" generate "$model" hi --samples 0
refused 2 "^whet generate: --samples is '1e3'" generate "$model" hi --samples 1e3
refused 2 "^whet generate: --temperature is 'nan'" generate "$model" hi --temperature nan
refused 2 "^whet generate: --temperature is 1e-05" generate "$model" hi --temperature 1e-5
refused 2 "^whet generate: --top-p is '0'" generate "$model" hi --top-p 0
refused 2 "^whet generate: --precision: 'int8'.*float32" generate "$model" hi --precision int8
refused 2 "^whet score: --output-dtype: 'float8'.*param" score "$model" x --output-dtype float8
refused 2 "PROMPT or --prompts" generate "$model"
refused 2 "PROMPT or --prompts" generate "$model" hi --prompts x
refused 1 "not UTF-8" generate "$model" "$(printf 'a\377')"
refused 1 "no-such-file" score "$model" "$work/no-such-file"

# --- prompts and texts
lines() { # lines FORMAT: writes the file
    # shellcheck disable=SC2059 # the format is the content
    printf "$1" >"$work/lines"
}
both() { # both STATUS PATTERN: both verbs refuse the file so
    refused "$1" "$work/lines:$2" generate "$model" --prompts "$work/lines"
    refused "$1" "$work/lines:$2" score "$model" "$work/lines"
}
lines '';                                         both 1 " no line holds anything"
lines '\n{"ids": [1]}\n{"ids": [1, 272]}\n';      both 1 '3: ids\[1\] is no id.*272'
lines '{"ids": [-1]}';                            both 1 '1: ids\[0\]'
lines '{"ids": 3}';                               both 1 '1: "ids" is no list'
lines '{"messages": {}}';                         both 1 '1: "messages" is no list'
lines '{"messages": []}';                         both 1 '1: .*messages are empty'
lines '{"messages": [{"role": "user"}]}';         both 1 '1: .*chat template.*content'
lines '{"prompt": "a", "text": "b", "ids": [1]}'; both 1 '1: .*exactly one of'
lines '{"promt": "a"}';                           both 1 '1: .*"\(prompt\|text\)"'
lines '["a"]';                                    both 1 '1: .*an object'
lines '{"ids": [1]}\n{"ids": [1]}\000{"ids"\n';   both 1 '2: not valid JSON'
lines '{"ids": [1], "ids": [2]}';                 both 1 '1: .*duplicate'
lines '{"text": "\377", "prompt": "\377"}';       both 1 '1: not valid JSON'
lines '{"ids": [1]}\nx';                          both 1 '2: not valid JSON'
{ printf '{"ids": [1]}\n{"ids": [1'; seq 512 | sed 's/.*/,1/' | tr -d '\n'; printf ']}\n'; } >"$work/lines"
both 1 '2: 513 tokens.*512 positions'
lines '{"ids": []}'
refused 1 "lines:1: no tokens" generate "$model" --prompts "$work/lines"
lines '\357\273\277{"ids": [1], "note": "mine"}\r\n\n{"ids": [2]}'
"$whet" score "$model" "$work/lines" >"$work/out" && [ "$(grep -c '"tokens":1,' "$work/out")" = 2 ]
check "a mark of UTF-8, blank lines and other keys do no harm" $?
printf '{%% for i in range(99999) %%}{%% for j in range(99999) %%}x{%% endfor %%}{%% endfor %%}' >"$work/loop.jinja"
printf "{{ raise_exception('no\nway') }}" >"$work/raise.jinja"
refused 1 "loop.jinja:1: LimitError" generate "$model" hi --chat-template "$work/loop.jinja"
refused 1 "raise.jinja:1: .*no way" generate "$model" hi --chat-template "$work/raise.jinja"

# --- what the machine does not have
refused 1 "^whet: cannot get .*GiB for kv_cache.*the machine has" train "$work/recipe.yaml" policy.model_name="$model" \
    logger.log_dir="$work/big" checkpointing.checkpoint_dir="$work/big" whet.kv_cache_tokens=2147483647 \
    policy.precision=float32
if (ulimit -v 3000000) 2>/dev/null && ! grep -q _asan_ "$whet"; then # the sanitizer's own memory is larger
    (ulimit -v 200000; exec "$whet" generate "$model" hi --threads 1000) >"$work/out" 2>"$work/err"
    [ $? = 1 ] && [ "$(grep -c '' "$work/err")" = 1 ] && grep -q "^whet: cannot get thread [0-9]* of 1000: " "$work/err"
    check "threads that the machine does not give" $?
else
    skipped=$((skipped + 1))
fi

# --- standard output that takes nothing
unwritten() { # unwritten NAME: the last command failed in one line
    [ $? = 1 ] && [ "$(grep -c 'standard output' "$work/err")" = 1 ] && [ "$(grep -c '' "$work/err")" = 1 ]
    check "$1" $?
}
lines '{"ids": [1, 2]}'
if [ -w /dev/full ]; then
    "$whet" score "$model" "$work/lines" >/dev/full 2>"$work/err"; unwritten "score into a full disk"
    "$whet" generate "$model" hi --max-new-tokens 2 >/dev/full 2>"$work/err"; unwritten "generate into a full disk"
    "$whet" help >/dev/full 2>"$work/err"; unwritten "help into a full disk"
else
    skipped=$((skipped + 3))
fi
"$whet" score "$model" "$work/lines" >&- 2>"$work/err"; unwritten "score into a closed stream"
"$whet" score "$model" "$work/lines" <&- 2>&- >"$work/out" && [ -s "$work/out" ]; check "the other streams closed" $?

echo "counted: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
