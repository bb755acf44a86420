#!/bin/sh
# `whet pull` against a server of our own that speaks the hub's protocol, with faults, redirects, hostile answers and HTTPS.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
server='' stall_server=''
trap 'kill $server $stall_server 2>/dev/null; rm -rf "$work"' EXIT
for name in HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HOME HF_ENDPOINT HF_HUB_OFFLINE TRANSFORMERS_OFFLINE XDG_CACHE_HOME \
    HUGGINGFACE_HUB_CACHE HF_HUB_DOWNLOAD_TIMEOUT CURL_CA_BUNDLE SSL_CERT_FILE http_proxy https_proxy HTTPS_PROXY ALL_PROXY \
    all_proxy no_proxy NO_PROXY WHET_GSM8K_ENDPOINT; do
    unset $name
done
gsm8k=${WHET_CACHE:-$HOME/.cache/whet}/data/gsm8k # the real data, when it has been fetched
export HOME="$work/home" HF_HUB_CACHE="$work/cache" WHET_CACHE="$work/own"
commit=0123456789abcdef0123456789abcdef01234567
folder=$work/cache/models--org--tiny
snapshot=$folder/snapshots/$commit
log=$work/log

# --- what the server has
tiny=$work/root/org/tiny
mkdir -p "$work/root/org" "$work/home"
"$build"/tests/tool_make_model "$tiny" llama || exit 1
mkdir "$tiny/onnx"
for name in README.md pytorch_model.bin onnx/model.safetensors config.json.bak flax_model.msgpack; do echo no >"$tiny/$name"; done
mkdir "$work/root/org/shards" "$work/root/org/ggufs" "$work/root/org/one-gguf" "$work/root/org/pickled"
cp "$tiny/config.json" "$tiny/tokenizer.json" "$work/root/org/shards"
echo '{"weight_map": {"a": "part-2.safetensors", "b": "part-1.safetensors", "c": "part-2.safetensors"}}' \
    >"$work/root/org/shards/model.safetensors.index.json"
for name in shards/part-1.safetensors shards/part-2.safetensors shards/unlisted.safetensors ggufs/m.Q4.gguf ggufs/m.Q8.gguf \
    one-gguf/m.gguf; do
    head -c 30000 /dev/urandom >"$work/root/org/$name"
done
echo no >"$work/root/org/ggufs/README.md"
cp "$tiny/config.json" "$tiny/pytorch_model.bin" "$work/root/org/pickled"
weights=$(wc -c <"$tiny/model.safetensors")
half=$((weights / 2))

serve() { # serve KEY=VALUE …: a fresh server; HF_ENDPOINT leads to it
    [ -z "$server" ] || kill $server 2>/dev/null
    : >"$log"
    rm -f "$work/port"; mkfifo "$work/port"
    "$build"/tests/tool_hub_server "$work/root" "$log" "$@" >"$work/port" 2>/dev/null &
    server=$!
    read -r port cdn <"$work/port"
    export HF_ENDPOINT="http://127.0.0.1:$port"
}
fresh() { rm -rf "$work/cache" "$work/own"; }
pull() { # pull WORD…: status in $status, output in out and err
    "$whet" pull "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
says() { grep -q -- "$1" "$work/err"; }
asked() { grep -c -- "$1" "$log"; }
holds() { # holds FILE …: the snapshot has exactly these files, with the server's bytes
    [ "$(cd "$snapshot" && find . ! -type d | sed 's,^\./,,' | sort | tr '\n' ' ')" = "$(printf '%s\n' "$@" | sort | tr '\n' ' ')" ] || return 1
    for name in "$@"; do cmp -s "$snapshot/$name" "$tiny/$name" || return 1; done
}
needed='chat_template.jinja config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json'
needed=$(cd "$tiny" && for name in $needed; do [ -f "$name" ] && echo "$name"; done)
good() { # good NAME: the last pull of org/tiny went well
    # shellcheck disable=SC2086 # words
    [ $status = 0 ] && [ "$(cat "$work/out")" = "$snapshot" ] && [ "$(cat "$folder/refs/main")" = $commit ] && holds $needed &&
        [ -z "$(find "$folder" -name '*.incomplete' -o -name '*.tmp')" ]
    check "$1 (status $status: $(tail -n 2 "$work/err"))" $?
}
refused() { # refused PATTERN WORD…: a last line that matches, status 1, no path printed, no reference left behind
    pattern=$1; shift
    pull "$@"
    [ $status = 1 ] && [ ! -s "$work/out" ] && tail -n 1 "$work/err" | grep -q -- "$pattern" && [ ! -e "$folder/refs/main" ]
    check "refused $pattern: $* (status $status: $(tail -n 3 "$work/err"))" $?
}

# --- what takes its time, beside the rest
HF_ENDPOINT=http://127.0.0.1:1 HF_HUB_CACHE=$work/nobody-cache "$whet" pull org/tiny >/dev/null 2>"$work/nobody" & nobody=$!
log=$work/stall-log; serve stall=20000,1; log=$work/log
HF_HUB_DOWNLOAD_TIMEOUT=1 HF_HUB_CACHE=$work/stall-cache "$whet" pull org/tiny >/dev/null 2>"$work/stalled" & stalled=$!
stall_server=$server server=''

# --- a whole model, and what is there already
serve
pull org/tiny; good "first pull"
[ "$(readlink "$snapshot/config.json")" = "../../blobs/$(git hash-object "$tiny/config.json" 2>/dev/null || basename "$(readlink "$snapshot/config.json")")" ] &&
    [ "$(readlink "$snapshot/model.safetensors")" = "../../blobs/$(sha256sum <"$tiny/model.safetensors" | cut -d ' ' -f 1)" ]
check "blobs bear their digests" $?
! grep -q 'README\|\.bin\|onnx\|msgpack\|bak' "$log"; check "nothing needless was asked for" $?
"$whet" generate org/tiny hi --max-new-tokens 4 --seed 1 >"$work/one" 2>"$work/err" &&
    "$whet" generate "$tiny" hi --max-new-tokens 4 --seed 1 >"$work/other" 2>/dev/null && cmp -s "$work/one" "$work/other"
check "the same answers by name and by folder ($(cat "$work/err"))" $?
cat >"$work/recipe.yaml" <<R
grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 2, max_num_epochs: 100, val_period: 0}
policy:
  model_name: org/tiny
  train_global_batch_size: 8
  max_total_sequence_length: 96
  generation: {max_new_tokens: 16}
  scheduler: null
checkpointing: {save_period: 2, keep_top_k: null, checkpoint_dir: $work/run}
logger: {log_dir: $work/run}
data:
  train: {dataset_name: arithmetic, operations: ["+"], left: [0, 4], right: [0, 4], split_validation_size: 5}
  default: {env_name: last_integer}
R
"$whet" train "$work/recipe.yaml" >"$work/out" 2>"$work/err" && "$whet" train "$work/recipe.yaml" grpo.max_num_steps=3 2>"$work/err" >"$work/out" &&
    "$whet" generate "$work/run/step_2" hi --max-new-tokens 2 >"$work/out" 2>"$work/err"
check "a run, its resumption and its checkpoint by the model's name ($(tail -n 1 "$work/err"))" $?
HF_HUB_CACHE=$work/nowhere "$whet" generate "$work/run/step_2" hi >"$work/out" 2>"$work/err"
[ $? = 1 ] && says "the tokenizer of the model that the run began from is needed: org/tiny.*run .whet pull org/tiny"; check "a checkpoint whose model is gone" $?
: >"$log"
pull org/tiny; good "again"; says "are in the cache, and whole" && [ "$(asked .)" = 1 ]; check "again: one request for the list" $?
: >"$log"
pull org/tiny --revision $commit; [ $status = 0 ] && says "no request" && [ ! -s "$log" ]; check "by commit: no request" $?
pull "org/tiny@$commit/config.json"; [ "$status $(cat "$work/out")" = "0 $snapshot/config.json" ]; check "one file by commit" $?
HF_HUB_OFFLINE=1; export HF_HUB_OFFLINE
pull org/tiny; good "offline"
pull org/tiny --revision v1; [ $status = 1 ] && says "HF_HUB_OFFLINE is set: .*v1 is not in the cache"; check "offline, unknown revision" $?
unset HF_HUB_OFFLINE
[ ! -s "$log" ]; check "offline: no request" $?
pull "$tiny"; [ "$status $(cat "$work/out")" = "0 $tiny" ]; check "a folder is taken as it is" $?

# --- what is missing or damaged in the cache
rm "$folder/blobs/$(basename "$(readlink "$snapshot/model.safetensors")")"
"$whet" generate org/tiny hi >"$work/out" 2>"$work/err"; [ $? = 1 ] && says "model.safetensors is missing: run .whet pull org/tiny"
check "a missing blob is named" $?
pull org/tiny; good "a missing blob comes back"; says "1 of them fetched"; check "and it alone" $?
blob=$(readlink -f "$snapshot/tokenizer.json")
tr '0-9' '1-9a' <"$tiny/tokenizer.json" >"$blob"
HF_HUB_OFFLINE=1 "$whet" pull org/tiny >"$work/out" 2>"$work/err"; [ $? = 1 ] && says "tokenizer.json: damaged"; check "damage is seen offline" $?
pull org/tiny; good "a damaged blob is fetched again"; says "damaged.*deleted, and fetched again"; check "and it is said" $?
fresh; mkdir -p "$folder/blobs"
blob=$folder/blobs/$(sha256sum <"$tiny/model.safetensors" | cut -d ' ' -f 1)
echo short >"$blob"
pull org/tiny; good "a blob of another size"; says "damaged: it has 6 bytes"; check "and it is said" $?
fresh; mkdir -p "$folder/blobs"
head -c "$half" /dev/urandom >"$blob.incomplete"
pull org/tiny; good "a part that is no beginning of the file"; says "damaged"; check "and it is said" $?
fresh; mkdir -p "$folder/blobs"
head -c $((weights + 1)) /dev/zero >"$blob.incomplete"
pull org/tiny; good "a part longer than the file"
fresh; mkdir -p "$folder/blobs"
cp "$tiny/model.safetensors" "$blob.incomplete"
: >"$log"
pull org/tiny; good "a part that is all"; [ "$(asked '^cdn')" = 0 ]; check "and is not fetched" $?
fresh; mkdir -p "$folder/blobs"
mkfifo "$blob.incomplete"
refused "cannot write" org/tiny
sleep 5 <"$blob.incomplete" &
sleep 0.3
refused "no regular file" org/tiny
fresh; mkdir -p "$folder/blobs"
ln -s "$work/elsewhere" "$blob.incomplete"
refused "cannot write" org/tiny
[ ! -e "$work/elsewhere" ]; check "nothing is written through a link" $?

# --- tokens
fresh; serve token=hf_secret
refused "HTTP 401: no such repository, or a private one.*HF_TOKEN" org/tiny
export HF_TOKEN=hf_wrong
refused "HTTP 401: the token of HF_TOKEN is not accepted" org/tiny
! grep -q hf_wrong "$work/err"; check "the token is not printed" $?
export HF_TOKEN=' hf_secret'
pull org/tiny; good "with a token"
[ "$(asked '^hub.*auth=hf_secret$')" -gt 4 ] && [ "$(asked '^cdn.*auth=$')" = 1 ] && [ "$(asked '^cdn')" = 1 ]; check "the token stays with the hub" $?
unset HF_TOKEN; fresh
echo hf_secret >"$work/token"
HF_TOKEN_PATH=$work/token "$whet" pull org/tiny >"$work/out" 2>"$work/err"; status=$?; good "a token out of a file"
fresh; mkdir -p "$work/home/.cache/huggingface"; cp "$work/token" "$work/home/.cache/huggingface"
pull org/tiny; good "the token of the hub's login"
rm "$work/home/.cache/huggingface/token"; fresh
HF_TOKEN=$(printf 'a\nX-Other: b') refused "blank or a control character" org/tiny
: >"$log"
http_proxy=http://127.0.0.1:$port HF_ENDPOINT=http://hub.example HF_TOKEN=hf_secret refused "HTTP 40" org/tiny
[ "$(asked 'hub GET http://hub.example/.*auth=$')" = 1 ] && says "is not https: the token is not sent"; check "no token by plain http" $?

# --- what the network does
fresh; serve fail=503,2; pull org/tiny; good "two times 503"; says "HTTP 503: trying again in 0.5 s"; check "and it is said" $?
fresh; serve fail=429,1 retry_after=1; pull org/tiny; good "429"; says "trying again in 1 s"; check "Retry-After" $?
fresh; serve fail=429,1 retry_after=4000; refused "HTTP 429: the hub wants fewer requests" org/tiny
fresh; serve fail=404,1; refused "HTTP 404: no file .* at revision main" org/tiny
fresh; serve cut=20000,3; pull org/tiny; good "cut three times"
[ "$(asked '^cdn.*range=20000-')" = 1 ] && [ "$(asked '^cdn.*range=60000-')" = 1 ]; check "each time from where it stopped" $?
fresh; serve no_range cut=20000,2; pull org/tiny; good "cut, no ranges"; says "again from the start"; check "and it is said" $?
fresh; serve bad_range cut=20000,1; refused "asked for the bytes from 20000" org/tiny
fresh; serve chunked; pull org/tiny; good "chunked, sizes unknown"
fresh; serve relative; pull org/tiny; good "redirects within the hub"
fresh; serve no_head relative; pull org/tiny; good "a server without HEAD"; [ "$(asked '^cdn')" = 1 ]; check "which sends weights once" $?
fresh; serve corrupt=1; pull org/tiny; good "a wrong byte once"; says "damaged: its sha256 is"; check "and it is said" $?
fresh; serve corrupt=9; refused "model.safetensors: damaged: its sha256 is .*; deleted" org/tiny
[ -z "$(find "$folder/blobs" -name "$(basename "$blob")*")" ]; check "nothing damaged stays" $?
fresh; serve length=5; refused "announces $((weights + 5)) bytes, expected $weights" org/tiny
fresh; serve length=-5; refused "announces $((weights - 5)) bytes, expected $weights" org/tiny
fresh; serve more=9; refused "announces $((weights + 9)) bytes" org/tiny
fresh; serve loop; refused "more than 10 redirects" org/tiny
fresh; serve downgrade=file:///etc/passwd; refused "." org/tiny
fresh; serve other_commit; refused "the hub sends commit ffff" org/tiny
for tag in abc ../../../x 0123456789abcdef0123456789abcdef0123456 ''; do
    fresh; serve "etag=$tag"; refused "is no digest" org/tiny
done
fresh; serve etag=0000000000000000000000000000000000000000000000000000000000000000; refused "damaged" org/tiny

# --- interrupted
fresh; serve slow=1000
"$whet" pull org/tiny >"$work/out" 2>"$work/err" & puller=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -s "$blob.incomplete" ] && break; sleep 0.1; done
kill -TERM $puller; { wait $puller; } 2>/dev/null; [ $? = 143 ] && says "interrupted; what has come is kept"; check "the signal ends it, which is said" $?
[ -s "$blob.incomplete" ] && [ ! -e "$folder/refs/main" ]; check "an interrupted pull keeps the part and moves no reference" $?
serve; pull org/tiny; good "and goes on"; [ "$(asked '^cdn.*range=[1-9]')" = 1 ]; check "from there" $?
fresh; serve slow=20000
"$whet" pull org/tiny >"$work/out1" 2>"$work/err1" & first=$!
"$whet" pull org/tiny >"$work/out2" 2>"$work/err2" & second=$!
wait $first && wait $second; check "two at once ($(cat "$work/err1" "$work/err2"))" $?
[ "$(asked '^cdn GET')" = 1 ] && grep -q "another process is fetching it; waiting" "$work/err1" "$work/err2" && cmp -s "$work/out1" "$work/out2"
check "one fetches, one waits" $?
fresh; serve
(ulimit -f 16; "$whet" pull org/tiny >"$work/out" 2>"$work/err"); [ $? = 1 ] && says "cannot write: File too large; [0-9]* bytes of it are kept"
check "no room ($(cat "$work/err"))" $?
pull org/tiny; good "and with room"
fresh; HF_HUB_DOWNLOAD_TIMEOUT=0 refused "HF_HUB_DOWNLOAD_TIMEOUT is '0'" org/nothing

# --- what the hub refuses
fresh
serve; refused "org/nothing: HTTP 404: no such repository" org/nothing
serve status=403 error_code=GatedRepo; refused "gated: accept its terms at $HF_ENDPOINT/org/tiny" org/tiny
serve status=404 error_code=RevisionNotFound; refused "no revision 'v9'" org/tiny --revision v9
[ "$(asked 'revision/v9 ')" = 1 ]; pull org/tiny@refs-x; [ "$(asked revision/refs-x)" = 1 ]; check "revisions" $?
pull org/tiny --revision refs/pr/1; [ "$(asked 'revision/refs%2Fpr%2F1 ')" = 1 ]; check "a revision with a slash" $?
serve status=400; refused "127.0.0.1: HTTP 400" org/tiny
hostile() { # hostile PATTERN LIST: the hub's list of files
    printf '%s' "$2" >"$work/list"
    serve "list=$work/list"
    refused "$1" org/tiny
}
for name in ../x a/../../x /etc/x a//b . '' 'a\\b' 'a\nb' ./config.json "$(printf '%0300d' 1)"; do
    hostile "could lead out of its folder" '{"sha": "'$commit'", "siblings": [{"rfilename": "config.json"}, {"rfilename": "'"$name"'"}]}'
done
hostile "not valid JSON" ''
hostile "not valid JSON" '{"sha": '
hostile "not valid JSON" "$(head -c 100000 /dev/zero | tr '\0' '[')"
hostile "no commit 'sha'" '[]'
hostile "no commit 'sha'" '{"siblings": []}'
hostile "no commit 'sha'" '{"sha": "../../../../../../../../../../../../../x", "siblings": []}'
hostile "no commit 'sha'" '{"sha": 5, "siblings": []}'
hostile "no list 'siblings'" '{"sha": "'$commit'", "siblings": {}}'
hostile "siblings.1 has no text 'rfilename'" '{"sha": "'$commit'", "siblings": [{"rfilename": "a"}, {"rfilename": null}]}'
hostile "siblings.0 has no text" '{"sha": "'$commit'", "siblings": [7]}'
hostile "neither safetensors nor GGUF" '{"sha": "'$commit'", "siblings": []}'
hostile "HTTP 404: no file tokenizer_gone at revision main" '{"sha": "'$commit'", "siblings": [{"rfilename": "config.json"},
    {"rfilename": "model.safetensors"}, {"rfilename": "tokenizer_gone"}]}'
head -c 17000000 /dev/zero | tr '\0' ' ' >"$work/list"; serve "list=$work/list"; refused "longer than 16777216 bytes" org/tiny
fresh; HF_ENDPOINT=ftp://127.0.0.1/x refused "is not the address of a server" org/tiny
fresh; HF_ENDPOINT=nonsense refused "is not the address of a server" org/tiny

# --- which files
fresh; serve
has() { # has REPOSITORY FILE …: exactly these are in the cache
    repository=$1; shift
    [ "$(cd "$work/cache/models--org--$repository/snapshots/$commit" && find . ! -type d | sed 's,^\./,,' | sort | tr '\n' ' ')" = "$(printf '%s\n' "$@" | sort | tr '\n' ' ')" ]
}
pull org/shards; [ $status = 0 ] && has shards config.json tokenizer.json model.safetensors.index.json part-1.safetensors part-2.safetensors
check "the shards of the index, and no other ($(cat "$work/err"))" $?
refused "org/pickled: holds neither safetensors nor GGUF files (pytorch_model.bin is not read" org/pickled
pull org/ggufs; [ $status = 1 ] && [ "$(sort "$work/out" | tr '\n' ' ')" = "m.Q4.gguf m.Q8.gguf " ] && says "2 GGUF files.*choose one with --file"
check "GGUF files are listed" $?
pull org/ggufs --file m.Q8.gguf; [ "$status $(cat "$work/out")" = "0 $work/cache/models--org--ggufs/snapshots/$commit/m.Q8.gguf" ] && has ggufs m.Q8.gguf
check "one GGUF file" $?
pull org/ggufs/m.Q4.gguf; [ $status = 0 ] && has ggufs m.Q4.gguf m.Q8.gguf; check "another, named in the operand" $?
"$whet" generate org/ggufs hi >"$work/out" 2>"$work/err"; [ $? = 1 ] && says "2 GGUF files of it are in the cache; say which, like org/ggufs/m.Q4.gguf"; check "which GGUF file" $?
"$whet" generate org/ggufs/m.Q4.gguf hi >"$work/out" 2>"$work/err"; [ $? = 1 ] && says "m.Q4.gguf: .*GGUF"; check "the one named is opened" $?
pull org/ggufs --file m.Q5.gguf; [ $status = 1 ] && says "no file 'm.Q5.gguf' in it; did you mean 'm.Q[48].gguf'"; check "a file that is not there" $?
pull org/one-gguf; [ "$status $(cat "$work/out")" = "0 $work/cache/models--org--one-gguf/snapshots/$commit/m.gguf" ]; check "the only GGUF file" $?
pull org/tiny --include '*.md' --include 'onnx/*'; [ "$status $(cat "$work/out")" = "0 $snapshot" ] && has tiny README.md onnx/model.safetensors &&
    [ "$(cat "$snapshot/onnx/model.safetensors")" = no ]
check "--include" $?
pull org/tiny --include '*.exe'; [ $status = 1 ] && says "none of its .* files matches --include \*.exe"; check "--include without a match" $?
pull org/tiny; [ $status = 0 ] && [ -f "$snapshot/model.safetensors" ]; check "the rest afterwards" $?
misused() { # misused PATTERN WORD…
    pattern=$1; shift
    pull "$@"
    [ $status = 2 ] && [ "$(grep -c '' "$work/err")" = 1 ] && grep -q -- "$pattern" "$work/err"; check "misuse: $* ($(cat "$work/err"))" $?
}
: >"$log"
misused "did you mean 'gsm8k'" gsm8
misused "did you mean 'openai/gsm8k'" openai/gsm8k/
misused "neither ORG/NAME" ../x
misused "neither ORG/NAME" org/na\ me
misused "given twice" org/tiny@v1 --revision v2
misused "given twice" org/tiny/a --file b
misused "either --file or --include" org/tiny --file a --include b
misused "is no name of a file" org/tiny --file ../x
misused "is no name of a branch" org/tiny --revision ../../x
misused "only for data sets" org/tiny --from x
misused "only for models" gsm8k --revision x
misused "a path on this machine" "$tiny" --file x
misused MODEL
[ ! -s "$log" ]; check "misuse makes no request" $?

# --- HTTPS with a certificate of our own
if openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key" -out "$work/certificate" -days 2 \
    -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 >/dev/null 2>&1; then
    fresh; serve "tls=$work/certificate,$work/key" token=hf_secret
    export HF_ENDPOINT="https://127.0.0.1:$port" HF_TOKEN=hf_secret
    refused "certificate.*CURL_CA_BUNDLE=FILE" org/tiny
    CURL_CA_BUNDLE=$work/certificate "$whet" pull org/tiny >"$work/out" 2>"$work/err"; status=$?; good "HTTPS"
    fresh; SSL_CERT_FILE=$work/certificate "$whet" pull org/tiny >"$work/out" 2>"$work/err"; status=$?; good "HTTPS, SSL_CERT_FILE"
    fresh; serve "tls=$work/certificate,$work/key" downgrade=http://127.0.0.1:9/x
    HF_ENDPOINT=https://127.0.0.1:$port CURL_CA_BUNDLE=$work/certificate refused "redirects from https to 127.0.0.1 by plain http" org/tiny
    unset HF_TOKEN
else
    skipped=$((skipped + 4))
fi

# --- data
fresh
mkdir -p "$work/root/grade_school_math/data" "$work/from"
echo '{}' >"$work/root/grade_school_math/data/train.jsonl"
serve; export WHET_GSM8K_ENDPOINT="$HF_ENDPOINT"
refused "gsm8k: train.jsonl: the server announces 3 bytes, expected 4166206" gsm8k
head -c 4166206 /dev/zero >"$work/root/grade_school_math/data/train.jsonl"
refused "gsm8k: train.jsonl: damaged: its sha256 is" openai/gsm8k
cp "$work/root/grade_school_math/data/train.jsonl" "$work/from"
refused "train.jsonl: damaged: its sha256 is" gsm8k --from "$work/from"
refused "No such file" gsm8k --from "$work/nowhere"
HF_HUB_OFFLINE=1 refused "HF_HUB_OFFLINE is set" gsm8k
[ -z "$(find "$work/own" -name '*.jsonl*')" ]; check "nothing damaged stays" $?
if [ -f "$gsm8k/train.jsonl" ] && [ -f "$gsm8k/test.jsonl" ]; then
    cp "$gsm8k"/*.jsonl "$work/root/grade_school_math/data"
    HF_TOKEN=hf_secret "$whet" pull gsm8k >"$work/out" 2>"$work/err"
    [ "$? $(cat "$work/out")" = "0 $work/own/data/gsm8k" ] && cmp -s "$gsm8k/train.jsonl" "$work/own/data/gsm8k/train.jsonl"; check "gsm8k" $?
    ! grep -q hf_secret "$log"; check "without a token" $?
    : >"$log"
    pull openai/gsm8k; [ $status = 0 ] && [ ! -s "$log" ] && says "no request"; check "gsm8k again" $?
    fresh; pull gsm8k --from "$gsm8k"; [ $status = 0 ] && [ ! -s "$log" ] && [ -f "$work/own/data/gsm8k/test.jsonl" ]; check "gsm8k from a folder" $?
else
    skipped=$((skipped + 4))
fi

# --- what was started at the beginning
wait $nobody; [ $? = 1 ] && tail -n 1 "$work/nobody" | grep -q "127.0.0.1: Failed to connect" && [ "$(grep -c 'trying again' "$work/nobody")" = 4 ]
check "no server: tried five times ($(cat "$work/nobody"))" $?
wait $stalled && grep -q "stalled transfer: trying again" "$work/stalled" && grep -q '^cdn.*range=20000-' "$work/stall-log"
check "a stalled transfer goes on ($(cat "$work/stalled"))" $?

check_closing
