"""What lies in this folder: studies, training runs, sweeps, results, tables, figures, notes?

Files are recognised by what they hold, not by where they lie or who wrote them, so that the folder
may be the result of one command, the parent of several, or a mixture. What is damaged, or may not
be read, is passed over; a folder with nothing to show is an error.
"""

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cmdpax.environments import finite
from cmdpax.environments.by_name import seeded
from cmdpax.errors import InputError
from cmdpax.files import Row, read_json, read_rows
from cmdpax.model.archive import load_result
from cmdpax.report.series import Replay, TrainingRun, read_run
from cmdpax.solvers.table import methods

PICTURES = (".png", ".svg", ".jpg", ".jpeg", ".gif")
SKIPPED = ("checkpoints", "tensorboard")  # folders with nothing to show
RESULT = ("status", "method", "reward", "gap", "violation", "eps", "seconds")  # shown of one
MAX_REPLAYS = 24  # of one problem of a sweep


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    headings: list[str]
    rows: list[list[str]]
    common: str = ""  # what is the same in all rows, and has no column


@dataclass
class Contents:
    """Everything in a folder that a report can show."""

    folder: Path
    studies: list[tuple[str, Row]] = field(default_factory=list)  # file and header of a record
    replays: list[Replay] = field(default_factory=list)
    runs: list[TrainingRun] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    notes: list[Path] = field(default_factory=list)  # Markdown
    sweeps: list[Path] = field(default_factory=list)  # TOML
    results: list[Row] = field(default_factory=list)  # of `solve --out`
    outcomes: list[Row] = field(default_factory=list)  # `result.json` of runs of a sweep

    def name(self, path: Path) -> str:
        """A path as seen from the folder; the folder itself by its own name."""
        is_folder = path == self.folder
        return self.folder.resolve().name if is_folder else str(path.relative_to(self.folder))


def gather(folder: Path) -> Contents:
    """Look through a folder."""
    if not folder.exists():
        raise InputError(f"there is no folder {folder}.")
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; give the folder that holds the results.")
    contents = Contents(folder)
    for path in _files(folder):
        with suppress(OSError):
            _add(contents, path)
    outcomes = sorted(contents.outcomes, key=_order)
    contents.replays += _replays_of_sweep(outcomes)
    if contents.results:
        contents.tables.append(_lines("certified results", contents.results))
    if outcomes:
        contents.tables.append(_lines("finished runs of the sweep", list(map(_row, outcomes))))
    if not (contents.studies or contents.runs or contents.tables or contents.figures):
        raise InputError(
            f"{folder} holds no results that a report could show; "
            "give a folder that cmdpax reproduce, sweep, train or solve --out wrote."
        )
    return contents


def _add(contents: Contents, path: Path) -> None:
    """Add what one file holds."""
    suffix, name = path.suffix.lower(), contents.name(path.with_suffix(""))
    if suffix in PICTURES:
        contents.figures.append(path)
    elif suffix == ".toml":
        contents.sweeps.append(path)
    elif suffix == ".md" and not path.with_suffix(".csv").exists():  # a pair is one table
        contents.notes.append(path)
    elif suffix == ".csv":
        with suppress(ValueError, csv.Error), path.open(newline="", encoding="utf-8") as file:
            headings, *lines = csv.reader(file)
            contents.tables.append(Table(name, headings, lines))
    elif suffix == ".npz":
        with suppress(InputError):  # a model, features, or something else
            summary = load_result(path).summary()
            row = {"file": contents.name(path), **{key: summary[key] for key in RESULT}}
            contents.results.append(row)
    elif path.name == "metrics.jsonl":
        run = read_run(path.parent, contents.name(path.parent))
        contents.runs += [run] if run else []
    elif path.name == "result.json" and _is_result(content := read_json(path)):
        contents.outcomes.append(content)
    elif suffix == ".jsonl" and (rows := read_rows(path)):
        header = rows[0]
        if header.get("kind") == "header" and _is_header(header):
            contents.studies.append((contents.name(path), header))
            contents.replays += _replays_of_study(rows)
        elif "kind" not in header:
            contents.tables.append(_lines(name, rows))


def _files(folder: Path) -> Iterator[Path]:
    """Files in order, but hidden ones, checkpoints, and unfinished attempts in a run store."""
    skipped = (*SKIPPED, "work") if (folder / "store.json").exists() else SKIPPED
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and path.name not in skipped:
            yield from _files(path)


def _is_header(header: Row) -> bool:
    """Whether the parts of a study's header that are shown are what they should be."""
    entries, limits, tiles = (
        header.get("entries", []),
        header.get("limits", []),
        header.get("tiles"),
    )
    return (
        isinstance(header.get("problem"), str)
        and _is_list(limits, int | float)
        and _is_list(entries, dict)
        and all(isinstance(e.get(part, {}), dict) for e in entries for part in ("grid", "fixed"))
        and (tiles is None or (isinstance(tiles, list) and len(tiles) == 3))
    )


def _is_list(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)


def _is_result(content: Row) -> bool:
    """Whether a `result.json` is that of a run."""
    run, outcome = content.get("run"), content.get("outcome")
    config = run.get("config") if isinstance(run, dict) else None
    if not isinstance(config, dict) or not isinstance(outcome, dict):
        return False
    texts = [config.get("method", ""), config.get("model", "")]
    return _is_list(texts, str) and isinstance(config.get("settings", {}), dict)


def _replays_of_study(rows: Sequence[Row]) -> list[Replay]:
    """The configurations that a record of exact runs selects at its strictest limit."""
    header = rows[0]
    problem, tiles = header["problem"], header.get("tiles")
    strictest = min(header.get("limits", []), default=None)
    if problem not in finite or strictest is None:
        return []
    title = problem.replace("-", " ").title() + (f", {tiles[0]} features" if tiles else "")
    features = "tiles:" + ",".join(map(str, tiles)) if tiles else None
    tried = [row for row in rows if row.get("kind") == "configuration"]
    method_of = {str(row.get("label")): str(row.get("method")) for row in tried}
    replays = []
    for row in rows:
        label, settings, limits = str(row.get("label")), row.get("settings"), row.get("limits")
        selected = row.get("kind") == "curve" and isinstance(limits, list) and strictest in limits
        if selected and label in method_of and isinstance(settings, dict):
            replays.append(Replay(title, problem, label, method_of[label], settings, features))
    return replays


def _replays_of_sweep(outcomes: Sequence[Row]) -> list[Replay]:
    """Exact runs of a sweep that have a fixed budget, the first few of every problem."""
    replays: dict[str, list[Replay]] = {}
    for one in outcomes:
        run, config = one["run"], one["run"]["config"]
        method, settings = methods.get(config.get("method", "")), config.get("settings", {})
        if run.get("kind") != "exact" or "reward" not in one["outcome"]:
            continue
        if method is None or method.trace is None or not set(settings) <= set(method.budget):
            continue
        features = config.get("features")
        try:
            model = seeded(config.get("model", ""), run.get("seed", 0))
        except InputError:
            continue
        numbers = {key: value for key, value in settings.items() if isinstance(value, int | float)}
        words = [f"{key.replace('_', ' ')} {value:g}" for key, value in numbers.items()]
        problem = f"{model}, {features}" if features else model
        label, own = ", ".join([method.title, *words]), replays.setdefault(problem, [])
        if len(own) < MAX_REPLAYS:
            own.append(Replay(problem, model, label, method.name, settings, features))
    return [replay for own in replays.values() for replay in own]


def _order(outcome: Row) -> tuple[str, ...]:
    """Runs of a sweep by problem and method; their folders are in the order of hashes."""
    config = outcome["run"]["config"]
    problem = config.get("model") or config.get("environment")
    order = (problem, config.get("method"), config.get("settings"), outcome["run"].get("seed"))
    return tuple(map(str, order))


def _row(outcome: Row) -> Row:
    run = outcome["run"]
    return {"kind": run.get("kind"), **run["config"], "seed": run.get("seed"), **outcome["outcome"]}


def _lines(title: str, rows: Sequence[Row]) -> Table:
    """Objects as a table: a column for every name but those that are the same in all rows."""
    flat = [_flat(row) for row in rows]
    headings = list(dict.fromkeys(name for row in flat for name in row))
    values = {name: {row.get(name) for row in flat} for name in headings}
    varied = [name for name in headings if len(flat) == 1 or len(values[name]) > 1]
    common = ", ".join(f"{name} {flat[0][name]}" for name in headings if name not in varied)
    return Table(title, varied, [[row.get(name, "") for name in varied] for row in flat], common)


def _flat(row: Row, prefix: str = "") -> dict[str, str]:
    """A nested object as text, its inner names joined by dots."""
    flat: dict[str, str] = {}
    for name, value in row.items():
        name = prefix + name
        flat |= _flat(value, f"{name}.") if isinstance(value, dict) else {name: text(value)}
    return flat


def text(value: Any) -> str:
    """A value as a reader wants to see it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    return str(value)
