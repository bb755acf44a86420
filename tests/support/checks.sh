# shellcheck shell=sh
# Sourced by end-to-end tests from the project's folder: the program, a folder that goes when the test ends, and what counts checks.
# The test closes with check_closing.
build=${BUILD:-build}
# shellcheck disable=SC2034 # the test runs it
whet=$build/whet
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
check() { # check NAME STATUS
    if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1"; fi
}
machine_has() { # machine_has KIB: of memory, or more
    [ "$(sed -n 's/^MemTotal: *\([0-9]*\) .*/\1/p' /proc/meminfo)" -ge "$1" ]
}
check_closing() { # prints the line that tests/run.sh reads; its status is the test's
    echo "counted: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
