#!/bin/sh
# whet report on runs of a tiny random model: what the page is made of, what is said of damaged files, a watch that ends with its
# run. Where Chromium is installed the page is opened, and every part of it used, without an error on the console.
set -u
# shellcheck source=tests/support/checks.sh
. tests/support/checks.sh
"$build"/tests/tool_make_model "$work/llama" llama || exit 1
cat >"$work/recipe.yaml" <<'R'
grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 4, max_num_epochs: 100, val_period: 2,
       val_at_start: true, max_val_samples: 4, val_batch_size: 4}
policy: {precision: float32, train_global_batch_size: 8, max_total_sequence_length: 96, generation: {max_new_tokens: 12}}
checkpointing: {enabled: false}
data:
  train: {dataset_name: arithmetic, operations: ["+"], left: [0, 4], right: [0, 4], split_validation_size: 5}
  default: {env_name: last_integer}
R
train() { # train NAME [key=value …]
    name=$1; shift
    "$whet" train "$work/recipe.yaml" policy.model_name="$work/llama" logger.log_dir="$work/$name" --quiet "$@"
}
train one && train two grpo.seed=7 policy.precision=bfloat16; check "two runs" $?
"$whet" report "$work/one" 2>"$work/err" && [ -s "$work/one/report.html" ] && [ "$(grep -c '' "$work/err")" = 1 ]
check "a report of a whole run says where it is and no more" $?
"$whet" report "$work/one" "$work/two" --output "$work/both.html" 2>/dev/null && grep -q '"name":"two"' "$work/both.html"
check "a report of two runs" $?
! grep -o '<script[^>]*src=\|<link[^>]*href="http\|@import\|url(' "$work/both.html" | grep -q .; check "the page needs nothing besides" $?
grep -q 'Released under the MIT License' "$work/both.html"; check "Chart.js keeps its licence" $?
cp -r "$work/two" "$work/damaged" && printf '{"step":9,"train/re' >>"$work/damaged/metrics.jsonl" && rm "$work/damaged/environment.json" &&
    head -c 300 "$work/two/memory.json" >"$work/damaged/memory.json"
"$whet" report "$work/damaged" 2>"$work/err" && grep -q "metrics.jsonl: line .* is damaged" "$work/err" &&
    grep -q "environment.json is missing" "$work/err" && grep -q "memory.json.*entries that are whole" "$work/err"
check "missing and damaged files are named, the rest is shown" $?
"$whet" report "$work/none" 2>"$work/err"; [ $? = 1 ] && grep -q "none: no folder of a run" "$work/err"; check "refused: no folder" $?
"$whet" report "$work/llama" 2>"$work/err"; [ $? = 1 ] && grep -q "holds nothing of a run" "$work/err"; check "refused: no run" $?
train watched grpo.max_num_steps=60 & pid=$!
until [ -s "$work/watched/metrics.jsonl" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
timeout 60 "$whet" report "$work/watched" --watch 2>"$work/err"; status=$?
wait $pid && [ $status = 0 ] && grep -q '"refresh":0.0' "$work/watched/report.html" && grep -q '"steps":\[0,1,.*,59,60\]' "$work/watched/report.html"
check "a watch ends with the run, and the last page is whole" $?
! grep warning "$work/err"; check "a watch takes nothing for missing that is being written" $?

# ---- in a browser

# walk PAGE WIDTH: uses every part of the page and prints what went wrong, then "walked N parts".
walk() {
    sed '$d' "$1" >"$work/walk.html" # without </html>
    cat >>"$work/walk.html" <<'R'
<script>
(async () => {
    const wrong = [], wait = (ms) => new Promise((done) => setTimeout(done, ms));
    addEventListener("error", (event) => wrong.push(event.message));
    addEventListener("unhandledrejection", (event) => wrong.push(String(event.reason)));
    const part = document.getElementById("part"), links = [...document.querySelectorAll("#tabs a")];
    const point = (target, x, y) => target.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y, bubbles: true }));
    let walked = 0;
    for (const link of links) {
        location.hash = link.hash;
        await wait(100);
        if (!part.childElementCount) wrong.push(link.hash + " is empty");
        if (document.documentElement.scrollWidth > innerWidth) wrong.push(link.hash + " is wider than the window");
        for (const canvas of part.querySelectorAll("canvas")) {
            const box = canvas.getBoundingClientRect();
            for (let i = 0; i < 5; i++) point(canvas, box.left + box.width * i / 4, box.top + box.height / 2);
        }
        for (let i = 0; i < part.querySelectorAll("select").length; i++) {
            const box = part.querySelectorAll("select")[i];
            box.selectedIndex = box.options.length - 1;
            box.dispatchEvent(new Event("change"));
        }
        for (const box of part.querySelectorAll("input[type=search]"))
            for (const text of ["a", "no such (.*", ""]) box.value = text, box.dispatchEvent(new Event("input")), await wait(20);
        for (const box of part.querySelectorAll("input[type=range]")) box.value = box.max, box.dispatchEvent(new Event("input"));
        for (const button of part.querySelectorAll("button")) if (button.isConnected) button.click();
        for (const row of part.querySelectorAll(".list .row")) row.click();
        for (const token of part.querySelectorAll(".answer .t")) point(token, 50, 50);
        walked++;
    }
    document.getElementById("theme").click();
    for (const chip of document.querySelectorAll(".chip")) chip.click(); // none is shown
    for (const link of links) location.hash = link.hash, await wait(50);
    document.body.replaceChildren(Object.assign(document.createElement("pre"), { textContent: [...wrong, "walked " + walked + " parts"].join("\n") }));
})();
</script>
R
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --window-size="$2",900 \
        --virtual-time-budget=20000 --enable-logging=stderr --dump-dom "file://$work/walk.html" 2>"$work/err" >"$work/out"
    grep CONSOLE "$work/err"
    sed -n 's/.*<pre>//; /walked/,$p; /<pre>/,$p' "$work/out" | sed 's/<.*//'
}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -n "$browser" ]; then
    # What a model might say.
    cp -r "$work/one" "$work/hostile" && printf '%s\n' \
        '{"content":[{"role":"user","content":"</script><script>throw 1</script>"},{"role":"assistant","content":"<img src=x onerror=alert(1)> \u0000\u202e <!--"}],"rewards":"nan","advantages":["inf"],"token_loss_mask":[1],"token_bytes":[40],"generation_logprobs":["-inf"]}' \
        >"$work/hostile/train_data_step1.jsonl"
    "$whet" report "$work/one" "$work/hostile" "$work/damaged" --output "$work/all.html" --title '</title><script>throw 1</script>' 2>/dev/null
    "$whet" report "$work/damaged" --output "$work/single.html" 2>/dev/null
    train three policy.precision=bfloat16 && "$whet" compare "$work/one" "$work/three" --out "$work/compared" >/dev/null &&
        cp "$work/compared/report.html" "$work/comparison.html"
    "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --dump-dom "file://$work/comparison.html" 2>/dev/null |
        grep -qF 'The interval drawn decides: −60.24 to +60.24, as wide as 4 questions leave it.' # 4 questions without a difference decide nothing
    check "the page tells the interval that decides" $?
    # Ticks of an axis of 150 s and of one of 1.5 s, in one unit each.
    sed '$d' "$work/single.html" >"$work/ticks.html"
    cat >>"$work/ticks.html" <<'R'
<script>
document.body.textContent = [150, 1.5].map((highest) => {
    const step = stepOf(seconds, highest, highest), ticks = Array.from({ length: 6 }, (_, index) => ({ value: index * step }));
    return ticks.map(({ value }, index) => tickLabel(seconds, false)(value, index, ticks)).join(",");
}).join(";").replaceAll("\u202f", "");
</script>
R
    "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --dump-dom "file://$work/ticks.html" 2>/dev/null |
        grep -qF '0min,0.5min,1min,1.5min,2min,2.5min;0s,0.5s,1s,1.5s,2s,2.5s'
    check "the ticks of an axis have one unit" $?
    for page in all single comparison; do
        parts=8; [ $page = comparison ] && parts=9
        for width in 1400 500; do
            said=$(walk "$work/$page.html" $width)
            [ "$said" = "walked $parts parts" ]; check "$page.html, $width wide: $said" $?
        done
    done
else
    skipped=$((skipped + 8))
fi
check_closing
