"""How does it look in HTML? What is not interactive is there without scripts.

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

from cmdpax.errors import InputError
from cmdpax.files.reading import LARGEST_TOML, Row, read_bytes
from cmdpax.files.written import plain
from cmdpax.report.contents import COLUMNS, Contents, Table, text
from cmdpax.report.series import POINTS, TrainingRun, environments

SCRIPTS = ("parts.js", "chart.js", "board.js", "viewer.js", "learning.js", "tables.js")
MIME = {".png": "png", ".svg": "svg+xml", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif"}
FIGURE_BYTES = 1_500_000  # of pictures in one page; the others are named
NOTE_BYTES = 100_000  # of one note
TABLE_ROWS = 500  # of a table; the rest is counted
escape = html.escape


def compose(contents: Contents, problems: Sequence[Row]) -> str:
    """The whole page as one text."""
    assets = files("cmdpax.report")
    parts = "\n".join((assets / name).read_text() for name in SCRIPTS)
    script = f"(() => {{\n'use strict';\n{parts}\n}})();"
    sections = [
        ("exact", "Exact runs", _viewer(problems)),
        ("learning", "Learning curves", _learning(contents.runs)),
        ("tables", "Tables", "".join(map(_table, contents.tables))),
        ("figures", "Figures", _figures(contents)),
        ("settings", "Settings", _settings(contents)),
        ("notes", "Notes", _notes(contents)),
    ]
    missed = Table("not shown, or not in full", ["file", "why"], contents.passed_over)
    sections.append(("passed-over", "Passed over", _table(missed)))  # last: the others add to it
    shown = [(anchor, title, body) for anchor, title, body in sections if body]
    data = {"problems": list(problems), "environments": environments(contents.runs)}
    content = json.dumps(plain(data), separators=(",", ":"), allow_nan=False)
    return Template((assets / "page.html").read_text()).substitute(
        title=escape(contents.folder.resolve().name),
        policy=escape(_policy(script)),
        style=(assets / "page.css").read_text(),
        summary="".join(f"<li>{escape(fact)}</li>" for fact in _summary(contents)),
        navigation="".join(f'<a href="#{anchor}">{title}</a>' for anchor, title, _ in shown),
        sections="\n".join(
            f'<section id="{anchor}" aria-labelledby="{anchor}-title">'
            f'<h2 id="{anchor}-title">{title}</h2>\n{body}\n</section>'
            for anchor, title, body in shown
        ),
        version=escape(version("cmdpax")),
        data=content.replace("<", "\\u003c"),
        script=script,
    )


def _policy(script: str) -> str:
    """What the browser may do: show inlined pictures, run this very script, fetch nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
    return f"{policy} 'sha256-{digest}'"


def _summary(contents: Contents) -> Iterable[str]:
    """Facts for the head of the page."""
    headers = [header for _, header in contents.studies]
    for what, count in {
        "problem": len({header["problem"] for header in headers}),
        "exact method": len({replay.method for replay in contents.replays}),
        "training run": len(contents.runs),
        "environment": len({run.environment for run in contents.runs}),
        "table": len(contents.tables),
        "figure": len(contents.figures),
    }.items():
        if count:
            yield f"{count} {what}{'' if count == 1 else 's'}"
    for package in ("cmdpax", "numpy", "python"):
        versions = {str(header[package]) for header in headers if package in header}
        if versions:
            yield f"{package} {', '.join(sorted(versions))}"


def _viewer(problems: Sequence[Row]) -> str:
    if not problems:
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
    band = " A line is the mean of neighbouring updates, its band their lowest and highest."
    thinned = any(len(run.samples) > POINTS for run in runs)
    return (
        "<p class='lead'>Return and cost of the batches each policy was trained on, against"
        " environment steps. The limit is the dotted line; a cost in the hatched part breaks"
        f" it.{band if thinned else ''}</p><div id='learning-curves'><p class='note'>This part"
        f" needs JavaScript.</p></div>{_table(_evaluations(runs))}"
    )


def _evaluations(runs: Sequence[TrainingRun]) -> Table:
    """Final policies, one row for a run and a way of acting."""
    measures = ("mean", "std", "worst")
    headings = ["run", "method", "seed", "acting", "episodes", "return", "±", "worst"]
    headings += ["cost", "mean", "±", "worst", "P(violation)"]
    rows = [
        [run.name, run.method, text(run.config.get("seed")), kind, text(evidence.get("episodes"))]
        + [text(evidence.get("reward", {}).get(measure)) for measure in measures]
        + [name, *(text(cost.get(measure)) for measure in measures)]
        + [text(evidence.get("violation_probability", {}).get(name))]
        for run in runs
        for kind, evidence in run.evaluation.items()
        for name, cost in evidence.get("costs", {}).items()
    ]
    return Table("final policies, evaluated", headings, rows)


def _table(table: Table) -> str:
    """A table whose columns can be sorted; numbers stand to the right."""
    if not table.rows:
        return ""
    rows, headings = table.rows[:TABLE_ROWS], table.headings[:COLUMNS]
    numeric = [
        all(_is_number(row[i]) for row in rows if i < len(row) and row[i] not in ("", "-", "–"))
        for i in range(len(headings))
    ]
    heads = "".join(
        f"<th scope='col' class='{'number ' * number}{'wide' * (len(heading) > 14)}'>"
        f"<button type='button'>{escape(heading)}</button></th>"
        for heading, number in zip(headings, numeric)
    )
    kinds = [" class=number" if number else "" for number in numeric]
    lines = ([f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds)] for row in rows)
    body = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    more = f"<p class='note'>The first {TABLE_ROWS} of {len(table.rows)} rows.</p>"
    common = f"<p class='note'>In all rows: {escape(table.common)}.</p>" if table.common else ""
    return (
        f"<figure class='card table'><figcaption>{escape(table.title)}</figcaption>{common}"
        f"<div class='scroll' tabindex='0' role='region' aria-label='{escape(table.title)}'>"
        f"<table class='sortable'><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        f"</div>{more if len(table.rows) > TABLE_ROWS else ''}</figure>"
    )


def _is_number(entry: str) -> bool:
    try:
        float(entry)
    except ValueError:
        return False
    return True


def _figures(contents: Contents) -> str:
    shown, named, room = [], [], FIGURE_BYTES
    for path in contents.figures:
        picture, name = b"", contents.name(path)
        with contents.passing_over(path):
            if path.stat().st_size > room:
                named.append(name)
            else:
                picture = read_bytes(path, room)
                if not picture:
                    raise InputError("it is empty.")
        if not picture:
            continue
        room -= len(picture)
        data = base64.b64encode(picture).decode()
        source = f"data:image/{MIME[path.suffix.lower()]};base64,{data}"
        shown.append(
            "<figure class='card picture'><button type='button' aria-expanded='false'"
            f" title='larger or smaller'><img alt='{escape(path.stem.replace('-', ' '))}'"
            f" src='{source}'></button><figcaption>{escape(name)}</figcaption></figure>"
        )
    left = f"<p class='note'>Too large for this page: {escape(', '.join(named))}.</p>"
    gallery = f"<div class='gallery'>{''.join(shown)}</div>"
    return f"{gallery}{left if named else ''}" if shown or named else ""


def _settings(contents: Contents) -> str:
    parts = [_configs(contents.runs)] if contents.runs else []
    for name, header in contents.studies:
        rows = [
            [text(one.get("label", "")), *(_grid(one.get(part, {})) for part in ("grid", "fixed"))]
            for one in header.get("entries", [])
        ]
        facts = {key: value for key, value in header.items() if key not in ("kind", "entries")}
        grids = _table(Table("grids that were searched", ["method", "grid", "fixed"], rows))
        parts.append(_details(name, _facts(facts) + grids))
    for path in contents.sweeps:
        with contents.passing_over(path):
            content = escape(read_bytes(path, LARGEST_TOML).decode(errors="replace"))
            parts.append(_details(contents.name(path), f"<pre>{content}</pre>"))
    return "".join(parts)


def _configs(runs: Sequence[TrainingRun]) -> str:
    """Training settings: what differs between runs as a table, what they share below it."""
    names = list(dict.fromkeys(name for run in runs for name in run.config))[:COLUMNS]
    values = {name: [text(run.config.get(name)) for run in runs] for name in names}
    differing = [name for name in names if len(set(values[name])) > 1]
    rows = [[run.name, *(values[name][i] for name in differing)] for i, run in enumerate(runs)]
    shared = {name: runs[0].config.get(name) for name in names if name not in differing}
    title = "settings that differ between training runs"
    table = _table(Table(title, ["run", *differing], rows)) if differing else ""
    return table + _details("settings that all training runs share", _facts(shared))


def _details(summary: str, body: str, kind: str = "card", opened: bool = False) -> str:
    """A part that a reader opens; `body` is HTML, `summary` text."""
    state = " open" if opened else ""
    return f"<details class='{kind}'{state}><summary>{escape(summary)}</summary>{body}</details>"


def _facts(facts: Row) -> str:
    pairs = ((escape(name), escape(text(value))) for name, value in facts.items())
    entries = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in pairs)
    return f"<dl class='facts'>{entries}</dl>"


def _grid(grid: Row) -> str:
    return "; ".join(f"{name} {text(values)}" for name, values in grid.items())


class _Renderer(RendererHTML):
    """Markdown without what would lead out of the page: other links become plain text."""

    def link_open(self, tokens: Any, at: int, options: Any, env: Any) -> str:
        target = str(tokens[at].attrGet("href") or "")
        is_address = target.startswith(("https://", "http://"))
        return f"<a rel='noreferrer' href='{escape(target)}'>" if is_address else "<a>"


def _notes(contents: Contents) -> str:
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
    parser.enable("table").disable("image")
    opened, notes = len(contents.notes) == 1, ""
    for path in contents.notes:
        with contents.passing_over(path):
            content = parser.render(read_bytes(path, NOTE_BYTES).decode(errors="replace"))
            notes += _details(contents.name(path), content, "card prose", opened)
    return notes
