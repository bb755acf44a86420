#!/bin/sh
# Runs every unit test (tests/test_*.c, cmocka), the fixtures kept in tests/data and tests/e2e_*.sh, and closes with one
# line: "N passed, N failed, N skipped". A program that crashes, hangs, stops early or runs no test counts as failed.
# Several run at a time: JOBS (one for each processor, at most 4).
# BUILD=DIR says where the programs are, ONLY=pattern runs those whose name contains it, TIMEOUT=seconds is for each,
# MOST_RANKS=N leaves out runs of more than N ranks.
set -u
build=${BUILD:-build}
only=${ONLY:-}
limit=${TIMEOUT:-900}
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
[ "$jobs" -le 4 ] || jobs=4

# On a terminal the program stays in its foreground group, so that Ctrl-C reaches it.
foreground=''
[ -t 1 ] && foreground=--foreground

# Prints "PASSED FAILED SKIPPED" of a cmocka report. cmocka names failed and skipped tests once more in its closing list,
# which lies between "N test(s) run." and the next group: not counted. Tests announced but not ended: one failure.
count_cmocka() {
    awk '/^\[==========\] .*Running [0-9]+ test/ { listing = 0; match($0, /Running [0-9]+/)
             announced += substr($0, RSTART + 8, RLENGTH - 8) }
         /^\[==========\] .*[0-9]+ test\(s\) run/ { listing = 1 }
         /^\[       OK \]/ { passed++ }
         /^\[  FAILED  \]/ && !listing { failed++ }
         /^\[  SKIPPED \]/ && !listing { skipped++ }
         END { if (announced > passed + failed + skipped) failed++
               print passed + 0, failed + 0, skipped + 0 }' "$report"
}
# Fixtures and scripts close with "counted: P passed, F failed, S skipped".
count_closing() {
    sed -n 's/^counted: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$report" | tail -n 1
}

# Runs one line of the list, NAME|COUNTER|COMMAND…, prints how it went and adds its counts.
run_one() {
    name=${1%%|*} rest=${1#*|}
    counter=${rest%%|*} command=${rest#*|}
    # shellcheck disable=SC2086 # words
    timeout $foreground -k 10 "$limit" $command >"$report" 2>&1 </dev/null
    status=$?
    # shellcheck disable=SC2046 # three words
    set -- $($counter)
    p=${1:-0} f=${2:-0} s=${3:-0} note=''
    if [ "$status" = 124 ]; then note=" (stopped after $limit s)"
    elif [ "$status" -gt 128 ]; then note=" (died of signal $((status - 128)))"
    fi
    if [ "$status" != 0 ] && [ "$f" = 0 ]; then f=1; note="${note:- (exit status $status)}"; fi
    if [ $((p + f + s)) = 0 ]; then f=1; note=" (ran no test)"; fi
    echo "$p $f $s" >>"$work/counts"
    if [ "$f" = 0 ]; then echo "ok     $name: $p passed, $s skipped"; return; fi
    { grep -v '^\[       OK\|^\[ RUN' "$report" | tail -n 60
      echo "FAILED $name: $p passed, $f failed, $s skipped$note"; } >"$report.failed"
    cat "$report.failed" # in one piece beside what others print
}
if [ "${1:-}" = --one ]; then
    report=$(mktemp "$work/XXXXXX") || exit 1
    run_one "$2"
    exit 0
fi

work=$(mktemp -d) || exit 1
export work build only limit
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
: >"$work/counts"
list() { # list NAME COUNTER COMMAND…
    case "$1" in *"$only"*) ;; *) return ;; esac
    name=$1 counter=$2
    shift 2
    echo "$name|$counter|$*"
}
list_all() {
    for script in tests/e2e_*.sh; do # the long ones first
        [ -f "$script" ] && list "$(basename "$script" .sh)" count_closing env BUILD="$build" sh "$script"
    done
    # A test whose source has a line "// ranks: 2 4" runs alone and once more with each of these numbers of ranks.
    for source in tests/test_*.c; do
        [ -f "$source" ] || continue
        program=$(basename "$source" .c)
        list "$program" count_cmocka "$build/tests/$program"
        ranked=$(sed -n 's/^\/\/ ranks: //p' "$source")
        [ -n "$ranked" ] || continue
        # shellcheck source=tests/support/mpirun.sh
        set -- "$build/tests/$program" && . "${0%/*}/support/mpirun.sh"
        [ -n "$mpirun_command" ] || continue
        for ranks in $ranked; do
            [ "$ranks" -le "${MOST_RANKS:-$ranks}" ] || continue
            # MPI does not give back all that it took.
            list "$program, $ranks ranks" count_cmocka env ASAN_OPTIONS=detect_leaks=0 \
                "$mpirun_command" "$ranks" "$build/tests/$program"
        done
    done
    list fixtures count_closing "$build/fixtures" tests/data
    # shellcheck source=tests/support/mpirun.sh
    set -- "$build/fixtures" && . "${0%/*}/support/mpirun.sh"
    [ -z "$mpirun_command" ] ||
        list "fixtures, 2 ranks" count_closing env ASAN_OPTIONS=detect_leaks=0 "$mpirun_command" 2 "$build/fixtures" tests/data
}
list_all >"$work/list"
xargs -r -d '\n' -n 1 -P "$jobs" sh "$0" --one <"$work/list"
awk 'BEGIN { p = f = s = 0 } { p += $1; f += $2; s += $3; n++ }
     END { if (!n) { print "no test is named so"; f = 1 }
           print p " passed, " f " failed, " s " skipped"; exit (f > 0) }' "$work/counts"
