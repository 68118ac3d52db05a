"""What lies in this folder: studies, training runs, sweeps, results, tables, figures, notes?

Files are recognised by what they hold, not by where they lie or who wrote them, so that the folder
may be the result of one command, the parent of several, or a mixture. What is damaged, or may not
be read, is passed over and listed with its reason, and so are symbolic links, which are never
followed: they may lead out of the folder, or in circles. A folder with nothing to show is an error.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from cmdpax.environments import finite
from cmdpax.environments.by_name import drawn_states, seeded
from cmdpax.errors import InputError
from cmdpax.files.reading import Row, checked_json, read_bytes, read_rows
from cmdpax.model.archive import load_result
from cmdpax.report.series import Replay, TrainingRun, read_run, reason
from cmdpax.solvers.table import methods

PICTURES = (".png", ".svg", ".jpg", ".jpeg", ".gif")
SKIPPED = ("checkpoints", "candidates", "tensorboard")  # folders with nothing to show
RESULT = ("status", "method", "reward", "gap", "violation", "eps", "seconds")  # shown of one
MAX_REPLAYS = 8  # of runs of sweeps
COLUMNS = 100  # of a table; the rest is counted


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    headings: list[str]
    rows: Sequence[Sequence[str]]
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
    passed_over: list[tuple[str, str]] = field(default_factory=list)  # a file, and one reason

    @contextmanager
    def passing_over(self, path: Path) -> Iterator[None]:
        """Whatever one file holds, the others are shown."""
        try:
            yield
        except Exception as error:
            self.passed_over.append((self.name(path), reason(error, path)))

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
    for path in _files(contents):
        with contents.passing_over(path):
            _add(contents, path)
    outcomes = sorted(contents.outcomes, key=_order)
    _add_replays_of_sweep(contents, outcomes)
    if contents.results:
        contents.tables.append(_lines("certified results", contents.results))
    if outcomes:
        contents.tables.append(_lines("finished runs of the sweep", list(map(_row, outcomes))))
    if not (contents.studies or contents.runs or contents.tables or contents.figures):
        remedy = "give a folder that cmdpax reproduce, sweep, train or solve --out wrote"
        first = "".join(f" ({name}: {why.rstrip('.')})" for name, why in contents.passed_over[:1])
        raise InputError(f"{folder} holds no results that a report could show{first}; {remedy}.")
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
        lines = list(csv.reader(StringIO(read_bytes(path).decode(), newline="")))
        if not lines:
            raise InputError("it is empty.")
        contents.tables.append(Table(name, lines[0], lines[1:]))
    elif suffix == ".npz":
        summary = load_result(path).summary()
        row = {"file": contents.name(path), **{key: summary[key] for key in RESULT}}
        contents.results.append(row)
    elif path.name == "metrics.jsonl":
        run, complaints = read_run(path.parent, contents.name(path.parent))
        contents.runs.append(run)
        for part, why in complaints.items():
            contents.passed_over.append((contents.name(path.with_name(part)), why))
    elif path.name == "result.json":
        content = checked_json(path)
        if not _is_result(content):
            raise InputError("it is not the result of a run.")
        contents.outcomes.append({**content, "file": contents.name(path)})
    elif suffix == ".jsonl":
        rows, damaged = read_rows(path)
        if damaged:
            where = f"line {damaged[0]}" if len(damaged) == 1 else f"{len(damaged)} lines"
            contents.passed_over.append((contents.name(path), f"{where} of it: no JSON object."))
        if not rows:
            raise InputError("it holds no rows.")
        header = rows[0]
        if header.get("kind") == "header" and "problem" in header:  # others have figures
            if not _is_header(header):
                raise InputError("its header is damaged.")
            contents.studies.append((contents.name(path), header))
            contents.replays += _replays_of_study(rows, contents.name(path))
        elif "kind" not in header:
            contents.tables.append(_lines(name, rows))


def _files(contents: Contents) -> Iterator[Path]:
    """Files in order, but hidden ones, checkpoints, and unfinished attempts in a run store."""
    waiting = [contents.folder]
    while waiting:
        path = waiting.pop()
        if path.is_symlink() and path != contents.folder:
            contents.passed_over.append((contents.name(path), "it is a link, and not followed."))
        elif path.is_file():
            yield path
        elif not path.is_dir():
            contents.passed_over.append((contents.name(path), "it is not a regular file."))
        else:
            with contents.passing_over(path):
                skipped = (*SKIPPED, "work") if (path / "store.json").exists() else SKIPPED
                shown = (one for one in path.iterdir() if not one.name.startswith("."))
                inside = [one for one in shown if one.name not in skipped or not one.is_dir()]
                waiting += sorted(inside, reverse=True)


def _is_header(header: Row) -> bool:
    """Whether the parts of a study's header that are shown are what they should be."""
    entries, tiles = header.get("entries", []), header.get("tiles")
    return (
        isinstance(header.get("problem"), str)
        and _is_list(header.get("limits", []), int | float)
        and _is_list(entries, dict)
        and all(isinstance(e.get(part, {}), dict) for e in entries for part in ("grid", "fixed"))
        and (tiles is None or (isinstance(tiles, list) and len(tiles) == 3))
    )


def _is_list(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)


def _is_result(content: Row) -> bool:
    """Whether a `result.json` is that of a run."""
    run, outcome = content.get("run"), content.get("outcome")
    if not isinstance(run, dict) or not isinstance(outcome, dict):
        return False
    config = run.get("config")
    if not isinstance(config, dict):
        return False
    texts = [config.get("method", ""), config.get("model", ""), config.get("features") or ""]
    is_seed = type(run.get("seed", 0)) is int  # NaN is none
    return is_seed and _is_list(texts, str) and isinstance(config.get("settings", {}), dict)


def _replays_of_study(rows: Sequence[Row], file: str) -> list[Replay]:
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
            of = (title, problem, label, method_of[label], settings, features, file)
            replays.append(Replay(*of))
    return replays


def _add_replays_of_sweep(contents: Contents, outcomes: Sequence[Row]) -> None:
    """Exact runs of a sweep that have a fixed budget: a few, of as many methods as there are."""
    replays: list[tuple[int, Replay]] = []
    count: Counter[tuple[str, str]] = Counter()
    for one in outcomes:
        with contents.passing_over(contents.folder / one["file"]):
            if (replay := _replay(one)) is not None:
                count[replay.problem, replay.method] += 1
                replays.append((count[replay.problem, replay.method], replay))
    chosen = sorted(replays, key=lambda pair: pair[0])[:MAX_REPLAYS]  # the first of each method
    contents.replays += [replay for _, replay in chosen]
    if len(replays) > MAX_REPLAYS:
        left = len(replays) - MAX_REPLAYS
        why = f"{left} exact runs of the sweep are in its table, but have no replay."
        contents.passed_over.append((contents.name(contents.folder), why))


def _replay(outcome: Row) -> Replay | None:
    """The replay of a run of a sweep; None if it has no fixed budget, or cannot be drawn."""
    run, config = outcome["run"], outcome["run"]["config"]
    method, settings = methods.get(config.get("method", "")), config.get("settings", {})
    if run.get("kind") != "exact" or "reward" not in outcome["outcome"]:
        return None
    if method is None or method.trace is None or not set(settings) <= set(method.budget):
        return None
    features, model = config.get("features"), seeded(config.get("model", ""), run.get("seed", 0))
    if drawn_states(model) is None and model.partition(":")[0] in finite:
        return None
    numbers = {key: value for key, value in settings.items() if isinstance(value, int | float)}
    words = [f"{key.replace('_', ' ')} {value:g}" for key, value in numbers.items()]
    problem = f"{model}, {features}" if features else model
    label = ", ".join([method.title, *words])
    return Replay(problem, model, label, method.name, settings, features, outcome["file"])


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
    more = f"{len(headings) - COLUMNS} more columns" if len(headings) > COLUMNS else ""
    headings = headings[:COLUMNS]
    values = {name: {row.get(name) for row in flat} for name in headings}
    varied = [name for name in headings if len(flat) == 1 or len(values[name]) > 1]
    same = [f"{name} {flat[0][name]}" for name in headings if name not in varied]
    common = ", ".join([*same, more] if more else same)
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
