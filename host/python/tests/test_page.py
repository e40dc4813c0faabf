"""The programs of docs/python.md: each block runs, from its imports on or where the one before it ends."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def programs() -> list[str]:
    """The page's programs: a block that begins with an import begins one, and any other goes on with it."""
    found: list[str] = []
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if block.startswith(("import ", "from ")):
            found.append(block)
        else:
            found[-1] += block
    return found


def test_the_page_has_as_many_programs_as_are_tried() -> None:
    assert len(programs()) == 6
    assert PAGE.read_text().count("```python") == 7


@pytest.mark.parametrize("program", programs(), ids=lambda program: str(len(program)))
def test_a_program_of_the_page_runs_and_says_nothing(program: str, tmp_path: Path) -> None:
    file = tmp_path / "page.py"
    file.write_text(program)
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)
