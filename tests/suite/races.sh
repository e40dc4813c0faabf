# Threads that share memory, under a sanitizer that knows what each has seen of the other.

section_races() {
    if [[ $BUFABI_LONG = 1 ]]; then
        tests/races
    else
        not_run ThreadSanitizer 'it builds the standard library anew; tests/all --long does, and tests/races'
        check 'ThreadSanitizer is for long runs' true
    fi
}
