"""The blocks of a page: what is run, what it prints, and the page as a notebook.

Blocks of Python and of shell commands are run in a fresh folder for each page; a block of text
after one is its output, in which `...` stands for anything. A comment before a block says
otherwise: `<!-- slow -->` leaves it to the slow tests, `<!-- not run: why -->` to the reader,
`<!-- file: name -->` makes it a file. Blocks of other languages are shown, not run.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^>]*)"
    r" -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```(?:\n```text\n(?P<printed>.*?)```)?",
    flags=re.S,
)


@dataclass(frozen=True)
class Block:
    """One block with its language, what a comment before it says, and the output after it."""

    language: str
    code: str
    note: str
    printed: str | None
    text: str  # what stands before it on the page

    def is_run(self, slow: bool) -> bool:
        """Whether it is run, by the slow tests or by all."""
        shown_only = self.note.startswith(("not run", "file")) or (self.note == "slow" and not slow)
        return self.language in ("python", "sh") and not shown_only


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, in their order."""
    end = 0
    for one in BLOCK.finditer(text):
        before, end = text[end : one.start()], one.end()
        yield Block(one["language"], one["code"], one["note"] or "", one["printed"], before)


def write_files(text: str) -> None:
    """The files of a page, into the current folder."""
    for block in blocks(text):
        if block.note.startswith("file: "):
            Path(block.note.removeprefix("file: ")).write_text(block.code)


def run(block: Block, names: dict[str, Any]) -> str:
    """What a block prints."""
    return _python(block.code, names) if block.language == "python" else _shell(block.code)


def _shell(code: str) -> str:
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        env={**os.environ, "PATH": here},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


def _python(code: str, names: dict[str, Any]) -> str:
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "example", "exec"), names)
    return printed.getvalue()


# ---- notebooks
def notebook(text: str) -> str:
    """A page as an executed Jupyter notebook: its blocks, what they print, the pictures they make.

    Slow blocks are cells without output.
    """
    cells, names = list[dict[str, Any]](), {"__name__": "example"}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_files(text)
        for block in blocks(text):
            cells.append(_cell("markdown", block.text))
            is_file = block.note.startswith("file: ")
            if block.language not in ("python", "sh") and not is_file:
                cells.append(_cell("markdown", f"```{block.language}\n{block.code}```"))
                continue
            name = block.note.removeprefix("file: ")
            magic = f"%%writefile {name}\n" if is_file else "%%bash\n" * (block.language == "sh")
            outputs = _outputs(block, names) if block.is_run(slow=False) else []
            code = _cell("code", magic + block.code)
            cells.append(code | {"execution_count": None, "outputs": outputs})
    cells.append(_cell("markdown", text[list(BLOCK.finditer(text))[-1].end() :]))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": [cell for cell in cells if cell["source"]], "nbformat": 4}
    return json.dumps(whole | {"nbformat_minor": 4, "metadata": {"kernelspec": kernel}}, indent=1)


def _cell(kind: str, text: str) -> dict[str, Any]:
    return {"cell_type": kind, "metadata": {}, "source": text.strip("\n").splitlines(keepends=True)}


def _outputs(block: Block, names: dict[str, Any]) -> list[dict[str, Any]]:
    before = set(Path().rglob("*.png"))
    printed = run(block, names).splitlines(keepends=True)
    outputs = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
    for picture in sorted(set(Path().rglob("*.png")) - before):
        data = {"image/png": base64.b64encode(picture.read_bytes()).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    return outputs
