"""The documentation site: `make docs` builds it, with every warning an error."""

import inspect
import os
import re
import sys
from contextlib import redirect_stdout, suppress
from importlib.metadata import version as installed
from io import StringIO
from pathlib import Path
from unittest import mock

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

sys.path.insert(0, str(Path(__file__).parent))
import pages

project = "cmdpax"
author = "The cmdpax authors"
project_copyright = "The cmdpax authors, MIT licence"
version = release = installed("cmdpax")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "cmdpax"
exclude_patterns = ["pages.py"]
html_static_path = ["images", "style"]
html_css_files = ["pages.css"]
html_math_renderer = "mathml"
html_theme_options = {"sidebar_hide_name": False}
default_role = "code"  # docstrings put code between single backticks
autodoc_typehints = "none"
autodoc_member_order = "bysource"


def mathml(self, node: nodes.Node) -> None:
    """Mathematics as MathML, which browsers draw by themselves: no script, no network."""
    block = isinstance(node, nodes.math_block)
    text = tex2mathml(node.astext(), as_block=block)
    self.body.append(f'<div class="math">{text}</div>' if block else text)
    raise nodes.SkipNode


def plain_docstring(app, what, name, obj, options, lines: list[str]) -> None:
    """Docstrings are plain text with code in backticks: keep reStructuredText from reading more.

    Paragraphs that are indented, or drawn (tables, grids), become literal blocks.
    """
    text = re.sub(r"(\n[^\n-][^\n]*\n)(?=- )", r"\1\n", "\n" + "\n".join(lines))  # before lists
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    shown: list[str] = []
    for paragraph in paragraphs:
        rows = paragraph.split("\n")
        indented, ruled = all(row.startswith(" ") for row in rows), rows[0].startswith(("|", "--"))
        if rows[1:2] == ["----------"]:  # a list of parameters
            shown += [f"- {escaped(row)}" for row in rows[2:]] + [""]
        elif indented or ruled or (len(rows) > 1 and "   " in rows[0].strip()):
            plain = inspect.cleandoc("\n" + paragraph).split("\n")
            shown += ["::", "", *("    " + row for row in plain), ""]
        elif rows[0].startswith(("- ", ">>>")):
            shown += [*rows, ""]
        else:
            shown += [*map(escaped, rows), ""]
    lines[:] = shown


def escaped(row: str) -> str:
    """A row of text whose stars, bars and underscores mean themselves, outside backticks."""
    parts = re.split(r"(`[^`]*`)", row)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*|_])", r"\\\1", part) for part in parts
    )


def files_outside(app, page: str, source: list[str]) -> None:
    """Links to Markdown outside this folder, such as tables in results/, lead to copies of it.

    Without this Sphinx takes them for pages of the site, which they are not.
    """
    here = app.env.doc2path(page).parent

    def link(match: re.Match) -> str:
        outside = not (here / match[1]).resolve().is_relative_to(app.srcdir)
        return f"](path:{match[1]})" if outside else match[0]

    source[0] = re.sub(r"\]\(([^):#\s]+\.md)\)", link, source[0])


def every_command(app, page: str, source: list[str]) -> None:
    """The page of commands is what `--help` prints of each."""
    if page != "commands":
        return
    from cmdpax.cli.main import COMMANDS, main

    sections = []
    for name in COMMANDS:
        printed = StringIO()
        with (
            mock.patch.dict(os.environ, {"COLUMNS": "88"}),
            redirect_stdout(printed),
            suppress(SystemExit),
        ):
            main([name, "--help"])
        text = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
        sections.append(f"## {name}\n\n```text\n{text}\n```\n")
    source[0] = source[0].replace("<!-- every command -->", "\n".join(sections))


def notebooks(app, failure) -> None:
    """Every tutorial as an executed notebook beside its page."""
    if failure is None:
        for page in sorted((app.srcdir / "tutorials").glob("*.md")):
            made = pages.notebook(page.read_text())
            (app.outdir / "tutorials" / f"{page.stem}.ipynb").write_text(made)


def setup(app) -> None:
    """Register the five above."""
    app.connect("build-finished", notebooks)
    app.connect("source-read", every_command)
    app.connect("source-read", files_outside)
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    app.connect("autodoc-process-docstring", plain_docstring)
