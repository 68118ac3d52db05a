"""One self-contained HTML page about a folder of results: it opens from disk and needs no network.

`contents` says what lies in the folder, `series` what the interactive parts show (exact runs done
again, learning curves), `page` puts it all into HTML.
"""

from collections.abc import Callable
from pathlib import Path

from cmdpax.files import Row, writable_path, write_text
from cmdpax.report.contents import gather
from cmdpax.report.page import compose
from cmdpax.report.series import problems

NAME = "report.html"


def write_report(
    folder: Path, out: Path | None = None, callback: Callable[[Row], None] = lambda row: None
) -> Path:
    """Write the report about `folder` to `out`, by default into the folder, and return where.

    callback: called before each exact run with its `problem`, `label`, `number`, and the `count`.
    """
    out = folder / NAME if out is None else out
    contents = gather(folder)
    writable_path(out, ".html", ".htm")
    write_text(out, compose(contents, problems(contents.replays, folder, callback)))
    return out
