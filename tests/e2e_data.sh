#!/bin/sh
# Data sets and rewards as a user has them, with the real program on a tiny random model: gsm8k out of the cache, lists of data sets
# with different rewards, a command that scores, the same order after a kill; and one clear line for whatever is wrong with
# data, prompts and commands, with the last checkpoint whole.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
"$build"/tests/tool_make_model "$work/llama" llama || exit 1
export WHET_CACHE="$work/cache"

cat >"$work/recipe.yaml" <<R
grpo: {num_prompts_per_step: 4, num_generations_per_prompt: 4, max_num_steps: 2, max_num_epochs: 9, val_period: 1,
       max_val_samples: 4, val_batch_size: 4}
policy:
  model_name: $work/llama
  precision: float32
  train_global_batch_size: 16
  max_total_sequence_length: 200
  generation: {max_new_tokens: 8}
  optimizer: {kwargs: {lr: 1.0e-3}}
  scheduler: null
checkpointing: {save_period: 1, keep_top_k: null}
data:
  train: {dataset_name: $work/train.jsonl}
  validation: {dataset_name: $work/valid.csv, input_key: question, output_key: answer}
  default: {env_name: last_integer}
R
i=0
while [ $i -lt 12 ]; do
    echo "{\"input\": \"What is $i + 1?\", \"output\": $((i + 1)), \"level\": $i}"
    i=$((i + 1))
done >"$work/train.jsonl"
printf 'question,answer\r\n"What is ""2"",\nsquared?",4\r\nOne?,1\r\n' >"$work/valid.csv"

# train NAME [key=value …]: a run in its own folder
train() {
    name=$1; shift
    "$whet" train "$work/recipe.yaml" logger.log_dir="$work/$name" checkpointing.checkpoint_dir="$work/$name" --quiet "$@" \
        >"$work/out" 2>&1
}
# --- what works
train plain; check "a file of questions and a validation file" $?
grep -q '"content":"What is \\"2\\",\\nsquared?"' "$work/plain/val_data_step1.jsonl"; check "a CSV with quotes and newlines" $?
[ "$(grep -c '"step":[12],"validation/accuracy"' "$work/plain/metrics.jsonl")" = 2 ]; check "validation by its own file" $?

mkdir -p "$work/cache/data/gsm8k"
for split in train test; do
    for n in 1 2 3 4 5 6; do
        printf '{"question": "%s: what is %d + %d?", "answer": "It is %d.\\n#### %d"}\n' $split $n $n $((2 * n)) $((2 * n))
    done >"$work/cache/data/gsm8k/$split.jsonl"
done
printf '%s\n' 'Solve it: {} Put the number in \boxed{{}}.' >"$work/prompt.txt"
echo 'You calculate.' >"$work/system.txt"
train gsm8k data.train.dataset_name=gsm8k 'data.validation={dataset_name: openai/gsm8k}' data.default.env_name=math \
    data.default.prompt_file=prompt.txt data.default.system_prompt_file="$work/system.txt"
check "two steps of gsm8k from the cache" $?
grep -q '"content":"You calculate.\\n"},{"role":"user","content":"Solve it: train: what is . + .? Put the number in \\\\boxed{}.\\n"' "$work/gsm8k/train_data_step1.jsonl"
check "prompt and system message, found beside the recipe" $?
grep -q 'Solve it: test: ' "$work/gsm8k/val_data_step2.jsonl"; check "validation asks gsm8k's test split" $?

# A command that scores: the row's level, and whether the answer has a blank.
cat >"$work/judge.sh" <<'A'
while read -r line; do
    id=${line##*\"id\":}
    level=${line##*\"level\":}
    case "${line##*\"response\":}" in *' '*) blank=1 ;; *) blank=0 ;; esac
    echo "{\"id\":${id%%[,\}]*},\"rewards\":{\"level\":${level%%[,\}]*},\"blank\":$blank}}"
done
A
cat >"$work/two.yaml" <<R
defaults: recipe.yaml
data:
  train:
    - {dataset_name: $work/train.jsonl, env_name: judge}
    - {dataset_name: arithmetic, left: [50, 59], right: [1, 3], env_name: last_integer, prompt_file: $work/prompt.txt}
  validation: null
env:
  judge: {command: [sh, $work/judge.sh], timeout_seconds: 30}
R
list() {
    name=$1; shift
    "$whet" train "$work/two.yaml" logger.log_dir="$work/$name" checkpointing.checkpoint_dir="$work/$name" --quiet "$@" \
        >"$work/out" 2>&1
}
list two grpo.max_num_steps=6; check "two data sets with different rewards" $?
cat "$work"/two/train_data_step?.jsonl >"$work/asked"
grep -q '"Solve it: What is 5' "$work/asked" && grep -q '"What is ' "$work/asked"; check "both are asked, each with its own prompt" $?
grep '"content":"What is 7 + 1?"' "$work/asked" | grep -q '"rewards":[78][.]0,'; check "the command sees the row's own fields" $?
[ -s "$work/two/val_data_step1.jsonl" ]; check "a list holds some of each out for validation" $?
list turns grpo.max_num_steps=2 data.use_multiple_dataloader=true data.num_prompts_per_dataloader=2
[ "$(grep -c 'Solve it: ' "$work/turns/train_data_step1.jsonl")" = 8 ] && [ "$(grep -c 'Solve it: ' "$work/turns/train_data_step2.jsonl")" = 8 ]
check "data sets take turns" $?
list gdpo grpo.max_num_steps=1 "data.train=[{dataset_name: $work/train.jsonl, env_name: judge}]" grpo.adv_estimator.name=gdpo
check "gdpo by the command's components" $?
grep '"train/reward":0.0,' "$work/gdpo/metrics.jsonl"; [ $? = 1 ]; check "the command's rewards are not 0" $?
list weighed grpo.max_num_steps=1 "data.train=[{dataset_name: $work/train.jsonl, env_name: judge}]" \
    "grpo.adv_estimator.reward_weights=[0, 0]" && grep -q '"train/reward":0.0,' "$work/weighed/metrics.jsonl"
check "weights of components are those of the reward" $?
list three grpo.max_num_steps=1 "data.train=[{dataset_name: $work/train.jsonl, env_name: judge}]" \
    "grpo.adv_estimator.reward_weights=[1, 1, 1]"
[ $? = 1 ] && grep -q "reward_weights: 3 numbers for 2 components" "$work/out"; check "a weight for each component" $?
train multi grpo.max_num_steps=1 data.default.env_name=math_multi_reward grpo.adv_estimator.name=gdpo
check "gdpo by math_multi_reward" $?
grep -q '"train/reward_components/correctness":' "$work/multi/metrics.jsonl" &&
    grep -q '"reward_components":{"correctness":' "$work/multi/train_data_step1.jsonl"
check "components of a reward are in the metrics and in the sample log" $?

# --- resumed: the same questions in the same order
list killed grpo.max_num_steps=3 && list killed grpo.max_num_steps=6
check "a run in two parts" $?
for step in 1 2 3 4 5 6; do cmp "$work/two/train_data_step$step.jsonl" "$work/killed/train_data_step$step.jsonl" || break; done
[ $step = 6 ] && cmp "$work/two/step_6/policy/weights/model/model.safetensors" "$work/killed/step_6/policy/weights/model/model.safetensors"
check "asks the same and learns the same" $?

echo '{"input": "New?", "output": 1}' >>"$work/train.jsonl"
"$whet" train "$work/two.yaml" logger.log_dir="$work/killed" checkpointing.checkpoint_dir="$work/killed" grpo.max_num_steps=7 >"$work/out" 2>&1
grep -q 'warning: the questions are not those of the checkpoint' "$work/out"; check "other questions than before are told" $?

# --- refusals: one line, nothing left behind
refuse() { # refuse PATTERN key=value …
    pattern=$1; shift
    train refused "$@"
    status=$?
    [ $status = 1 ] && [ "$(grep -c '' "$work/out")" = 1 ] && grep -q -- "$pattern" "$work/out" && [ ! -d "$work/refused/step_1" ]
    check "refused ($status): $*: $(head -c 300 "$work/out")" $?
}
bad() { # bad NAME FORMAT PATTERN: a training file of this content
    # shellcheck disable=SC2059 # the format is the content
    printf "$2" >"$work/$1"
    refuse "$1$3" data.train.dataset_name="$work/$1"
}
bad bad.jsonl '' ': empty'
bad bad.jsonl '\n\n' ': no row'
bad bad.jsonl '{"input": "x", "output": 1}\n{"input": "y", "output"\n' ':2: not valid JSON'
bad bad.jsonl '{"question": "x", "answer": 1}\n' ':1: no "input" (input_key); the row has "question", "answer"'
bad bad.jsonl '{"input": 1, "output": 1}\n' ':1: "input" is no text'
bad bad.jsonl '{"input": "x"}\n' ':1: no right answer.*last_integer'
bad bad.jsonl '{"input": "x", "output": "many"}\n' ".*'many' of a row is not an integer"
bad bad.jsonl '{"input": "x", "input": "y", "output": 1}\n' ':1: .*duplicate'
bad bad.jsonl '{"input": "\377", "output": 1}\n' ':1: '
bad bad.jsonl 'a\000b\n' ':1: a 0 byte'
bad bad.csv 'input,output\n"x,1\n' ':2: a quote is open'
bad bad.csv 'input,output\nx\n' ':2: 1 fields'
bad bad.json '[{"input": "x", "output": 1}' ':1: the list does not end'
bad bad.txt 'x\n' ':1: no "input" (input_key); the row has "text"'
bad bad.parquet 'PAR1' ': not read; write it as JSON lines'
bad bad.xlsx 'x' ': expected a name that ends in'
refuse "dataset_name: there is no file or folder .*/none.jsonl" data.train.dataset_name="$work/none.jsonl"
refuse "OpenMathInstruct-2/train.jsonl is not there; its rows are those of nvidia/OpenMathInstruct-2" data.train.dataset_name=OpenMathInstruct-2
refuse "data_path: ResponseDataset needs one" data.train.dataset_name=ResponseDataset
refuse "'gsm9k' is not here (did you mean 'gsm8k'?)" data.train.dataset_name=gsm9k
refuse "grpo.num_prompts_per_step: 20, but data.train has only 13 questions" grpo.num_prompts_per_step=20 policy.train_global_batch_size=80
refuse "data.train.env_name: \"mth\" is no reward.*did you mean \"math\"" data.train.env_name=mth
refuse "data.train.env_name: \"code\" is no reward" data.train.env_name=code
refuse "data.train.prompt_file: none.txt: cannot open" data.train.prompt_file=none.txt
echo 'no slot' >"$work/slotless.txt"
refuse "slotless.txt: no slot {} for the question" data.train.prompt_file="$work/slotless.txt"
refuse "processor: 'sft_processor' in a recipe of grpo" data.train.processor=sft_processor
refuse "subset: 'socratic' is not supported" +data.train.subset=socratic
refuse "data.validation.split_validation_size: 0.5, but all" ++data.validation.split_validation_size=0.5
refuse "data.train.input_kee\|input_key" +data.train.input_kee=x
refuse "custom_dataloader" +data.custom_dataloader=my.module
refuse "data.num_prompts_per_dataloader: data.use_multiple_dataloader needs it" data.use_multiple_dataloader=true
refuse "data.num_prompts_per_dataloader: 3 does not divide the 4" data.use_multiple_dataloader=true data.num_prompts_per_dataloader=3
refuse "gdpo.*two components" grpo.adv_estimator.name=gdpo
refuse "data.train: expected a mapping or a list" data.train=3
refuse "data.train: an empty list" "data.train=[]"
refuse "data.train.1: expected a mapping" "data.train=[{dataset_name: gsm8k},3]"
refuse "env.judge.comand.*env.judge.command" '++env.judge={comand: [x]}'
refuse "env.judge.command: expected a program" '++env.judge={command: []}'
refuse "verifier_type: 'multilingual_multichoice' is not supported" '++env.math={verifier_type: multilingual_multichoice}'
mv "$work/cache" "$work/away"
refuse "train.jsonl is not there; .whet pull gsm8k. fetches it" data.train.dataset_name=gsm8k
mv "$work/away" "$work/cache"

# --- commands that fail: the run ends with one line, and the last checkpoint is whole
command() { # command PATTERN SCRIPT: from a run of one step on
    rm -rf "$work/command"
    train command grpo.max_num_steps=1
    printf '%s\n' "$2" >"$work/score.sh"
    train command "++env.judge={command: [sh, $work/score.sh], timeout_seconds: 0.5}" data.train.env_name=judge grpo.max_num_steps=3
    status=$?
    [ $status = 1 ] && [ "$(grep -v 'changed since\|resuming' "$work/out" | grep -c '')" = 1 ] && grep -q -- "$1" "$work/out" &&
        [ -d "$work/command/step_1" ] && [ ! -d "$work/command/step_2" ] &&
        "$whet" generate "$work/command/step_1" hi --max-new-tokens 1 >/dev/null
    check "command ($status): $2: $(head -c 300 "$work/out")" $?
}
command "env.judge.command: it ended with status 3; its last words (.*reward_judge.log): sorry" 'echo sorry >&2; exit 3'
command "env.judge.command: it did not answer within 0.5 seconds" 'sleep 60'
command "its answer 'hello': not valid JSON" 'while read x; do echo hello; done'
command "id 99 was not asked" 'while read x; do echo "{\"id\":99,\"reward\":1}"; done'
refuse "env.judge.command: cannot run '/no/such/program'" '++env.judge={command: [/no/such/program]}' data.train.env_name=judge
# A command that can score nothing is no error: nothing is learned from it.
echo 'while read x; do x=${x##*\"id\":}; echo "{\"id\":${x%%[,\}]*},\"reward\":null}"; done' >"$work/null.sh"
train null "++env.judge={command: [sh, $work/null.sh]}" data.train.env_name=judge && grep -q '"train/num_mask_sample_filtered":16.0' "$work/null/metrics.jsonl"
check "nulls take part in nothing" $?

# --- prompts that are too long are left out and told
train long data.max_input_seq_length=32 && grep -q 'prompts have more than 32 tokens' "$work/out" || train long data.max_input_seq_length=20
grep -q '4 of 4 prompts have more than [0-9]* tokens' "$work/out" && grep -q '"train/num_mask_sample_filtered":16.0' "$work/long/metrics.jsonl"
check "long prompts: $(head -n 1 "$work/out")" $?

check_closing
