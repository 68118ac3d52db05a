"""Rows of a study as a file for other programs: JSON lines, CSV, or Parquet where pyarrow is there. Numbers in full."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cmdpax.errors import InputError

SUFFIXES = (".jsonl", ".csv", ".parquet")


def check_export(path: Path) -> Path:
    """The path, if rows can be written so; asked before hours of work."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"--export {path}: give a name that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")
    if not path.parent.is_dir():
        raise InputError(f"--export {path}: there is no folder {path.parent}; make it first.")
    if path.suffix == ".parquet":
        _pyarrow(path)
    return path


def export(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write flat rows; the file appears only when it is complete."""
    partial = path.with_name(f".{path.name}.part")
    if path.suffix == ".jsonl":
        partial.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        with partial.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    else:
        arrow = _pyarrow(path)
        arrow.parquet.write_table(arrow.Table.from_pylist(list(rows)), partial)
    partial.replace(path)


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise InputError(
            f"--export {path}: Parquet needs the package 'pyarrow'; install cmdpax[parquet], or write .csv."
        ) from None
    return pyarrow
