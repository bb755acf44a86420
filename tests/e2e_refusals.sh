#!/bin/sh
# What a careless or hostile user gives to the program on a tiny random model: each refusal is one line that names what is
# wrong, with status 1, or 2 where the command line itself is wrong; nothing is lost and nothing passed over in silence.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
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
    "$whet" $words >"$work/out" 2>"$work/err" && grep -q '^usage: whet \(train\|generate\|score\) ' "$work/out" && [ ! -s "$work/err" ]
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
refused 1 "^whet score: /dev/zero: more than 1073741824 bytes" score "$model" /dev/zero

# --- what is there and is not
damaged="$work/damaged"
for file in chat_template.jinja generation_config.json tokenizer_config.json; do
    rm -rf "$damaged"; cp -r "$model" "$damaged"; rm -f "$damaged/$file"; ln -s "$work/no-blob" "$damaged/$file"
    refused 1 "damaged/$file: .*No such file" generate "$damaged" hi
done
rm -rf "$damaged"; cp -r "$model" "$damaged"; rm -f "$damaged/model.safetensors"; ln -s "$work/no-blob" "$damaged/model.safetensors"
refused 1 "damaged/model.safetensors: .*No such file" generate "$damaged" hi
rm -rf "$damaged"; cp -r "$model" "$damaged"
size=$(stat -c %s "$damaged/model.safetensors") # numbers of 3e38 at its end
head -c 4096 /dev/zero | tr '\000' '\177' | dd of="$damaged/model.safetensors" bs=1 seek=$((size - 4096)) conv=notrunc 2>"$work/err"
printf '{"text": "a"}\n{"text": "hello world"}\n' >"$work/lines"
"$whet" score "$damaged" "$work/lines" >"$work/out" 2>"$work/err"
[ $? = 1 ] && [ "$(grep -c '"sum_logprob"' "$work/out")" = 2 ] && grep -q "^whet score: $work/lines: text [12] has log-probabilities that are NaN" "$work/err"
check "log-probabilities that are no numbers: the status says so: $(cat "$work/err")" $?
rm -rf "$damaged"; cp -r "$model" "$damaged"
echo '{"model_max_length": 1000000000000000019884624838656}' >"$damaged/tokenizer_config.json" # as Transformers writes it
"$whet" generate "$damaged" hi --max-new-tokens 1 >"$work/out" 2>"$work/err"; check "an integer of more than 64 bits: $(cat "$work/err")" $?
sed 's/\("rope_theta": *\)[0-9.]*/\11e-300/' "$model/config.json" >"$damaged/config.json"
refused 1 "rope_theta is 1e-300, expected 1e-6 to" score "$damaged" "$model/config.json"

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
lines '{"messages": [{"role": "user"}]}';         both 1 '1: .*chat.template.*content'
lines '{"prompt": "a", "text": "b", "ids": [1]}'; both 1 '1: .*exactly one of'
lines '{"promt": "a"}';                           both 1 '1: .*"\(prompt\|text\)"'
lines '["a"]';                                    both 1 '1: .*an object'
lines '{"ids": [1]}\n{"ids": [1]}\000{"ids"\n';   both 1 '2: not valid JSON'
lines '{"ids": [1], "ids": [2]}';                 both 1 '1: .*duplicate'
lines '{"text": "\377", "prompt": "\377"}';       both 1 '1: not valid JSON'
lines '{"ids": [1]}\nx';                          both 1 '2: not valid JSON'
{ printf '{"ids": [1]}\n{"ids": [1'; seq 512 | sed 's/.*/,1/' | tr -d '\n'; printf ']}\n'; } >"$work/lines"
both 1 '2: 513 tokens.*the context has 512'
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
machine_has 400000000 || refused 1 "whet.kv_cache_tokens: 2147483647 tokens take .* GiB of keys and values; the machine has" train "$work/recipe.yaml" policy.model_name="$model" \
    logger.log_dir="$work/big" checkpointing.checkpoint_dir="$work/big" whet.kv_cache_tokens=2147483647 \
    policy.precision=float32 --quiet
# shellcheck disable=SC3045 # dash and bash have it
if (ulimit -v 3000000) 2>/dev/null && ! grep -q _asan_ "$whet"; then # the sanitizer's own memory is larger
    # shellcheck disable=SC3045
    (ulimit -v 200000; exec "$whet" generate "$model" hi --threads 1000) >"$work/out" 2>"$work/err"
    [ $? = 1 ] && [ "$(grep -c '' "$work/err")" = 1 ] && grep -q "^whet: cannot get thread [0-9]* of 1000: " "$work/err"
    check "threads that the machine does not give" $?
else
    skipped=$((skipped + 1))
fi

# --- one run at a time in a folder, however it is named
# run FOLDER key=value …: trains into the folder
run() {
    folder=$1; shift
    "$whet" train "$work/recipe.yaml" policy.model_name="$model" policy.precision=float32 logger.log_dir="$folder" \
        checkpointing.checkpoint_dir="$folder" "$@" >"$work/out" 2>"$work/err" </dev/null
}
run "$work/base" grpo.max_num_steps=4 && [ -d "$work/base/step_4" ]; check "trains" $?
mkdir "$work/one" && ln -s one "$work/two"
run "$work/one" checkpointing.checkpoint_dir="$work/one/" grpo.max_num_steps=1 && [ -d "$work/one/step_1" ]
check "one folder for logs and checkpoints, written in two ways" $?
run "$work/two" checkpointing.checkpoint_dir="$work/one/../one" grpo.max_num_steps=2 && [ -d "$work/one/step_2" ]
check "one folder for logs and checkpoints, behind a link" $?
"$whet" train "$work/recipe.yaml" policy.model_name="$model" logger.log_dir="$work/held" --quiet \
    checkpointing.checkpoint_dir="$work/held" grpo.max_num_steps=100000 grpo.max_num_epochs=100000 2>/dev/null &
holder=$!
while [ ! -d "$work/held/step_2" ] && kill -0 $holder 2>/dev/null; do sleep 0.05; done
for folders in "held held" "held elsewhere" "elsewhere held"; do
    # shellcheck disable=SC2086 # two words
    set -- $folders
    refused 1 "/held/.lock: another run" train "$work/recipe.yaml" policy.model_name="$model" \
        logger.log_dir="$work/$1" checkpointing.checkpoint_dir="$work/$2"
done
kill -9 $holder; wait $holder 2>/dev/null
run "$work/held" grpo.max_num_steps=1; check "after a kill the folder is free" $?

# --- resuming from what is damaged, moved or another's; nothing is lost
spoil() { # spoil NAME: a fresh copy of the run
    rm -rf "$work/spoilt"; cp -r "$work/base" "$work/spoilt"; info=$work/spoilt/step_4/training_info.json
}
stops() { # stops PATTERN key=value …: the run does not go on, and leaves both checkpoints as they were
    pattern=$1; shift
    run "$work/spoilt" grpo.max_num_steps=5 "$@"
    [ $? = 1 ] && [ "$(grep -c '' "$work/err")" = 1 ] && grep -q "step_4.*$pattern" "$work/err" &&
        [ ! -d "$work/spoilt/step_5" ] && diff -r "$work/base/step_2" "$work/spoilt/step_2"
    check "stops: $pattern ($(head -n 2 "$work/err"))" $?
}
goes_on() { # goes_on FROM PATTERN key=value …: the run goes on from step_FROM to 5 and says so
    from=$1 pattern=$2; shift 2
    run "$work/spoilt" grpo.max_num_steps=5 "$@" && [ -d "$work/spoilt/step_5" ] &&
        grep -q "resuming from .*/step_$from" "$work/err" && grep -q "$pattern" "$work/err"
    check "goes on: $pattern ($(head -n 2 "$work/err"))" $?
}
spoil; echo garbage >"$info";                              stops "training_info.json:1: not valid JSON"
spoil; : >"$info";                                         stops "training_info.json: empty"
spoil; echo '[]' >"$info";                                 stops "training_info.json: expected an object"
spoil; sed -i 's/"total_steps": 4/"total_steps": 9/' "$info"; stops "total_steps is 9"
spoil; sed -i 's/"consumed_samples": 32/"consumed_samples": -1/' "$info"; stops "consumed_samples is no count"
spoil; truncate -s 90000 "$work/spoilt/step_4/policy/weights/model/model.safetensors"; stops "model.safetensors: damaged"
spoil; rm "$work/spoilt/step_4/policy/optimizer/optim/optimizer.safetensors"; stops "optimizer.safetensors: cannot open"
spoil; "$build"/tests/tool_make_model "$work/llama2" llama 2; stops "another model .*llama2" policy.model_name="$work/llama2"
"$build"/tests/tool_make_model "$work/qwen" qwen2;         stops "another model .*qwen" policy.model_name="$work/qwen"
spoil; mv "$work/spoilt/step_4" "$work/away";              goes_on 2 "step 4/5"
spoil; rm "$work/spoilt/step_4/config.yaml";               goes_on 4 "recipe has changed since is not known: .*config.yaml"
spoil; goes_on 4 "changed since: grpo.max_num_steps: 4 → 5, grpo.seed: 42 → 43, .*data.train.left: \[0, 4\] → \[0, 9\]" \
    grpo.seed=43 "data.train.left=[0,9]"
spoil; goes_on 4 "changed since: grpo.num_prompts_per_step: 2 → 1," grpo.num_prompts_per_step=1 \
    policy.train_global_batch_size=4
spoil; mkdir "$work/spoilt/step_5" "$work/spoilt/step_x" "$work/spoilt/tmp_step_7"; goes_on 4 "step 5/5"
[ ! -d "$work/spoilt/tmp_step_7" ]; check "leftovers are removed" $?
spoil; printf 'x\n{"step": 4}\n\000\n[]\n{"step": 9}\n{"st' >>"$work/spoilt/metrics.jsonl"
goes_on 4 "metrics.jsonl: 3 damaged lines"
[ "$(sed 's/.*"step": *\([0-9][0-9]*\).*/\1/' "$work/spoilt/metrics.jsonl" | tr '\n' ' ')" = "1 2 3 4 4 5 " ]
check "the other lines of metrics.jsonl stay" $?
run "$work/base" grpo.max_num_steps=2 && grep -q "nothing left to do: step 4 of 2" "$work/err"
check "a checkpoint beyond the last step" $?
run "$work/plain" checkpointing.enabled=false grpo.max_num_steps=1
run "$work/plain" checkpointing.enabled=false grpo.max_num_steps=1
run "$work/plain" checkpointing.enabled=false grpo.max_num_steps=1 && [ -s "$work/plain/metrics.jsonl.1" ] &&
    [ -s "$work/plain/metrics.jsonl.2" ] && grep -q "earlier run are now in .*jsonl.2" "$work/err"
check "metrics of earlier runs stay" $?

# --- checkpoints as models
run "$work/second" policy.model_name="$work/base/step_4" grpo.max_num_steps=1
"$whet" generate "$work/second/step_1" hi --max-new-tokens 2 >"$work/out" 2>&1; check "a checkpoint of a run from a checkpoint" $?
spoil; printf x | dd of="$work/spoilt/step_4/policy/weights/model/model.safetensors" bs=1 seek=100000 conv=notrunc 2>/dev/null
refused 1 "model.safetensors: damaged: digest" generate "$work/spoilt/step_4" hi
spoil; sed -i "s#\"model\": .*#\"model\": \"$work/spoilt/step_4\",#" "$info"
refused 1 "step_4: more than 16 checkpoints" generate "$work/spoilt/step_4" hi
spoil; sed -i 's#"model": .*#"model": "/nowhere",#' "$info"
refused 1 "training_info.json: the tokenizer .* is needed: .*/nowhere: no such model" score "$work/spoilt/step_4" "$work/lines"
spoil; echo '{}' >"$info"
refused 1 "training_info.json: no digest of" score "$work/spoilt/step_4" "$work/lines"

# --- recipes against the model
late() { # late PATTERN key=value …: refused when the model is known, in one line at the end
    pattern=$1; shift
    run "$work/late" "$@"
    [ $? = 1 ] && tail -n 1 "$work/err" | grep -q "$pattern"; check "late: $pattern ($(tail -n 1 "$work/err"))" $?
}
late "stop_token_ids: 272 is not in the model's vocabulary of 272" "policy.generation.stop_token_ids=[1,272]"
late "max_total_sequence_length: 513, but .* 512" policy.max_total_sequence_length=513
late "max_model_len: 97 is more than policy.max_total_sequence_length, 96" policy.generation.vllm_cfg.max_model_len=97
late "nowhere: no such model; expected" policy.model_name="$work/nowhere"
late "left.1: expected an integer, found 2.5" "data.train.left=[0,2.5]"
late "metric_name: a step has no metric 'val:loss'" checkpointing.metric_name=val:loss
late "recipe.yaml: exists and is not a folder" logger.log_dir="$work/recipe.yaml"

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

check_closing
