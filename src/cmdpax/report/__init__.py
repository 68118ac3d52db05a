"""One self-contained HTML page about a folder of results: it opens from disk, needs no network, and
holds everything it shows.

`found` says what lies in the folder, `films` runs exact runs again to have their policies,
`learning` reads training runs, `page` puts it all into HTML.
"""

from collections.abc import Callable
from pathlib import Path

from cmdpax.files import writable_path, write_text
from cmdpax.report.contents import gather
from cmdpax.report.page import compose
from cmdpax.report.series import scenes

NAME = "report.html"


def write_report(
    folder: Path, out: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> Path:
    """Write the report about `folder`, by default into it, and return where; a reader finds the old
    page or the new one.
    """
    out = folder / NAME if out is None else out
    found = gather(folder)
    writable_path(out, ".html", ".htm")
    text = compose(found, scenes(found.shots, folder, say))
    write_text(out, text)
    return out
