# The package for Python: a wheel, installed where nothing else is, and everything that it promises tried through it.

section_python() {
    local folder python firmware version
    folder=$(target_folder)/tmp/python
    python=$folder/tools/bin/python
    mkdir -p "$folder"
    check 'rustfmt' cargo fmt --check --manifest-path host/python/Cargo.toml
    check 'clippy' cargo clippy --locked --quiet --manifest-path host/python/Cargo.toml -- -D warnings
    check 'rustdoc' env RUSTDOCFLAGS=-Dwarnings \
        cargo doc --locked --quiet --no-deps --document-private-items --manifest-path host/python/Cargo.toml
    check 'tools and numpy are there' python_packages "$folder/tools" python3 \
        'maturin>=1.9,<2' pytest numpy ml_dtypes ruff mypy
    check 'ruff' env -C host/python "$folder/tools/bin/ruff" check --quiet . ../../examples
    check 'ruff, as formatted' env -C host/python "$folder/tools/bin/ruff" format --quiet --check . ../../examples
    check 'pip installs from a clone' env PATH="$folder/tools/bin:$PATH" \
        "$python" -m pip install --quiet --no-deps --no-build-isolation --force-reinstall ./host/python
    check 'the stubs say what is there' python_stubs "$python"
    check 'a wheel for this machine, alone in a bare environment' python_wheel "$folder"
    # The one that section `unit` has built; without it pytest says which test it leaves out.
    firmware=$(find "$(target_folder)/tmp/firmware" -type f -path '*/device/examples/device' -print -quit 2>/dev/null)
    [[ -n $firmware ]] || not_run 'a machine in QEMU below a Worker' 'section unit has built no firmware'
    check 'pytest, on numpy' env BUFABI_LONG="$BUFABI_LONG" BUFABI_FIRMWARE="$firmware" \
        "$python" -m pytest --quiet -p no:cacheprovider host/python/tests --ignore host/python/tests/torch
    check 'the example, in numpy' "$python" examples/gram.py
    if [[ $BUFABI_LONG = 1 ]]; then
        check 'a wheel of the sources alone' python_wheel_of_sources "$folder"
    else
        not_run 'a wheel of the sources alone' 'it builds everything anew; tests/all --long does it'
    fi
    for version in 3.12 3.13 3.14; do
        if python_of "$version" >/dev/null; then
            check "pytest, on numpy, in Python $version" python_pytest_in "$version" "$folder"
        else
            not_run "Python $version" 'it is not here; the same wheel serves it'
        fi
    done
    check 'torch is there, for the CPU' python_torch "$folder/torch"
    check 'the wheel, beside torch' "$folder/torch/bin/python" -m pip install --quiet --no-index --no-deps \
        --force-reinstall "$folder"/wheels/*.whl
    check 'pytest, on torch' env BUFABI_LONG="$BUFABI_LONG" \
        "$folder/torch/bin/python" -m pytest --quiet -p no:cacheprovider host/python/tests/torch
    check 'the example, in torch' "$folder/torch/bin/python" examples/gram.py
    if rust_targets_are_there; then
        check 'a wheel for aarch64' python_wheel_for_aarch64 "$folder"
    else
        not_run 'a wheel for aarch64' 'rustup has no such target here'
    fi
}

# python_packages FOLDER PYTHON PACKAGE...: an environment that has them; quick when it is there already.
python_packages() {
    local folder=$1 python=$2 wanted
    shift 2
    wanted=$("$python" --version && printf '%s\n' "$@")
    [[ $(cat "$folder/wanted" 2>/dev/null) != "$wanted" ]] || return 0
    rm -rf "$folder" && "$python" -m venv "$folder" &&
        timeout 1800 "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" &&
        printf '%s\n' "$wanted" >"$folder/wanted"
}

# python_of VERSION: a Python of that version that runs, where its name or pyenv has it.
python_of() {
    local found
    for found in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python3; do
        if "$found" -c '' 2>/dev/null; then
            printf '%s\n' "$found"
            return
        fi
    done
    return 1
}

# The wheel that was made for Python 3.11, in a later one.
python_pytest_in() {
    local found
    found=$(python_of "$1") || return 1
    python_packages "$2/python$1" "$found" pytest numpy ml_dtypes || return 1
    "$2/python$1/bin/python" -m pip install --quiet --no-index --no-deps --force-reinstall "$2"/wheels/*.whl || return 1
    BUFABI_LONG=0 "$2/python$1/bin/python" -m pytest --quiet -p no:cacheprovider host/python/tests --ignore host/python/tests/torch
}

# What `pip install` of the sources does where there is no repository.
python_wheel_of_sources() {
    local folder=$1/sources
    rm -rf "$folder" && mkdir -p "$folder"
    "$1/tools/bin/maturin" sdist --quiet --manifest-path host/python/Cargo.toml --out "$folder" &&
        env -C / PATH="$1/tools/bin:$PATH" CARGO_TARGET_DIR="$folder/target" "$1/tools/bin/python" -m pip wheel --quiet \
            --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$folder" "$folder"/*.tar.gz &&
        python3 -m zipfile -l "$folder"/*.whl | grep -q 'bufabi/_bufabi.abi3.so' && rm -rf "$folder/target"
}

# Torch for the CPU: its wheel, half a gigabyte, without the gigabytes of CUDA that it asks for. One version, so that what it needs in
# their place stays what `without_cuda.py` finds.
python_torch() {
    local folder=$1
    python_packages "$folder" python3 pytest numpy ml_dtypes typing-extensions || return 1
    "$folder/bin/python" -c 'import torch' 2>/dev/null && return 0
    timeout 1800 "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps torch==2.15.0 &&
        "$folder/bin/python" host/python/tests/torch/without_cuda.py && "$folder/bin/python" -W error -c 'import torch'
}

python_stubs() {
    local allowed=$PWD/host/python/tests/stubtest-allowed.txt
    (cd / && "$1" -m mypy.stubtest bufabi --allowlist "$allowed")
}

# Nothing else is installed there: the package needs nothing.
python_wheel() {
    local folder=$1
    rm -rf "$folder/wheels" "$folder/bare"
    "$folder/tools/bin/maturin" build --quiet --release --locked --manifest-path host/python/Cargo.toml \
        --out "$folder/wheels" || return 1
    python3 -m venv "$folder/bare" || return 1
    "$folder/bare/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$folder"/wheels/*.whl || return 1
    (cd / && "$folder/bare/bin/python" -W error -c '
import bufabi
with bufabi.create_host_shared_buffer(8) as buffer:
    with memoryview(buffer.mapped([2], bufabi.DataType.INT32)) as view:
        view[1] = 7
        assert bytes(view) == b"\0\0\0\0\7\0\0\0"
')
}

# An ABI that all later versions have, so no interpreter of that machine is needed.
python_wheel_for_aarch64() {
    local folder=$1/aarch64
    rm -rf "$folder"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        "$1/tools/bin/maturin" build --quiet --release --locked --manifest-path host/python/Cargo.toml \
        --target aarch64-unknown-linux-gnu --out "$folder" || return 1
    python3 -m zipfile -e "$folder"/*.whl "$folder/unpacked" || return 1
    readelf -h "$folder"/unpacked/bufabi/_bufabi.abi3.so | grep -q 'Machine:.*AArch64'
}
