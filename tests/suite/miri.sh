# The core under Miri, on this machine's byte order and on the other.

section_miri() {
    tests/miri
}
