"""Makes the torch of this environment one for the CPU alone, once after `pip install --no-deps torch`.

The wheel on PyPI is linked with libraries of CUDA, gigabytes in packages of their own, though a machine without such a
device calls none of them but to ask whether there is one. In their place come libraries that have the same names and
symbols and answer every call with an error. Not a test.
"""

import importlib.util
import re
import subprocess
from pathlib import Path

CUDA = re.compile(r"lib(cu|nv|nccl)")
CUDA_SYMBOL = re.compile(r"cu|nv|nccl|__cuda|__nv")
# What every function answers: that there is no device, which no list of errors has as a success.
NO_DEVICE = 100


def output(*command: str | Path) -> str:
    """What a program prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stand_in(folder: Path, name: str, version: str | None, symbols: list[str]) -> None:
    """Makes one library."""
    code = [".text", *(f".globl {symbol}\n.type {symbol}, @function\n{symbol}:" for symbol in symbols)]
    code += [f"mov ${NO_DEVICE}, %eax", "ret", '.section .note.GNU-stack, "", @progbits', ""]
    source, script = folder / "stand-in.s", folder / "stand-in.map"
    source.write_text("\n".join(code))
    script.write_text(f"{version or ''} {{ global: *; }};")
    command = ["cc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", f"-Wl,--version-script={script}"]
    output(*command, "-o", folder / name, source)
    source.unlink()
    script.unlink()


def main() -> None:
    """Finds what torch's libraries want and nobody there has."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        raise SystemExit("torch is not installed here")
    folder = Path(torch.origin).parent / "lib"
    needed, wanted, versions = set[str](), set[str](), dict[str, str]()
    for library in folder.glob("*.so*"):
        needed.update(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "--dynamic", library)))
        wanted.update(re.findall(r" U (\w+)", output("nm", "--dynamic", library)))
        told = output("readelf", "--version-info", "--wide", library)
        versions.update(re.findall(r"File: (\S+) +Cnt: 1\n.*Name: (\S+)", told))
    symbols = sorted(filter(CUDA_SYMBOL.match, wanted))
    for name in sorted(filter(CUDA.match, needed)):
        if not (folder / name).exists():
            stand_in(folder, name, versions.get(name), symbols)


if __name__ == "__main__":
    main()
