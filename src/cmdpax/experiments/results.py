"""Results: one row a run, the selection rule, records and tables, exports for other programs.

The rule: for every problem and method, the configuration with the highest mean return over seeds
among those whose mean cost is at most `limit + allowed_excess` (exact runs: highest reward with
violation at most `allowed_excess`). A configuration of which a run failed, or is missing, is not
eligible. Ties go to the first of the sweep.

A record is JSON lines to read back. Its first line says what made it; numbers of the others have
four significant digits, and nothing depends on the machine or the day but versions.
"""

import csv
import json
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.experiments.runs import Run
from cmdpax.experiments.statistics import Interval, mean_interval
from cmdpax.experiments.store import Store, difference, versions
from cmdpax.files.reading import Row, read_rows
from cmdpax.files.written import plain, replacing, writable_path, write_rows, write_text

SUMMARY = (
    *("problem", "method", "configurations", "eligible", "runs", "failed", "samples"),
    *("CPU hours", "selected", "score", "excess"),
)
SUFFIXES = (".jsonl", ".csv", ".parquet")


def rows(runs: Sequence[Run], store: Store) -> list[Row]:
    """One flat row for each finished run: what was varied, score, excess over the limits, cost."""
    varied, rows = varied_fields(runs), []
    for run in runs:
        result = store.result(run)
        if result is None:
            continue
        outcome, settings = result["outcome"], _settings(run)
        score, excess = ("return", "excess") if run.kind == "train" else ("reward", "violation")
        row = {"id": run.id, "problem": run.problem, "method": run.config["method"]}
        row |= {"seed": run.seed, **{name: settings.get(name) for name in varied}}
        row |= {"score": outcome.get(score), "excess": outcome.get(excess)}
        row |= {name: outcome.get(name) for name in ("samples", "failed")}
        rows.append({**row, "cpu_seconds": store.spent(run).get("cpu_seconds")})
    return rows


def varied_fields(runs: Sequence[Run]) -> list[str]:
    """Fields that differ between runs of one method; what a method sets by itself is not varied."""
    values: dict[tuple[str, str], set[Any]] = {}
    for run in runs:
        for name, value in _settings(run).items():
            values.setdefault((run.config["method"], name), set()).add(value)
    return list(dict.fromkeys(name for (_, name), seen in values.items() if len(seen) > 1))


def _settings(run: Run) -> Row:
    """Fields of a run but its problem, method and seed; lists as JSON."""
    others = ("seed", "settings", "environment", "model", "method")
    own = {name: value for name, value in run.fields.items() if name not in others}
    return {k: json.dumps(v) if isinstance(v, list) else v for k, v in own.items()}


def select_configurations(
    runs: Sequence[Run], rows: Sequence[Row], allowed_excess: float
) -> list[Row]:
    """For every problem and method: how much was tried, and what the rule selects, if anything."""
    varied, by_id = varied_fields(runs), {row["id"]: row for row in rows}
    groups: dict[tuple[str, str], dict[str, list[Run]]] = {}
    for run in runs:
        configurations = groups.setdefault((run.problem, run.config["method"]), {})
        configurations.setdefault(json.dumps(run.config, sort_keys=True), []).append(run)
    table = []
    for (problem, method), configurations in groups.items():
        tried, eligible = [], []
        for seeds in configurations.values():
            done = [by_id[run.id] for run in seeds if run.id in by_id]
            tried += done
            scores, excesses = ([row[name] for row in done] for name in ("score", "excess"))
            if len(done) == len(seeds) and None not in scores and None not in excesses:
                excess = float(np.mean(excesses))
                if excess <= allowed_excess:
                    eligible.append((mean_interval(scores), excess, done[0]))
        failed = sum(row["failed"] is not None for row in tried)
        samples = sum(row["samples"] or 0 for row in tried)
        hours = sum(row["cpu_seconds"] or 0.0 for row in tried) / 3600
        best = max(eligible, key=lambda one: one[0].value, default=None)  # the first of equals
        selected = ("none", "-", "-") if best is None else _selected(*best, varied)
        sizes = (len(configurations), len(eligible), len(tried), failed, samples, hours)
        table.append(dict(zip(SUMMARY, (problem, method, *sizes, *selected))))
    return table


def _selected(
    score: Interval, excess: float, row: Row, varied: Sequence[str]
) -> tuple[str, str, float]:
    """A configuration, its score and its excess, as the summary shows them."""
    settings = (f"{name} {row[name]}" for name in varied if row.get(name) is not None)
    return ", ".join(settings) or "the only one", score.plus_minus(".5g", ".3g"), excess


def write_selection(store: Store, table: Sequence[Row]) -> Path:
    """Selection and tuning budgets as `selected.csv` and `selected.md` in the store; the latter."""
    with store.writing():
        write_table(store.folder / "selected", SUMMARY, [row.values() for row in table])
    return store.folder / "selected.md"


def made_by_others(runs: Sequence[Run], store: Store) -> str:
    """A sentence on runs that other versions finished, one on those they began; empty if none."""
    results = [result for run in runs if (result := store.result(run))]
    changes = Counter(difference(result["versions"], versions()) for result in results)
    remedy = "they are kept: to make them anew, give another store"
    sentences = [
        f"{count} finished runs were made by other versions ({change}); {remedy}."
        for change, count in changes.items()
        if change
    ]
    begun = len(store.begun_by_others() & {run.id for run in store.pending(runs)})
    if begun:
        why = "they start anew, so that one version makes all of a run"
        sentences.append(f"{begun} runs were begun by other versions; {why}.")
    return " ".join(sentences)


def provenance(**facts: Any) -> Row:
    """The header of a record: versions, and whatever else it depends on."""
    packages = {name: version(name) for name in ("cmdpax", "numpy", "scipy")}
    return {"kind": "header", "python": platform.python_version(), **packages, **facts}


def write_lines(path: Path, header: Row, rows: Iterable[Row]) -> None:
    """Write a record; the file appears only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (header, *(plain(row, digits=4) for row in rows))
    texts = (json.dumps(line, allow_nan=False, separators=(",", ":")) for line in lines)
    write_text(path, "".join(f"{text}\n" for text in texts))


def read_lines(path: Path) -> tuple[Row, list[Row]]:
    """Header and rows of a record; both empty if there is none or it is damaged."""
    rows, damaged = read_rows(path)
    return (rows[0], rows[1:]) if rows and not damaged else ({}, [])


def write_table(path: Path, headings: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """The same table as `path`.csv and `path`.md; numbers with three digits."""
    text = [[cell(entry) for entry in row] for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path.with_suffix(".csv"), _csv([headings, *text]))
    every = (headings, ["---"] * len(headings), *text)
    lines = [" | ".join(word.replace("|", r"\|") for word in row) for row in every]
    write_text(path.with_suffix(".md"), "".join(f"| {line} |\n" for line in lines))


def cell(entry: Any) -> str:
    """An entry of a table as text."""
    if entry is None:
        return "none"
    return f"{entry:.3g}" if isinstance(entry, float) else str(entry)


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def check_export(path: Path) -> Path:
    """The path, if rows can be written so; asked before hours of work."""
    writable_path(path, *SUFFIXES, option="--export")
    if path.suffix.lower() == ".parquet":
        _pyarrow(path)
    return path


def export(rows: Sequence[Row], path: Path) -> None:
    """Write flat rows, numbers in full; the file appears only when it is complete."""
    if path.suffix.lower() == ".jsonl":
        write_rows(path, rows)
    elif path.suffix.lower() == ".csv":
        names = list(dict.fromkeys(name for row in rows for name in row))
        write_text(path, _csv([names, *([row.get(name) for name in names] for row in rows)]))
    else:
        arrow = _pyarrow(path)
        with replacing(path) as file:
            arrow.parquet.write_table(arrow.Table.from_pylist(list(rows)), file)


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        remedy = "install cmdpax[parquet], or write .csv"
        sentence = f"--export {path}: Parquet needs the package 'pyarrow'; {remedy}."
        raise InputError(sentence) from None
    return pyarrow
