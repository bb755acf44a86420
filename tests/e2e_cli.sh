#!/bin/sh
# The command line as a user meets it: help, completion, prompts from everywhere, output that goes nowhere.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
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
    completes "compare|completion" whet comp
    completes "--temperature" whet generate --temp
    completes "--temperature" whet generate model prompt --temp
    completes "bfloat16" whet generate --precision bf
    completes "bfloat16" whet generate --precision = bf
    completes "--precision=bfloat16" whet generate --precision=bf
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
    completes "bfloat16|float16|float32" whet train b.yaml policy.precision =
    completes "k2" whet train b.yaml loss_fn.reference_policy_kl_type = k2
    completes "+checkpointing.enabled=true" whet train b.yaml +checkpointing.enabled=t
    completes "" whet train b.yaml grpo.seed = ''
    completes "bash|fish|zsh" whet completion ''
    completes "score" whet help sc
    completes "" whet pull ''
    completes "" whet nonsense ''
else
    skipped=$((skipped + 1))
fi

# --- prompts from everywhere
answer() { # answer WORD…: the text that is sampled; what goes wrong is in $work/err
    "$whet" generate "$model" --max-new-tokens 12 "$@" 2>"$work/err"
}
alike() { cmp -s "$work/one" "$work/two"; check "$1 ($(cat "$work/err"))" $?; }
unlike() { ! cmp -s "$work/one" "$work/two"; check "$1" $?; }
answer 'Say hi' </dev/null >"$work/one"
printf 'Say hi\n' | answer >"$work/two";                                        alike "a prompt on standard input"
printf 'Say hi' | answer - >"$work/two";                                        alike "a prompt on standard input, -"
printf '{"prompt": "Say hi", "id": 7}' | answer --prompts - >"$work/two";       alike "a line of JSON"
printf '{"question": "Say hi"}' | answer --prompts - --key question >"$work/two"; alike "--key"
printf '\nSay hi\r\n' >"$work/plain.txt"
answer --prompts "$work/plain.txt" >"$work/two";                                alike "a text file"
answer --prompts - --format text <"$work/plain.txt" >"$work/two";               alike "--format text"
printf '{"messages": [{"role": "user", "content": "Say hi"}]}' | answer --prompts - >"$work/two"; alike "messages"
answer 'Say hi' --system Be >"$work/two";                                       unlike "--system changes the prompt"
answer 'Say hi' --raw >"$work/two";                                             unlike "--raw changes the prompt"
cp -r "$model" "$work/bare" && rm "$work/bare/chat_template.jinja"
"$whet" generate "$work/bare" 'Say hi' --max-new-tokens 12 >"$work/one" 2>"$work/err"
alike "a model without a chat template continues"
answer 'Say hi' --system Be >"$work/one"
printf '{"messages": [{"role": "system", "content": "Be"}, {"role": "user", "content": "Say hi"}]}' |
    answer --prompts - --system other >"$work/two";                             alike "--system stands behind a conversation's own"

# --- many answers: in the order of the prompts whatever is decoded together; each line whole JSON
for i in 1 2 3 4 5 6 7 8 9; do printf '{"prompt": "Number %d %0*d"}\n' $i $((i * 7 % 13)) 0; done >"$work/nine"
many() { "$whet" generate "$model" --prompts "$work/nine" --samples 3 --max-new-tokens 40 --json "$@" 2>"$work/err"; }
texts() { sed 's/,"logprobs.*//' "$1"; }
many >"$work/one"
line='^{"prompt":[0-8],"sample":[0-2],"text":".*","finish_reason":"\(stop\|length\)","stop_reason":[^,]*,"prompt_ids":\[[0-9,]*\],"ids":\[[0-9,]*\],"logprobs":\[.*\]}$'
same "nine prompts, three samples" 27 "$(grep -c "$line" "$work/one")"
sed 's/^{"prompt":\([0-9]\),"sample":\([0-9]\).*/\1\2/' "$work/one" >"$work/order"
sort -c "$work/order"; check "in order" $?
many --batch 2 --threads 1 >"$work/two";            alike "--batch and --threads change nothing"
many --kv-cache-tokens 128 >"$work/two";            alike "a small cache changes nothing"
many --memory 40K --verbose >"$work/two";           alike "a small memory changes nothing"
grep -q 'new tokens in .* a second; the first after' "$work/err" &&
    grep -q 'found in the cache; [1-9][0-9]* preemptions' "$work/err"
check "--verbose ($(cat "$work/err"))" $?
many --seed 7 >"$work/two";                         unlike "--seed"
many --temperature 0 >"$work/one"
many --top-k 1 >"$work/two";                        same "greedy is top-k 1" "$(texts "$work/one")" "$(texts "$work/two")"
many --min-p 1 >"$work/two";                        same "greedy is min-p 1" "$(texts "$work/one")" "$(texts "$work/two")"
many --stop e --stop o >"$work/two"
! sed 's/.*"text":"\(.*\)","finish.*/\1/; s/\\u....//g' "$work/two" | grep -q '[eo]'
check "stop strings are not in the answers" $?
grep -q '"finish_reason":"stop","stop_reason":"[eo]"' "$work/two"; check "a stop string is the reason" $?
id=$(sed -n 's/.*"ids":\[[0-9]*,\([0-9]*\),.*/\1/p' "$work/two" | head -n 1)
many --stop-id "$id" >"$work/two"
grep -q "\"finish_reason\":\"stop\",\"stop_reason\":$id," "$work/two"; check "a stop id, $id, is the reason" $?

# --- refusals
refused() { # refused STATUS PATTERN WORD…
    wanted=$1 pattern=$2; shift 2
    "$whet" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ $status = "$wanted" ] && [ ! -s "$work/out" ] && [ "$(grep -c '' "$work/err")" = 1 ] && grep -q "$pattern" "$work/err"
    check "status $wanted, $pattern: $* (status $status: $(head -n 3 "$work/err"))" $?
}
refused 2 "standard input is empty" generate "$model"
refused 2 "leaves no place for --system" generate "$model" hi --raw --system x
refused 2 "leaves no place for --chat-template" generate "$model" hi --raw --chat-template x
refused 2 "unknown option --temp; did you mean --temperature" generate "$model" hi --temp 0
printf '{"messages": [{"role": "user", "content": "hi"}]}\n' >"$work/messages.jsonl"
refused 1 'messages.jsonl:1: "messages" need the chat template, which --raw leaves out' generate "$model" --raw --prompts "$work/messages.jsonl"
refused 2 "min-p is '1.5'" generate "$model" hi --min-p 1.5
refused 2 "stop-id is 'x'" generate "$model" hi --stop-id x
refused 1 "stop-id is 272.*272 ids" generate "$model" hi --stop-id 272
refused 2 "stop: an empty" generate "$model" hi --stop=
refused 1 "^whet generate: --stop: " generate "$model" hi --stop "$(head -c 5000 /dev/zero | tr '\0' x)"
machine_has 400000000 ||
    refused 1 "^whet generate: --kv-cache-tokens: 2147483647 tokens take .* the machine has" generate "$model" hi --kv-cache-tokens 2147483647
refused 2 "memory is '1X'" generate "$model" hi --memory 1X
refused 2 "memory or --kv-cache-tokens" generate "$model" hi --memory 1M --kv-cache-tokens 50
refused 2 "kv-cache-tokens is '15'; expected an integer from 16" generate "$model" hi --kv-cache-tokens 15
refused 1 "memory is 1 bytes, room for 0 tokens.*16 to" generate "$model" hi --memory 1
refused 1 "memory is .*room for .* tokens" generate "$model" hi --memory 1000000T
refused 1 "the prompt: [0-9]* tokens; expected at most 2 (the context has 3)" generate "$model" hi --context 3
refused 2 "format is 'csv'; expected jsonl|text" generate "$model" --prompts "$work/nine" --format csv
refused 2 "belong to a FILE" generate "$model" hi --format text
refused 2 "key: lines of plain text" score "$model" "$work/plain.txt" --key x
refused 2 "key is 'ids'" score "$model" "$work/nine" --key ids
refused 1 "context is 513.*512 positions" generate "$model" hi --context 513
refused 1 "memory: the cache has room for a prompt of [0-9]* tokens" generate "$model" "$(seq 90)" --memory 20K --max-new-tokens 1
refused 1 "no chat template" generate "$work/bare" hi --system x
printf '{"ids": [1]}\nx\n' | "$whet" score "$model" - >"$work/out" 2>"$work/err"
same "a line of standard input is named" "1 1" "$? $(grep -c '^whet score: standard input:2: not valid JSON' "$work/err")"
printf '{"ids": [1, 2]}\n' | "$whet" generate "$model" --prompts - --system x 2>"$work/err"
same "ids and --system" "1 1" "$? $(grep -c 'standard input:1: "ids" leave no place' "$work/err")"

# --- scores: as many as lines, in order, the same in every walk
sed 's/prompt/text/' "$work/nine" >"$work/texts"
score() { "$whet" score "$model" "$@" 2>"$work/err"; }
score "$work/texts" >"$work/one"; same "scores" 9 "$(grep -c '"sum_logprob"' "$work/one")"
grep -q '^texts 9  tokens scored [0-9]*  mean_nll [0-9.]*  perplexity [0-9.]*$' "$work/err"; check "the mean of all scores" $?
score - --chunk 3 <"$work/texts" >"$work/two";      alike "--chunk changes no score"
score "$work/nine" --key prompt >"$work/two";       alike "score --key"
sed 's/{"prompt": "//; s/"}//' "$work/nine" >"$work/lines.txt"
score "$work/lines.txt" >"$work/two";               alike "score of a text file"

# --- output that goes nowhere: said once, and no more is computed
if [ -w /dev/full ]; then
    for words in "generate $model --prompts $work/nine --samples 100000" "score $model $work/texts" "completion bash" "help train"; do
        # shellcheck disable=SC2086 # words
        timeout 60 "$whet" $words >/dev/full 2>"$work/err"
        same "a full disk: $words" "1 1 1" \
            "$? $(grep -c '' "$work/err") $(grep -c 'standard output: cannot write' "$work/err")"
    done
else
    skipped=$((skipped + 4))
fi
# A reader that has enough ends the program silently.
{ "$whet" generate "$model" --prompts "$work/nine" --samples 3000 --json 2>"$work/err"; echo $? >"$work/status"; } |
    head -n 1 >"$work/out"
same "head" "141 1 0" "$(cat "$work/status") $(grep -c '' "$work/out") $(grep -c '' "$work/err")"

# --- on a terminal
# dialogue NAME WORD…: plays the dialogue on standard input with the words; what was shown is in $work/shown
dialogue() {
    name=$1; shift
    WHET_HISTORY=$work/history TERM=xterm "$build"/tests/tool_pty "$whet" "$@" >"$work/shown" 2>"$work/err"
    check "$name: $(cat "$work/err")" $?
}
dialogue "two turns" generate "$model" --max-new-tokens 12 --verbose <<'EOF'
expect 512 tokens of context. /help lists the commands, Ctrl-D ends.
expect > 
send Say hi\r
expect [cut off after 12 tokens
expect 0 of 25 prompt tokens were in the cache]
expect \n> 
send And wält € 🙂\r
expect And wält € 🙂
expect [cut off after 12 tokens
expect 16 of 
expect \n> 
send /exit\r
end 0
EOF
# The first answer of a chat is that of a prompt alone, and it was streamed whole, characters of several bytes included.
answer 'Say hi' --temperature 0.7 | tr -d '\000-\037\177' >"$work/one"
sed -n '/Say hi/,/\[cut off/p' "$work/shown" | sed '1d;$d' | tr -d '\r\n' | LC_ALL=C sed 's/\xe2\x90[\x80-\x9f\xa1]//g' >"$work/two"
alike "a chat's first answer"
# With room for an answer that no machine ends before it is stopped.
cp -r "$model" "$work/roomy"
sed 's/\("max_position_embeddings": *\)[0-9]*/\132768/' "$model/config.json" >"$work/roomy/config.json"
dialogue "Ctrl-C stops the answer, not the program" generate "$work/roomy" --ignore-eos <<'EOF'
expect > 
send Count\r
expect \xef\xbf\xbd
send \x03
expect [stopped]
expect \n> 
send again\r
expect \xef\xbf\xbd
send \x03
expect [stopped]
expect \n> 
send unfinished
expect unfinished
send \x03
expect [Ctrl-D or /exit ends the conversation]
expect \n> 
send \x04
end 0
EOF
dialogue "a window of another size" generate "$model" --max-new-tokens 3 <<'EOF'
expect > 
size 10 20
send a long line that does not fit into twenty columns
expect columns
size 30 120
send , or now\r
expect [cut off
expect \n> 
send \x04
end 0
EOF
dialogue "a cache smaller than the context" generate "$model" --kv-cache-tokens 100 --max-new-tokens 3 <<'EOF'
expect 96 tokens of context
expect > 
send hi\r
expect [cut off after 3 tokens
expect \n> 
send \x04
end 0
EOF
dialogue "a context larger than the cache" generate "$model" --kv-cache-tokens 100 --context 200 <<'EOF'
expect --context is 200; --kv-cache-tokens leaves room for 96 tokens
end 1
EOF
dialogue "commands" generate "$model" --max-new-tokens 5 <<'EOF'
expect > 
send /help\r
expect (now 0.7)
expect Ctrl-C stops an answer
expect \n> 
send /temperature 0\r
expect \n> 
send /tempature 0\r
expect [no command /tempature; did you mean /temperature]
expect \n> 
send /nonsense\r
expect [no command /nonsense; see /help]
expect \n> 
send /top-k -1\r
expect [/top-k -1: expected an integer from 0 to
expect \n> 
send /seed 1.5\r
expect [/seed 1.5: expected an integer
expect \n> 
send /reset now\r
expect [/reset takes no value]
expect \n> 
send /max-new-tokens 3\r
expect \n> 
send /retry\r
expect [there is no answer yet]
expect \n> 
send //slash\r
expect [cut off after 3 tokens
expect \n> 
send /retry\r
expect [cut off after 3 tokens
expect \n> 
send /system Be brief.\r
expect \n> 
send /reset\r
expect \n> 
send """\r
expect . 
send one\r
expect . 
send two\r
expect . 
send """\r
expect [cut off after 3 tokens
expect \n> 
send \x10
expect /reset
send \r
expect \n> 
send /quit\r
end 0
EOF
long=$(printf '%0600d' 0)
dialogue "a message beyond the context is dropped" generate "$model" --max-new-tokens 3 <<EOF
expect > 
send Short\r
expect [cut off after 3 tokens
expect \n> 
send $long\r
expect [dropped: the conversation would have 6
expect there is room for 511; /reset begins anew]
expect \n> 
send Short again\r
expect [cut off after 3 tokens
expect \n> 
send \x04
end 0
EOF
dialogue "the context runs full" generate "$model" --ignore-eos --context 40 <<'EOF'
expect 40 tokens of context
expect > 
send a\r
expect [the context of 40 tokens is full: /reset begins anew]
expect \n> 
send b\r
expect [dropped: the conversation would have
expect \n> 
send /reset\r
expect \n> 
send b\r
expect [the context of 40 tokens is full
expect \n> 
send \x04
end 0
EOF
dialogue "without a chat template text is continued" generate "$work/bare" --ignore-eos --max-new-tokens 4 --verbose <<'EOF'
expect it continues the text that you type
expect > 
send Once upon a time\r
expect [4 tokens
expect 0 of 16 prompt tokens
expect \n> 
send there\r
expect 16 of 25 prompt tokens
expect \n> 
send /retry\r
expect of 25 prompt tokens
expect \n> 
send /system x\r
expect [without a chat template there is no system message]
expect \n> 
send \x04
end 0
EOF
dialogue "a template that refuses" generate "$model" --max-new-tokens 2 --ignore-eos \
    --chat-template "{% if messages|length > 1 %}{{ raise_exception('no more') }}{% endif %}x" <<'EOF'
expect > 
send a\r
expect [cut off
expect \n> 
send b\r
expect [dropped: 
expect no more
expect \n> 
send \x04
end 0
EOF
grep -q '^unfinished' "$work/history"; same "an abandoned line is no history" 1 $?
grep -q '^Count$' "$work/history"; check "the history outlives the program" $?
same "the history is the user's alone" 600 "$(stat -c %a "$work/history")"
dialogue "a prompt alone" generate "$model" 'Say hi' --max-new-tokens 12 <<'EOF'
end 0
EOF
dialogue "JSON on a terminal" generate "$model" hi --json --samples 2 --max-new-tokens 3 <<'EOF'
expect "sample":0
expect "sample":1
end 0
EOF
dialogue "no chat in JSON" generate "$model" --json <<'EOF'
expect whet generate: give a PROMPT or --prompts FILE
end 2
EOF

check_closing
