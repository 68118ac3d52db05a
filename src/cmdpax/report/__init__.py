"""One self-contained HTML page about a folder of results: it opens from disk, needs no network, and holds everything it shows.

`found` says what lies in the folder, `films` runs exact runs again to have their policies, `learning` reads training runs,
`page` puts it all into HTML.
"""

from collections.abc import Callable
from pathlib import Path

from cmdpax.errors import InputError
from cmdpax.files import write_text
from cmdpax.report.films import scenes
from cmdpax.report.found import gather
from cmdpax.report.page import compose

NAME = "report.html"


def write_report(folder: Path, out: Path | None = None, say: Callable[[str], None] = lambda text: None) -> Path:
    """Write the report about `folder`, by default into it, and return where; a reader finds the old page or the new one."""
    out = folder / NAME if out is None else out
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out {out}: a report is written as .html; give a name that ends so.")
    if not out.parent.is_dir() and out.parent != folder:
        raise InputError(f"--out {out}: there is no folder {out.parent}; make it first.")
    found = gather(folder)
    text = compose(found, scenes(found.shots, folder, say))
    try:
        write_text(out, text)
    except OSError as error:
        raise InputError(f"--out {out}: the page cannot be written there ({error.strerror}).") from None
    return out
