# Runs the sections, counts what they said, and closes with one line.

# Whatever belongs to a run carries this in its environment: that is how a process of ours is known afterwards.
suite_begin() {
    export BUFABI_SUITE="$$.$(date +%s%N)"
    suite_logs=$(mktemp -d)
    suite_passed=0
    suite_failed=0
    suite_section=
    shared_memory_before=$(shared_memory)
    # A section has a process group of its own, so that an interrupt ends all of it.
    trap '[[ -z $suite_section ]] || kill -- "-$suite_section" 2>/dev/null; rm -rf "$suite_logs"' EXIT
    trap 'exit 130' INT TERM
}

# run_section NAME: its output as it comes, its time, and its share of the count.
run_section() {
    local name=$1 log=$suite_logs/$1 started=$SECONDS status=0 counts passed failed
    printf '\n== %s\n' "$name"
    : >"$log"
    set -m
    (set -euo pipefail && "section_$name") >"$log" 2>&1 </dev/null &
    suite_section=$!
    set +m
    # Not a pipe: a process that outlived its test would hold it open, and hide here instead of being found.
    tail -n +1 -f -s 0.2 --pid="$suite_section" "$log" 2>/dev/null || true
    wait "$suite_section" || status=$?
    suite_section=
    counts=$(count "$log")
    read -r passed failed <<<"$counts"
    if [[ $status -ne 0 && $failed -eq 0 ]]; then
        printf 'the section ended with status %d\n' "$status"
        failed=1
    elif [[ $((passed + failed)) -eq 0 ]] && ! grep -q '^NOT RUN: ' "$log"; then
        printf 'the section checked nothing\n'
        failed=1
    fi
    suite_passed=$((suite_passed + passed))
    suite_failed=$((suite_failed + failed))
    printf -- '-- %s: %d passed, %d failed, %d s\n' "$name" "$passed" "$failed" $((SECONDS - started))
}

# The closing line, and the status.
suite_end() {
    printf '\n'
    grep -h '^NOT RUN: ' "$suite_logs"/* || true
    [[ $suite_failed -eq 0 ]] || grep -HE '^(check .* FAILED|test .* FAILED|error)' "$suite_logs"/* |
        sed "s|^$suite_logs/||" || true
    printf '%d passed, %d failed\n' "$suite_passed" "$suite_failed"
    [[ $suite_failed -eq 0 ]]
}

# count LOG: passed and failed, of cargo's tests and of ours. A test that was ignored is a failure: nothing is skipped silently.
count() {
    awk '
        /^test result: / {
            for (i = 2; i < NF; i++) {
                if ($(i + 1) == "passed;") passed += $i
                if ($(i + 1) == "failed;") failed += $i
                if ($(i + 1) == "ignored;") failed += $i
            }
        }
        /^check .* \.\.\. ok$/ { passed += 1 }
        /^check .* \.\.\. FAILED$/ { failed += 1 }
        END { print passed + 0, failed + 0 }
    ' "$1"
}

# check NAME COMMAND...: one thing that holds or not. The section goes on, and fails at the end through the count.
check() {
    local name=$1
    shift
    if "$@"; then
        printf 'check %s ... ok\n' "$name"
    else
        printf 'check %s ... FAILED\n' "$name"
    fi
}

# not_run NAME WHY: for the optional tools alone.
not_run() {
    printf 'NOT RUN: %s: %s\n' "$1" "$2"
}
