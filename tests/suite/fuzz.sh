# Any input at all, against models that share no code with what they judge.

section_fuzz() {
    check 'every kept input passes' cargo test --quiet --manifest-path tests/fuzz-targets/Cargo.toml
    if [[ $BUFABI_LONG = 1 ]]; then tests/fuzz --long; else tests/fuzz; fi
}
