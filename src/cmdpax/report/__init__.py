"""One self-contained HTML page about a folder of results: it opens from disk and needs no network.

`contents` says what lies in the folder, `series` what the interactive parts show (exact runs done
again, learning curves), `page` puts it all into HTML.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cmdpax.files.reading import Row
from cmdpax.files.written import writable_path, write_bytes
from cmdpax.report.contents import gather
from cmdpax.report.page import compose
from cmdpax.report.series import problems

NAME = "report.html"


class Report(NamedTuple):
    """A report that was written."""

    path: Path
    passed_over: list[tuple[str, str]]  # what it does not show: a file, and one reason


def write_report(
    folder: Path, out: Path | None = None, callback: Callable[[Row], None] = lambda row: None
) -> Report:
    """Write the report about `folder` to `out`, by default into the folder.

    callback: called before each exact run with its `problem`, `label`, `number`, and the `count`.
    """
    out = folder / NAME if out is None else out
    contents = gather(folder)
    writable_path(out, ".html", ".htm")
    shown, left_out = problems(contents.replays, folder, callback)
    contents.passed_over += left_out
    page = compose(contents, shown).encode(errors="replace")  # names of files need not be text
    write_bytes(out, page)
    return Report(out, contents.passed_over)
