#!/bin/sh
# How long a report of a large run takes: a made-up run of STEPS steps with SAMPLES answers of about TOKENS tokens each is written,
# whet report makes a page of it, and Chromium opens that at its overview and at its rollouts. Not part of the tests.
# usage: sh tests/bench_report.sh [STEPS [SAMPLES [TOKENS]]]     (default 100 256 200)
set -eu
build=${BUILD:-build}
steps=${1:-100} samples=${2:-256} tokens=${3:-200}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "Chromium is not installed" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -v steps="$steps" -v samples="$samples" -v tokens="$tokens" -v folder="$work" 'BEGIN {
    srand(1)
    count = split("so the total number of apples that she has is therefore half plus minus times equals answer day then 42 18 7 3.5 left", word, " ")
    for (step = 1; step <= steps; step++) {
        file = folder "/train_data_step" step ".jsonl"
        for (b = 0; b < samples; b++) {
            length_ = int(tokens * (0.5 + rand()))
            text = mask = bytes = logprobs = advantages = ""
            reward = rand() < step / steps ? 1 : 0
            for (t = 0; t < length_; t++) {
                piece = " " word[int(rand() * count) + 1]
                text = text piece
                comma = t ? "," : ""
                mask = mask comma 1; bytes = bytes comma length(piece); advantages = advantages comma (reward - 0.5)
                logprobs = logprobs comma sprintf("%.6g", -5 * rand() * rand() * rand())
            }
            printf "{\"content\":[{\"role\":\"user\",\"content\":\"Question %d of step %d: how many apples are left in the end?\"},{\"role\":\"assistant\",\"content\":\"%s\"}],\"rewards\":%d,\"advantages\":[%s],\"finish_reason\":\"stop\",\"token_loss_mask\":[%s],\"token_bytes\":[%s],\"generation_logprobs\":[%s]}\n", int(b / 8), step, text, reward, advantages, mask, bytes, logprobs >file
        }
        close(file)
        printf "{\"step\":%d,\"train/reward\":%g,\"train/kl_penalty\":%g,\"timing/train/total_step_time\":%g}\n", step, step / steps, 0.01 * step, 60 + rand() >(folder "/metrics.jsonl")
    }
}'
begun=$(date +%s%N)
"$build"/whet report "$work" 2>/dev/null
echo "$(du -m "$work"/train_data_step*.jsonl | awk '{ sum += $1 } END { print sum }') MB of samples, a page of $(($(wc -c <"$work/report.html") / 1000000)) MB written in $((($(date +%s%N) - begun) / 1000000)) ms"
# What stands last in the page runs when the part is on it.
sed '$d' "$work/report.html" >"$work/open.html"
echo '<script>document.body.replaceChildren(Object.assign(document.createElement("pre"), { textContent: "there after " + Math.round(performance.now()) + " ms, " + document.getElementById("part").querySelectorAll("*").length + " elements" }));</script>' >>"$work/open.html"
for part in overview rollouts; do
    echo "$part: $("$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --enable-logging=stderr --dump-dom "file://$work/open.html#$part" 2>"$work/err" | sed -n 's/.*<pre>\(.*\)<\/pre>.*/\1/p')"
    grep CONSOLE "$work/err" || echo "$part: nothing on the console"
done
