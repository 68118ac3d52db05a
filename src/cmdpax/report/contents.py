"""What lies in a folder of results, whoever wrote it: studies, training runs, sweeps, certified
results, tables, figures, notes.

Files are recognised by what they hold, not by where they lie, so that the folder may be the result
of one command, the parent of several, or a mixture. What is damaged is passed over; a folder with
nothing to show is an error.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cmdpax.environments import finite
from cmdpax.environments.by_name import seeded
from cmdpax.errors import InputError
from cmdpax.model.archive import load_result
from cmdpax.paper.settings import FEATURE_ENTRIES, PROBLEMS, TABLE_ENTRIES, TOLERANCES
from cmdpax.report.learning import Row, TrainingRun, read_json, read_rows, read_run
from cmdpax.report.series import Shot
from cmdpax.solvers.table import methods

PICTURES = (".png", ".svg", ".jpg", ".jpeg", ".gif")
LIMIT = min(TOLERANCES)  # shown is what is selected at the stricter of the paper's tolerances
METHODS = {entry.label: entry.method for entry in (*TABLE_ENTRIES, *FEATURE_ENTRIES)}
SKIPPED = ("checkpoints", "tensorboard")  # folders with nothing to show
PER_SCENE = 24  # films of one problem


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    headings: list[str]
    rows: list[list[str]]
    common: str = ""  # what is the same in all rows, and has no column


@dataclass
class Found:
    """Everything in a folder that a report can show."""

    folder: Path
    studies: list[tuple[str, Row]] = field(
        default_factory=list
    )  # where, and the header of a record of exact runs
    shots: list[Shot] = field(default_factory=list)
    runs: list[TrainingRun] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    notes: list[Path] = field(default_factory=list)  # Markdown
    specs: list[Path] = field(default_factory=list)  # TOML

    def name(self, path: Path) -> str:
        """A path as seen from the folder; the folder itself by its own name."""
        return (
            str(path.relative_to(self.folder))
            if path != self.folder
            else self.folder.resolve().name
        )


def gather(folder: Path) -> Found:
    """Look through a folder."""
    if not folder.exists():
        raise InputError(f"there is no folder {folder}.")
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; give the folder that holds the results.")
    found, results, sweep = Found(folder), [], []
    for path in _files(folder):
        suffix, rows = path.suffix.lower(), []
        if suffix == ".jsonl":
            rows = read_rows(path)
        if suffix in PICTURES:
            found.figures.append(path)
        elif suffix == ".toml":
            found.specs.append(path)
        elif (
            suffix == ".md" and not path.with_suffix(".csv").exists()
        ):  # such a pair is one table in two forms
            found.notes.append(path)
        elif suffix == ".csv":
            found.tables += _csv(found.name(path.with_suffix("")), path)
        elif suffix == ".npz":
            results += _result(found.name(path), path)
        elif path.name == "metrics.jsonl":
            run = read_run(path.parent, found.name(path.parent))
            found.runs += [run] if run else []
        elif path.name == "result.json":
            sweep += [content] if _is_result(content := read_json(path)) else []
        elif rows and rows[0].get("kind") == "header" and _is_header(rows[0]):
            found.studies.append((found.name(path), rows[0]))
            found.shots += _study(rows)
        elif rows and "kind" not in rows[0]:
            found.tables.append(_lines(found.name(path.with_suffix("")), rows))
    sweep.sort(key=_order)
    found.shots += _swept(sweep)
    for title, rows in (
        ("certified results", results),
        ("finished runs of the sweep", [_row(row) for row in sweep]),
    ):
        if rows:
            found.tables.append(_lines(title, rows))
    if not (found.studies or found.runs or found.tables or found.figures):
        raise InputError(
            f"{folder} holds no results that a report could show; "
            "give a folder that cmdpax reproduce, sweep, train or solve --out wrote."
        )
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Files in order; hidden ones, checkpoints, and unfinished attempts in a run store are left
    out.
    """
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_file():
            yield path
        elif (
            path.is_dir()
            and path.name not in SKIPPED
            and not (path.name == "work" and (folder / "store.json").exists())
        ):
            yield from _files(path)


def _is_header(header: Row) -> bool:
    """Whether the parts of a study's header that are shown are what they should be."""
    entries, tiles = header.get("entries", []), header.get("tiles")
    return (
        isinstance(header.get("problem"), str)
        and isinstance(entries, list)
        and all(isinstance(entry, dict) for entry in entries)
        and all(
            isinstance(entry.get(part, {}), dict) for entry in entries for part in ("grid", "fixed")
        )
        and (tiles is None or (isinstance(tiles, list) and len(tiles) == 3))
    )


def _is_result(content: Row) -> bool:
    """Whether a `result.json` is that of a run."""
    run = content.get("run")
    if (
        not isinstance(run, dict)
        or not isinstance(run.get("config"), dict)
        or not isinstance(content.get("outcome"), dict)
    ):
        return False
    config = run["config"]
    texts = (config.get("method", ""), config.get("model", ""))
    return all(isinstance(one, str) for one in texts) and isinstance(
        config.get("settings", {}), dict
    )


def _study(rows: Sequence[Row]) -> list[Shot]:
    """The selected configurations of a record of exact runs."""
    header = rows[0]
    problem, tiles = str(header["problem"]), header.get("tiles")
    if problem not in finite:
        return []
    title = PROBLEMS.get(problem, problem) + (f", {tiles[0]} features" if tiles else "")
    features = "tiles:" + ",".join(map(str, tiles)) if tiles else None
    return [
        Shot(title, problem, row["label"], METHODS[row["label"]], row["settings"], features)
        for row in rows
        if row.get("kind") == "curve"
        and isinstance(row.get("limits"), list)
        and LIMIT in row["limits"]
        if str(row.get("label")) in METHODS and isinstance(row.get("settings"), dict)
    ]


def _swept(sweep: Sequence[Row]) -> list[Shot]:
    """Exact runs of a sweep that have a fixed budget, the first few of every problem."""
    shots: dict[str, list[Shot]] = {}
    for row in sweep:
        run = row["run"]
        config = run["config"]
        method = methods.get(config.get("method", ""))
        if (
            run.get("kind") != "exact"
            or method is None
            or method.trajectory is None
            or "reward" not in row.get("outcome", {})
        ):
            continue
        settings = config.get("settings", {})
        numbers = {
            key.replace("_", " "): value
            for key, value in settings.items()
            if isinstance(value, int | float)
        }
        if not set(settings) <= set(method.budget):
            continue
        features = config.get("features")
        try:
            model = seeded(config.get("model", ""), run.get("seed", 0))
        except InputError:
            continue
        scene = model + (f", {features}" if features else "")
        label = ", ".join([method.title, *(f"{key} {value:g}" for key, value in numbers.items())])
        own = shots.setdefault(scene, [])
        if len(own) < PER_SCENE:
            own.append(Shot(scene, model, label, method.name, settings, features))
    return [shot for own in shots.values() for shot in own]


def _order(result: Row) -> tuple[str, ...]:
    """Runs of a sweep by problem and method; their folders are in the order of hashes."""
    config = result["run"].get("config", {})
    problem = config.get("model") or config.get("environment")
    return tuple(
        map(str, (problem, config.get("method"), config.get("settings"), result["run"].get("seed")))
    )


def _row(result: Row) -> Row:
    run, outcome = result["run"], result.get("outcome", {})
    return {"kind": run.get("kind"), **run.get("config", {}), "seed": run.get("seed"), **outcome}


def _result(name: str, path: Path) -> list[Row]:
    try:
        summary = load_result(path).summary()
    except InputError:  # a model, features, or something else
        return []
    return [
        {
            "file": name,
            **{
                key: summary[key]
                for key in ("status", "method", "reward", "gap", "violation", "eps", "seconds")
            },
        }
    ]


def _csv(title: str, path: Path) -> list[Table]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            headings, *rows = csv.reader(file)
    except (OSError, ValueError, csv.Error):
        return []
    return [Table(title, headings, rows)]


def _lines(title: str, rows: Sequence[Row]) -> Table:
    """Objects as a table: one column for every name that some object has, without those that are
    the same in all.
    """
    flat = [_flat(row) for row in rows]
    headings = list(dict.fromkeys(name for row in flat for name in row))
    telling = [
        name for name in headings if len(flat) == 1 or len({row.get(name) for row in flat}) > 1
    ]
    common = ", ".join(f"{name} {flat[0][name]}" for name in headings if name not in telling)
    return Table(title, telling, [[row.get(name, "") for name in telling] for row in flat], common)


def _flat(row: Row, prefix: str = "") -> dict[str, str]:
    """A nested object as text, its inner names joined by dots."""
    flat: dict[str, str] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = text(value)
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
