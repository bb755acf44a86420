#!/bin/sh
# Runs every built unit test (cmocka), the fixtures kept in tests/data and tests/e2e_*.sh, and closes with one line:
# "N passed, N failed, N skipped". A program that crashes counts as one failure. ONLY=pattern runs a part.
set -u
build=${BUILD:-build}
only=${ONLY:-}
passed=0 failed=0 skipped=0
report=$(mktemp)
trap 'rm -f "$report"' EXIT
tally() { # tally NAME STATUS: adds what the program itself counted
    p=$(grep -c '^\[       OK \]' "$report"); f=$(grep -c '^\[  FAILED  \] [a-z_A-Z0-9]*$' "$report")
    s=$(grep -c '^\[  SKIPPED \] [a-z_A-Z0-9]*$' "$report")
    # Fixtures and scripts close with "counted: P passed, F failed, S skipped".
    set -- "$1" "$2" $(sed -n 's/^counted: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$report" | tail -n 1)
    if [ $# = 5 ]; then p=$3 f=$4 s=$5; fi
    if [ "$2" != 0 ] && [ "$f" = 0 ]; then f=1; fi
    if [ "$2" = 0 ] && [ "$p$f$s" = 000 ]; then f=1; echo "$1 ran no test"; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ "$f" != 0 ]; then echo "FAILED $1"; grep -v '^\[       OK\|^\[ RUN' "$report" | tail -n 60
    else echo "ok     $1: $p passed, $s skipped"; fi
}
for test in "$build"/tests/test_*; do
    case "$test" in *.o|*.d) continue ;; *"$only"*) ;; *) continue ;; esac
    "$test" >"$report" 2>&1; tally "$(basename "$test")" $?
done
case "fixtures" in *"$only"*)
    "$build"/fixtures tests/data >"$report" 2>&1; tally fixtures $? ;;
esac
for test in tests/e2e_*.sh; do
    [ -f "$test" ] || continue
    case "$test" in *"$only"*) ;; *) continue ;; esac
    BUILD=$build sh "$test" >"$report" 2>&1; tally "$(basename "$test")" $?
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
