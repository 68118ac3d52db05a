"""The page itself: what was found, as HTML. Everything that is not interactive is there without
scripts.

Names come from files that anybody may have written: every text is escaped on its way into HTML, the
data of the interactive part is JSON in which `<` cannot occur, and a content security policy lets
nothing run but our script, and nothing load at all.
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML

from cmdpax.report.contents import Found, Table, text
from cmdpax.report.learning import Row, TrainingRun, environments

SCRIPTS = ("parts.js", "chart.js", "board.js", "viewer.js", "learning.js", "tables.js")
MIME = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
}
FIGURE_ROOM = 1_500_000  # bytes of pictures in one page; the others are named
ROWS = 500  # of a table; the rest is counted
escape = html.escape


def compose(found: Found, scenes: Sequence[Row]) -> str:
    """The whole page as one text."""
    assets = files("cmdpax.report")
    script = (
        "(() => {\n'use strict';\n"
        + "\n".join((assets / name).read_text() for name in SCRIPTS)
        + "\n})();"
    )
    sections = [
        ("exact", "Exact runs", _viewer(scenes)),
        ("learning", "Learning curves", _learning(found.runs)),
        ("tables", "Tables", "".join(map(_table, found.tables))),
        ("figures", "Figures", _figures(found)),
        ("settings", "Settings", _settings(found)),
        ("notes", "Notes", _notes(found)),
    ]
    shown = [(anchor, title, body) for anchor, title, body in sections if body]
    data = json.dumps(
        {"scenes": list(scenes), "environments": environments(found.runs)}, separators=(",", ":")
    )
    name = found.folder.resolve().name
    return Template((assets / "page.html").read_text()).substitute(
        title=escape(name),
        policy=escape(_policy(script)),
        style=(assets / "page.css").read_text(),
        summary="".join(f"<li>{escape(fact)}</li>" for fact in _summary(found)),
        navigation="".join(f'<a href="#{anchor}">{title}</a>' for anchor, title, _ in shown),
        sections="\n".join(
            f'<section id="{anchor}" aria-labelledby="{anchor}-title"><h2'
            f' id="{anchor}-title">{title}</h2>\n{body}\n</section>'
            for anchor, title, body in shown
        ),
        version=escape(version("cmdpax")),
        data=data.replace("<", "\\u003c"),
        script=script,
    )


def _policy(script: str) -> str:
    """What the browser may do: show inlined pictures, run this very script, fetch nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
        f" 'sha256-{digest}'"
    )


def _summary(found: Found) -> Iterable[str]:
    """Facts for the head of the page."""
    for count, one, many in (
        (len({header["problem"] for _, header in found.studies}), "problem", "problems"),
        (len({shot.method for shot in found.shots}), "exact method", "exact methods"),
        (len(found.runs), "training run", "training runs"),
        (len({run.environment for run in found.runs}), "environment", "environments"),
        (len(found.tables), "table", "tables"),
        (len(found.figures), "figure", "figures"),
    ):
        if count:
            yield f"{count} {one if count == 1 else many}"
    for package in ("cmdpax", "numpy", "python"):
        versions = {str(header[package]) for _, header in found.studies if package in header}
        if versions:
            yield f"{package} {', '.join(sorted(versions))}"


def _viewer(scenes: Sequence[Row]) -> str:
    if not scenes:
        return ""
    return (
        "<p class='lead'>Two methods on one problem, one policy-gradient evaluation at a time. Drag"
        " the slider or a curve, or press <kbd>space</kbd> to play, <kbd>←</kbd> <kbd>→</kbd> to"
        " step, <kbd>Home</kbd> and <kbd>End</kbd> to jump.</p><div id='viewer'><p"
        " class='note'>This part needs JavaScript.</p></div>"
    )


def _learning(runs: Sequence[TrainingRun]) -> str:
    if not runs:
        return ""
    thinned = any(len(run.samples) > len(run.curves()["samples"]) for run in runs)
    band = (
        " A line is the mean of neighbouring updates, its band their lowest and highest."
        if thinned
        else ""
    )
    return (
        "<p class='lead'>Return and cost of the batches each policy was trained on, against"
        " environment steps. The limit is the dotted line; a cost in the hatched part breaks"
        f" it.{band}</p><div id='learning-curves'><p class='note'>This part needs"
        f" JavaScript.</p></div>{_table(_evaluations(runs))}"
    )


def _evaluations(runs: Sequence[TrainingRun]) -> Table:
    """Final policies, one row for a run and a way of acting."""
    headings = [
        "run",
        "method",
        "seed",
        "acting",
        "episodes",
        "return",
        "±",
        "worst",
        "cost",
        "mean",
        "±",
        "worst",
        "P(violation)",
    ]
    rows: list[list[str]] = []
    for run in runs:
        seed = text(run.config.get("seed"))
        for kind, seen in run.evaluation.items():
            reward, costs = seen.get("reward", {}), seen.get("costs", {})
            measures = ("mean", "std", "worst")
            for name, cost in costs.items():
                chance = seen.get("violation_probability", {}).get(name)
                rows.append(
                    [run.name, run.method, seed, kind, text(seen.get("episodes"))]
                    + [text(reward.get(measure)) for measure in measures]
                    + [name, *(text(cost.get(measure)) for measure in measures), text(chance)]
                )
    return Table("final policies, evaluated", headings, rows)


def _table(table: Table) -> str:
    """A table whose columns can be sorted; numbers stand to the right."""
    if not table.rows:
        return ""
    rows = table.rows[:ROWS]
    numeric = [
        all(_is_number(row[i]) for row in rows if i < len(row) and row[i] not in ("", "-", "–"))
        for i in range(len(table.headings))
    ]
    heads = "".join(
        f"<th scope='col' class='{'number ' * number}{'wide' * (len(heading) > 14)}'>"
        f"<button type='button'>{escape(heading)}</button></th>"
        for heading, number in zip(table.headings, numeric)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if number else ''}>{escape(cell)}</td>"
            for cell, number in zip(row, numeric)
        )
        + "</tr>"
        for row in rows
    )
    more = (
        f"<p class='note'>The first {ROWS} of {len(table.rows)} rows.</p>"
        if len(table.rows) > ROWS
        else ""
    )
    common = f"<p class='note'>In all rows: {escape(table.common)}.</p>" if table.common else ""
    return (
        f"<figure class='card table'><figcaption>{escape(table.title)}</figcaption>{common}"
        f"<div class='scroll' tabindex='0' role='region' aria-label='{escape(table.title)}'>"
        "<table"
        f" class='sortable'><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>{more}</figure>"
    )


def _is_number(entry: str) -> bool:
    try:
        float(entry)
    except ValueError:
        return False
    return True


def _figures(found: Found) -> str:
    shown, named, room = [], [], FIGURE_ROOM
    for path in found.figures:
        picture = path.read_bytes()
        name = found.name(path)
        if len(picture) > room:
            named.append(name)
            continue
        room -= len(picture)
        source = f"data:{MIME[path.suffix.lower()]};base64,{base64.b64encode(picture).decode()}"
        shown.append(
            "<figure class='card picture'><button type='button' aria-expanded='false'"
            f" title='larger or smaller'><img alt='{escape(path.stem.replace('-', ' '))}'"
            f" src='{source}'></button><figcaption>{escape(name)}</figcaption></figure>"
        )
    left = (
        f"<p class='note'>Too large for this page: {escape(', '.join(named))}.</p>" if named else ""
    )
    return f"<div class='gallery'>{''.join(shown)}</div>{left}" if shown or named else ""


def _settings(found: Found) -> str:
    parts = []
    if found.runs:
        parts.append(_configs(found.runs))
    for name, header in found.studies:
        rows = [
            [entry.get("label", ""), _grid(entry.get("grid", {})), _grid(entry.get("fixed", {}))]
            for entry in header.get("entries", [])
        ]
        facts = {key: value for key, value in header.items() if key not in ("kind", "entries")}
        parts.append(
            f"<details class='card'><summary>{escape(name)}</summary>{_facts(facts)}"
            f"{_table(Table('grids that were searched', ['method', 'grid', 'fixed'], rows))}</details>"
        )
    for path in found.specs:
        content = escape(path.read_text(encoding="utf-8", errors="replace"))
        parts.append(
            "<details"
            f" class='card'><summary>{escape(found.name(path))}</summary><pre>{content}</pre></details>"
        )
    return "".join(parts)


def _configs(runs: Sequence[TrainingRun]) -> str:
    """Training settings: what differs between runs as a table, what they share below it."""
    names = list(dict.fromkeys(name for run in runs for name in run.config))
    seen = {name: [text(run.config.get(name)) for run in runs] for name in names}
    differing = [name for name in names if len(set(seen[name])) > 1]
    rows = [[run.name, *(seen[name][i] for name in differing)] for i, run in enumerate(runs)]
    shared = {name: runs[0].config.get(name) for name in names if name not in differing}
    table = (
        _table(Table("settings that differ between training runs", ["run", *differing], rows))
        if differing
        else ""
    )
    return (
        f"{table}<details class='card'><summary>settings that all training runs"
        f" share</summary>{_facts(shared)}</details>"
    )


def _facts(facts: Row) -> str:
    entries = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text(value))}</dd></div>"
        for name, value in facts.items()
    )
    return f"<dl class='facts'>{entries}</dl>"


def _grid(grid: dict[str, Any]) -> str:
    return "; ".join(f"{name} {text(values)}" for name, values in grid.items())


class _Renderer(RendererHTML):
    """Markdown without what would lead out of the page: a link to a file beside it becomes plain
    text.
    """

    def link_open(self, tokens: Any, at: int, options: Any, env: Any) -> str:
        target = str(tokens[at].attrGet("href") or "")
        return (
            f"<a rel='noreferrer' href='{escape(target)}'>"
            if target.startswith(("https://", "http://"))
            else "<a>"
        )


def _notes(found: Found) -> str:
    markdown = (
        MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
        .enable("table")
        .disable("image")
    )
    notes = []
    for path in found.notes:
        content = markdown.render(path.read_text(encoding="utf-8", errors="replace"))
        opened = " open" if len(found.notes) == 1 else ""
        notes.append(
            "<details class='card"
            f" prose'{opened}><summary>{escape(found.name(path))}</summary>{content}</details>"
        )
    return "".join(notes)
