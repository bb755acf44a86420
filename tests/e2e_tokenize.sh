#!/bin/sh
# `whet tokenize` as a user runs it: ids, text, templates, from a folder, a tokenizer.json and standard input.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
smollm2=tests/data/text/tokenizers/smollm2
llama2=tests/data/text/tokenizers/kind_llama2/tokenizer.json

# gives EXPECTED WORD…: the words print exactly this (a printf format), whatever comes from standard input
gives() {
    # shellcheck disable=SC2059 # the expectation is a format
    printf "$1" >"$work/expected"
    wanted=$1; shift
    if "$whet" "$@" >"$work/out" 2>"$work/err" && cmp -s "$work/expected" "$work/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $*: expected $wanted, found $(cat "$work/out" "$work/err")"
    fi
}
# refused STATUS PATTERN WORD…: one line on standard error that matches, nothing on standard output
refused() {
    status=$1 pattern=$2; shift 2
    "$whet" "$@" >"$work/out" 2>"$work/err" </dev/null
    if [ $? = "$status" ] && [ ! -s "$work/out" ] && [ "$(grep -c '' "$work/err")" = 1 ] && grep -q "$pattern" "$work/err"
    then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $*: $(cat "$work/err")"; fi
}

gives '19556 905\n' tokenize $smollm2 'Hello world'
refused 1 '/dev/zero: more than 1073741824 bytes' tokenize $smollm2 --render /dev/zero
refused 1 '/nowhere: .*No such file' tokenize $smollm2 --render /nowhere
printf 'Hello world' | gives '19556 905\n' tokenize $smollm2
printf 'Hello\n' | gives '19556 198\n' tokenize $smollm2/tokenizer.json
gives '{"text":"Hello world","ids":[19556,905],"tokens":["Hello","Ġworld"]}\n' tokenize $smollm2 'Hello world' --json
gives 'Hello world' tokenize $smollm2 --decode '19556 905'
gives 'Hello world' tokenize $smollm2 --decode '[19556, 905]'
printf '19556\n905\n' | gives 'Hello world' tokenize $smollm2 --decode -
gives '<|im_start|>Hello' tokenize $smollm2 --decode '1 19556'
gives 'Hello' tokenize $smollm2 --decode '1 19556' --no-special
"$whet" tokenize $llama2 a >"$work/with"; "$whet" tokenize $llama2 '<s>a' >"$work/twice"
if [ "$(cut -d ' ' -f 1 <"$work/with")" = 1 ] && cmp -s "$work/with" "$work/twice"; then passed=$((passed + 1))
else failed=$((failed + 1)); echo "FAILED one BOS: $(cat "$work/with" "$work/twice")"; fi
gives "$(cut -d ' ' -f 2- <"$work/with")\n" tokenize $llama2 --no-special a

chat='[{"role": "user", "content": "Hi"}]'
printf '%s' "$chat" >"$work/chat.json"
printf '[{"type": "function", "function": {"name": "now"}}]' >"$work/tools.json"
hi='<|im_start|>user\nHi<|im_end|>\n'
asked="<|im_start|>system\\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\\n$hi"
gives "$asked<|im_start|>assistant\\n" tokenize $smollm2 --render "$chat" --chat-template tests/data/text/chat/templates/smollm2.jinja
gives "$asked" tokenize $smollm2 --render "$work/chat.json" --no-generation-prompt --chat-template tests/data/text/chat/templates/smollm2.jinja
gives 'Hi now 1 2024 True' tokenize $smollm2 --render "$work/chat.json" --tools "$work/tools.json" --variable level=1 --time 2024-02-29 \
    --chat-template '{{ messages[0].content }} {{ tools[0].function.name }} {{ level }} {{ strftime_now("%Y") }} {{ add_generation_prompt }}'
printf '{"messages": %s, "tools": [7]}' "$chat" >"$work/line.json"
refused 1 'tools must be a list of objects' tokenize $smollm2 --render "$work/line.json" --chat-template '{{ 1 }}'
gives 'a|Hi' tokenize $smollm2 --render "$chat" --variable x=a --variable continue_final_message=true --chat-template '{{ x }}|{{ messages[0].content }}|end'
gives '{"text":"Hi","ids":[26843],"tokens":["Hi"]}\n' tokenize $smollm2 --json --render - --chat-template '{{ messages[0].content }}' <"$work/chat.json"

refused 2 'do not go together' tokenize $smollm2 --decode 1 --render
refused 2 'takes ids and no TEXT' tokenize $smollm2 --decode 1 text
refused 2 'tools goes with --render' tokenize $smollm2 text --tools "$work/tools.json"
refused 2 "variable is '=x'; expected NAME=VALUE" tokenize $smollm2 --render "$chat" --variable =x
refused 2 "variable is 'x'; expected NAME=VALUE" tokenize $smollm2 --render "$chat" --variable x
refused 2 "'2025-13-45' is no time" tokenize $smollm2 --render "$chat" --time 2025-13-45
refused 1 'there is no id 49152; the tokenizer has 0 to 49151' tokenize $smollm2 --decode 49152
refused 2 "'12x' is no id" tokenize $smollm2 --decode 12x
refused 1 "there is no id 99999999999999999999; " tokenize $smollm2 --decode 99999999999999999999
refused 2 'chat-template goes with --render' tokenize $smollm2 text --chat-template default
refused 2 'no-special: a template writes' tokenize $smollm2 --render "$chat" --no-special
refused 1 'no chat template' tokenize $llama2 --render "$chat"
refused 1 'raise_exception: no' tokenize $smollm2 --render "$chat" --chat-template '{{ raise_exception("no") }}'
refused 1 'chat.jso: ' tokenize $smollm2 --render "$work/chat.jso"
refused 1 'not valid JSON' tokenize $smollm2 --render '[{'
refused 1 'no such model' tokenize "$work/none" text

check_closing
