# What cargo itself can check and run.

section_lint() {
    check 'rustfmt' cargo fmt --all --check
    check 'clippy' cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
    check 'rustdoc' env RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked --quiet
    check 'the scripts parse' bash -n tests/all tests/fuzz tests/miri tests/races tests/suite/*.sh .ci/run
}

# Every crate's own tests, and those of `tests/`: vectors, models, processes, C and C++ programs, firmware in QEMU.
section_unit() {
    cargo test --workspace --locked --no-fail-fast
}
