# Brings the machine to where everything can run; quick when it is there already.

# Compilers and emulators, from Debian 12. Two languages, three targets, and what watches memory.
debian_packages=(
    gcc g++ libc6-dev cmake make pkg-config
    gcc-arm-none-eabi
    g++-aarch64-linux-gnu libc6-dev-arm64-cross
    qemu-system-arm qemu-user
    lld valgrind
)

# Where rustup cannot have a target, Debian's own Rust builds `core` for it from source.
fallback_packages=(rustc-web cargo-web rust-web-src)

rust_targets=(thumbv7em-none-eabihf aarch64-unknown-none aarch64-unknown-linux-gnu)

section_setup() {
    check 'rustup is there, with the pinned toolchain' cargo --version
    local missing
    mapfile -t missing < <(missing_packages "${debian_packages[@]}")
    [[ ${#missing[@]} -eq 0 ]] || install_packages "${missing[@]}"
    check 'Debian packages are there' no_package_is_missing "${debian_packages[@]}"
    python_has_environments || install_packages python3 python3-venv
    check 'Python 3.11 or later is there, with venv' python_has_environments
    if rust_targets_are_there || add_rust_targets; then
        check 'Rust targets are there' true
    else
        printf 'rustup cannot have the targets: falling back to Debian'"'"'s Rust, which builds core from source\n'
        mapfile -t missing < <(missing_packages "${fallback_packages[@]}")
        [[ ${#missing[@]} -eq 0 ]] || install_packages "${missing[@]}"
        check "Debian's Rust is there" no_package_is_missing "${fallback_packages[@]}"
    fi
}

python_has_environments() {
    python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            printf '%s\n' "$package"
    done
}

no_package_is_missing() {
    [[ -z $(missing_packages "$@") ]]
}

install_packages() {
    if [[ $EUID -ne 0 ]]; then
        printf 'not root: run this first, then tests/all again:\n'
        printf '    sudo apt-get update && sudo apt-get install --no-install-recommends %s\n' "$*"
        return 1
    fi
    timeout 300 apt-get update -q
    DEBIAN_FRONTEND=noninteractive timeout 900 apt-get install -q -y --no-install-recommends "$@"
}

# BUFABI_NO_RUST_TARGETS=1 acts as if rustup had none, to try the fallback where it has them.
rust_targets_are_there() {
    [[ ${BUFABI_NO_RUST_TARGETS:-0} != 1 ]] || return 1
    local sysroot target
    sysroot=$(rustc --print sysroot)
    for target in "${rust_targets[@]}"; do
        compgen -G "$sysroot/lib/rustlib/$target/lib/libcore-*.rlib" >/dev/null || return 1
    done
}

add_rust_targets() {
    [[ ${BUFABI_NO_RUST_TARGETS:-0} != 1 ]] || return 1
    timeout 300 rustup target add "${rust_targets[@]}" && rust_targets_are_there
}
