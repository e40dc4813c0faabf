# The core under Miri, on this machine's byte order and on the other.

section_miri() {
    if [[ $BUFABI_LONG = 1 ]]; then tests/miri --long; else tests/miri; fi
}
