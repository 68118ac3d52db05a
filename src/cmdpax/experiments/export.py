"""Rows of a study as a file for other programs: JSON lines, CSV, or Parquet where pyarrow is there.
Numbers in full.
"""

import csv
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from cmdpax.errors import InputError
from cmdpax.files import replacing, writable_path, write_text

SUFFIXES = (".jsonl", ".csv", ".parquet")


def check_export(path: Path) -> Path:
    """The path, if rows can be written so; asked before hours of work."""
    writable_path(path, *SUFFIXES, option="--export")
    if path.suffix.lower() == ".parquet":
        _pyarrow(path)
    return path


def export(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write flat rows; the file appears only when it is complete."""
    if path.suffix.lower() == ".jsonl":
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix.lower() == ".csv":
        table = StringIO()
        writer = csv.DictWriter(
            table, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(rows)
        write_text(path, table.getvalue())
    else:
        arrow = _pyarrow(path)
        with replacing(path) as file:
            arrow.parquet.write_table(arrow.Table.from_pylist(list(rows)), file)


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise InputError(
            f"--export {path}: Parquet needs the package 'pyarrow'; install cmdpax[parquet], or"
            " write .csv."
        ) from None
    return pyarrow
