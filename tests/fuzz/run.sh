#!/bin/sh
# Runs every fuzz target for FUZZ_SECONDS each, JOBS at a time (2), and prints for each its runs, coverage and seconds. Any finding
# (crash, sanitizer report, leak, more than 5 s or 1 GiB for one input) fails; the input that shows it is kept in
# $BUILD/findings and the report is printed. ONLY=pattern runs those whose name contains it. FUZZ_SEED (0: another each time) and
# an empty corpus repeat the same inputs.
set -u
build=${BUILD:-build-fuzz} seconds=${FUZZ_SECONDS:-60} jobs=${JOBS:-2} only=${ONLY:-} seed=${FUZZ_SEED:-0}

run_one() { # run_one TARGET: one line to standard output, its report in $build/logs
    name=$1
    log=$build/logs/$name.log
    case "$name" in
    gguf*) dictionary=gguf longest=65536 ;;
    template) dictionary=template longest=4096 ;;
    recipe) dictionary=recipe longest=8192 ;;
    hub_list) dictionary=json longest=8192 ;;
    inputs | dataset) dictionary=json longest=2048 ;;
    answer) dictionary=answer longest=4096 ;;
    encode) dictionary=json longest=4096 ;;
    *) dictionary=json longest=65536 ;;
    esac
    mkdir -p "$build/corpus/$name" "$build/seeds/$name"
    begun=$(date +%s) left=$seconds runs=0
    while :; do
        "$build/fuzz/fuzz_$name" -seed="$seed" -max_total_time="$left" -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=256 \
            -max_len="$longest" -dict="tests/fuzz/$dictionary.dict" -print_final_stats=1 -verbosity=1 \
            -artifact_prefix="$build/findings/$name-" "$build/corpus/$name" "$build/seeds/$name" >"$log" 2>&1
        status=$?
        more=$(grep -a '^stat::number_of_executed_units' "$log" | tr -cd '0-9')
        runs=$((runs + ${more:-0}))
        # Seconds are the clock's: an input that was slow on a busy machine counts when it is slow again alone.
        slow=$(ls -t "$build/findings/$name-timeout-"* 2>/dev/null | head -n 1)
        [ "$status" = 70 ] && [ -n "$slow" ] && "$build/fuzz/fuzz_$name" -timeout=5 "$slow" >/dev/null 2>&1 || break
        rm -f "$slow"
        status=0 left=$((begun + seconds - $(date +%s)))
        [ "$left" -gt 0 ] || break
    done
    coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    verdict=ok
    [ "$status" = 0 ] || verdict=FAILED
    echo "$verdict fuzz $name: $runs runs, coverage ${coverage:-0}, $(($(date +%s) - begun)) s"
    [ "$status" = 0 ] && return
    grep -av '^#[0-9]*[[:space:]]*\(NEW\|REDUCE\|pulse\|RELOAD\)' "$log" | tail -n 60
    return 1
}

if [ "${1:-}" = --one ]; then run_one "$2"; exit; fi
mkdir -p "$build/logs" "$build/findings" "$build/seeds"
"$build/fuzz/fuzz_seeds" "$build/seeds" || exit 1
targets=$(for target in "$build"/fuzz/fuzz_*; do
    name=${target##*/fuzz_}
    case "$name" in seeds | *.*) ;; *"$only"*) echo "$name" ;; esac
done)
[ -n "$targets" ] || { echo "no fuzz target is named like \"$only\""; exit 1; }
export BUILD="$build" FUZZ_SECONDS="$seconds" FUZZ_SEED="$seed"
echo "$targets" | xargs -n 1 -P "$jobs" sh "$0" --one
