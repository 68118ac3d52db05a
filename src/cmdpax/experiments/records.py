"""Records of experiments: JSON lines to read back, CSV and Markdown tables to look at. The first
line says what made them.

Numbers of rows are kept to four significant digits. Nothing that depends on the machine or the day
is written but versions.
"""

import csv
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.files import write_text

Row = dict[str, Any]


def provenance(**facts: Any) -> Row:
    """The header of a record: versions, and whatever else it depends on."""
    packages = {name: version(name) for name in ("cmdpax", "numpy", "scipy")}
    return {"kind": "header", "python": platform.python_version(), **packages, **facts}


def write_lines(path: Path, header: Row, rows: Iterable[Row]) -> None:
    """Write a header and rows as JSON lines; the file appears only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (header, *(plain(row) for row in rows))
    write_text(
        path,
        "".join(json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in lines),
    )


def read_lines(path: Path) -> tuple[Row, list[Row]]:
    """Header and rows of a record; an empty header if there is none or it is damaged."""
    try:
        header, *rows = (json.loads(line) for line in path.read_text().splitlines())
    except (OSError, ValueError):
        return {}, []
    return header, rows


def plain(value: Any) -> Any:
    """Arrays and NumPy numbers as lists and numbers of four digits; what is not finite becomes
    null.
    """
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.4g}") + 0.0 if np.isfinite(value) else None  # no -0.0
    return value


def write_table(path: Path, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """The same table as `path`.csv and `path`.md; numbers with three digits."""
    text = [[cell(entry) for entry in row] for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([list(headings), *text])
    lines = [
        "| " + " | ".join(row) + " |" for row in (list(headings), ["---"] * len(headings), *text)
    ]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


def cell(entry: Any) -> str:
    """An entry of a table as text."""
    if entry is None:
        return "none"
    return f"{entry:.3g}" if isinstance(entry, float) else str(entry)
