# The firmware library by itself: every feature on every target, and what it weighs. It runs in QEMU in section `unit`.

section_firmware() {
    local target features
    for target in "${rust_targets[@]}"; do
        for features in '' panic-handler lock defmt semihosting; do
            [[ $target$features != aarch64-unknown-linux-gnusemihosting ]] || continue
            check "firmware for $target, features: ${features:-none}" check_for_device "$target" "$features"
        done
    done
    check 'programs in Rust for a bare board' \
        check_package_for_device aarch64-unknown-none bufabi-firmware --features panic-handler --examples
    for target in "${rust_targets[@]}"; do
        check "kernels and the device's side of the mailbox for $target" check_package_for_device "$target" bufabi-device
    done
    check 'tables that threads share, with locks' \
        cargo test --locked --quiet -p bufabi-firmware --features lock --lib table
    check 'two ways to say a refusal are refused' \
        fails_with 'choose one of the features' check_for_device thumbv7em-none-eabihf defmt,semihosting
    check 'semihosting is refused where no debugger is' \
        fails_with "needs a debugger's target" check_for_device aarch64-unknown-linux-gnu semihosting
    check 'bufabi run with chips in QEMU' run_in_qemu
    check 'sizes were measured' cat "$(target_folder)"/tmp/firmware/sizes-*.txt
}

# The firmware library with these features. Clippy of the pinned toolchain where it has the targets, else Debian's compiler with `core`
# built from source.
check_for_device() {
    check_package_for_device "$1" bufabi-firmware --features "$2"
}

# The example, each chip a machine that runs the firmware which section `unit` has built.
run_in_qemu() {
    local image
    image=$(find "$(target_folder)/tmp/firmware" -type f -path '*/device/examples/device' -print -quit)
    [[ -n $image ]] || { printf 'section unit has built no firmware\n' && return 1; }
    BUFABI_FIRMWARE=$image cargo run --locked --quiet --bin bufabi -- run examples/gram-qemu.json
}

# check_package_for_device TARGET PACKAGE ARGUMENT...
check_package_for_device() {
    if rust_targets_are_there; then
        cargo clippy --locked --quiet -p "$2" --target "$1" "${@:3}" -- -D warnings
    else
        RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc /usr/bin/cargo check --locked --quiet -Zbuild-std=core \
            --target-dir "$(target_folder)/tmp/firmware/device-from-source" -p "$2" --target "$1" "${@:3}"
    fi
}

# fails_with WORDS COMMAND...: it fails, and says why.
fails_with() {
    local words=$1 said
    shift
    if said=$("$@" 2>&1); then
        printf 'it did not fail\n'
        return 1
    fi
    grep -qF -- "$words" <<<"$said" || { printf '%s\n' "$said" && return 1; }
}

target_folder() {
    cargo metadata --format-version 1 --no-deps --locked |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}
