#!/bin/sh
# The house's own instruments must be able to fail: tests/run.sh on programs that fail, crash, hang or stop early, and
# scripts/check-banned and scripts/layers on files that break their rules.
set -u
root=$(pwd)
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
passed=0 failed=0

expect() { # expect WHAT EXPECTED FOUND
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); return; fi
    failed=$((failed + 1))
    echo "$1: expected \"$2\", found \"$3\""
}

# One program at a time stands in for a unit test: its text is the body of a shell script.
mkdir -p "$place/tests/data" "$place/build/tests"
: >"$place/tests/test_one.c"
announce='echo "[==========] Running 2 test(s)."; echo "[ RUN      ] a"'
ok_a='echo "[       OK ] a"; echo "[ RUN      ] b"'
finish='echo "[==========] 2 test(s) run."'
judge() { # judge WHAT EXPECTED_CLOSING_LINE EXPECTED_STATUS BODY
    printf '#!/bin/sh\n%s\n' "$4" >"$place/build/tests/test_one"
    chmod +x "$place/build/tests/test_one"
    found=$(cd "$place" && BUILD=build ONLY=test_ TIMEOUT=1 sh "$root/tests/run.sh" 2>&1)
    status=$?
    expect "run.sh, $1" "$2; status $3" "$(echo "$found" | tail -n 1); status $status"
}
judge "all pass" "2 passed, 0 failed, 0 skipped" 0 "$announce; $ok_a; echo '[       OK ] b'; $finish"
judge "one skipped" "1 passed, 0 failed, 1 skipped" 0 \
    "$announce; $ok_a; echo '[  SKIPPED ] b'; $finish; echo '[  SKIPPED ] b'"
judge "one fails" "1 passed, 1 failed, 0 skipped" 1 \
    "$announce; $ok_a; echo '[  FAILED  ] b'; $finish; echo '[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] b'; exit 1"
judge "two groups" "2 passed, 2 failed, 0 skipped" 1 "for i in 1 2; do
    $announce; $ok_a; echo '[  FAILED  ] b'; $finish; echo '[  FAILED  ] b'; done; exit 1"
judge "fails with status 0" "1 passed, 1 failed, 0 skipped" 1 "$announce; $ok_a; echo '[  FAILED  ] b'; $finish"
judge "passes with status 1" "2 passed, 1 failed, 0 skipped" 1 \
    "$announce; $ok_a; echo '[       OK ] b'; $finish; exit 1"
judge "crash" "1 passed, 1 failed, 0 skipped" 1 "$announce; $ok_a; kill -ABRT \$\$"
judge "silent crash" "0 passed, 1 failed, 0 skipped" 1 "kill -SEGV \$\$"
judge "stops early with status 0" "1 passed, 1 failed, 0 skipped" 1 "$announce; $ok_a; exit 0"
judge "hangs" "1 passed, 1 failed, 0 skipped" 1 "$announce; $ok_a; sleep 30"
judge "runs no test" "0 passed, 1 failed, 0 skipped" 1 "true"
rm "$place/build/tests/test_one"
expect "run.sh, program not built" "0 passed, 1 failed, 0 skipped" \
    "$(cd "$place" && BUILD=build ONLY=test_ sh "$root/tests/run.sh" 2>&1 | tail -n 1)"
expect "run.sh, nothing matches" "0 passed, 1 failed, 0 skipped" \
    "$(cd "$place" && BUILD=build ONLY=nothing sh "$root/tests/run.sh" 2>&1 | tail -n 1)"

# Each line must be refused or let through as a file of the given room.
banned() { # banned STATUS ROOM LINE
    rm -rf "$place/src"
    mkdir -p "$place/src/$2"
    printf '%s\n' "$3" >"$place/src/$2/one.c"
    sh "$root/scripts/check-banned" "$place/src" >/dev/null 2>&1
    expect "check-banned, $2: $3" "status $1" "status $?"
}
banned 1 text 'int n = atoi(word);'
banned 1 text '    strcpy(to, from);'
banned 1 base 'x = rand ();'
banned 1 train 'float *x = malloc(n);'
banned 0 base 'float *x = malloc(n);'
banned 0 text 'int brand(int x); // not rand()'
banned 0 text 'error_set(error, "atoi(%s)", "malloc(3)");'
banned 0 text '/* strcpy() */ int x = my_atoi(y) + table.rand(2);'

order() { # order STATUS ROOM LINE
    rm -rf "$place/src"
    mkdir -p "$place/src/$2"
    printf '%s\n' "$3" >"$place/src/$2/one.c"
    (cd "$place" && sh "$root/scripts/layers" base rollout train run >/dev/null 2>&1)
    expect "layers, $2: $3" "status $1" "status $?"
}
order 0 train '#include "base/error.h"'
order 1 base '#include "train/loss.h"'
order 1 train '#include "rollout/engine.h"'
order 1 cellar '#include "base/error.h"'

echo "counted: $passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
