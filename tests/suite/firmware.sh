# The firmware library for every device target, whichever toolchain can build it.

section_firmware() {
    local target
    for target in "${rust_targets[@]}"; do
        check "the firmware library builds for $target" build_firmware_library "$target"
    done
}

# cargo_for_devices ARGUMENTS...: the pinned toolchain where it has the targets, else Debian's with `core` built from source.
cargo_for_devices() {
    if rust_targets_are_there; then
        cargo "$@"
    else
        RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc /usr/bin/cargo "$@" -Zbuild-std=core
    fi
}

build_firmware_library() {
    cargo_for_devices rustc --locked --quiet -p bufabi-firmware --profile firmware --crate-type staticlib \
        --features panic-handler --target "$1"
}
