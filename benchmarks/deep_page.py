"""Fill the marked blocks of docs/reproduction-deep.md from the records in results/deep.

    python benchmarks/deep_page.py

A block stands between `<!-- records: NAME -->` and `<!-- end -->`; what is around it is written by
hand. `cmdpax reproduce deep` makes the tables and figures first. What was not run is said to be.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cmdpax.paper.deep_records import Record, best_printed
from cmdpax.paper.deep_study import DeepStudy, place
from cmdpax.paper.deep_tables import differences
from cmdpax.paper.settings import (
    ABLATIONS,
    LIMIT,
    RESULTS,
    SAMPLES,
    SEARCH_SWEEP,
    SEEDS,
    SWEEPS,
    TASKS,
    TITLES,
)

HOME = Path(__file__).parents[1]
PAGE, RECORDS = HOME / "docs" / "reproduction-deep.md", HOME / "results" / "deep"
BLOCK = re.compile(r"(<!-- records: ([\w-]+) -->\n).*?(<!-- end -->)", flags=re.S)
OURS = ("spma-alm", "ppo-alm")
OTHERS = {  # sweeps beside the main comparison, and what they are
    "held-out": "Tasks on which nothing was tuned (Walker2d, Swimmer, Humanoid)",
    "two-limits": "Two limits at once (velocity and control energy)",
    "paper-settings": "The paper's own settings, chosen from its grids",
}


def filled(page: str, folder: Path = RECORDS) -> str:
    """The page with every block made anew."""
    made = blocks(folder)
    return BLOCK.sub(lambda match: f"{match[1]}{made[match[2]]}\n{match[3]}", page)


def blocks(folder: Path) -> dict[str, str]:
    """All blocks by name, from the records in a folder."""
    study = DeepStudy(folder)
    made = {"summary": "\n".join(f"- {line}" for line in summary(study, folder))}
    for name in ("cells", "settings", "comparison", "violations"):
        made[name] = (folder / f"{name}.md").read_text().strip()
    for name, words in OTHERS.items():
        made[name] = other(folder, name, words)
    made["paper-search"] = search(folder)
    made["ablations"] = "\n\n".join(ablation(folder, name) for name in ABLATIONS)
    return made


def mean_of(cell: list[Record], longer: bool) -> tuple[float, float]:
    """Mean return and cost over the seeds: of a hundred episodes each, or of the paper's ten."""
    pairs = [one.episodes(evaluation=one.longer if longer else None) for one in cell]
    means = np.array([[gained.mean(), excess.mean()] for gained, excess in pairs]).mean(0)
    return float(means[0]), float(means[1]) + LIMIT


def summary(study: DeepStudy, folder: Path) -> Iterator[str]:
    """Ten lines: what was run, with which settings, and what came out."""
    every = {(task, method): study.of(task, method) for task in TASKS for method in TITLES}
    cells = {key: cell for key, cell in every.items() if cell}
    if not cells:
        yield "**What was run**: nothing yet."
        return
    part = "" if len(cells) == len(every) else f" in {len(cells)} of {len(every)} cells"
    hours = sum(one.summary.get("cpu_seconds") or 0.0 for one in study.records) / 3600
    samples = "/".join(sorted({f"{one.samples / 1e6:g}e6" for one in study.records}))
    yield (
        f"**What was run**: {len(study.records)} of {len(every) * SEEDS} runs of {samples} samples,"
        f" {span([len(cell) for cell in every.values()])} of {SEEDS} seeds in every cell (paper:"
        f" {SEEDS}, {SAMPLES / 1e6:g}e6 samples), {hours:.1f} CPU-hours (paper: 800, with its"
        " searches and ablations)."
    )
    older = [one for one in study.records if differences(one) != "nothing"]
    if not older:
        yield "**Settings**: today's defaults, one setting for all tasks; nothing is tuned for one."
    else:
        which = "these records" if len(older) == len(study.records) else f"{len(older)} of the runs"
        yield (
            f"**Settings**: one for all tasks, but *not today's defaults*: {which} were made"
            f" before them ([what differs](#which-settings-made-these-records)), and aim at"
            f" {aims(older)}."
        )
    longer = all(one.longer is not None for one in study.records)
    episodes = "a hundred episodes" if longer else "ten episodes"
    for task in TASKS:
        best, parts = best_printed(task), []
        for method in OURS:
            if (task, method) not in cells:
                parts.append(f"{TITLES[method]} not run")
                continue
            gained, cost = mean_of(cells[task, method], longer)
            verdict = "above" if gained >= best else "**below**"
            broken = "" if cost <= LIMIT else ", **beyond the limit**"
            parts.append(f"{TITLES[method]} {gained:,.0f} at cost {cost:.1f} ({verdict}{broken})")
        yield (
            f"**{task}**, means of {episodes}: {', '.join(parts)}; the paper's best of any method:"
            f" {best:,.0f}."
        )
    ratios = {
        key: mean_of(cell, False)[0] / RESULTS[key[1]][key[0]].reward for key, cell in cells.items()
    }
    (task, method), lowest = min(ratios.items(), key=lambda item: item[1])
    yield (
        f"**Against the paper, cell by cell**: every mean of ten episodes{part} is at"
        f" {int(100 * lowest)}% of the paper's or more; the lowest is {TITLES[method]} on {task}."
    )
    yield f"**Across the tasks**: {interquartile(folder)}."
    shares = {
        method: np.mean([one.summary["last_fifth"]["updates_above_limit"] for one in own])
        for method in TITLES
        if (own := [one for one in study.records if one.method == method])
    }
    words = ", ".join(f"{TITLES[method]} {share:.0%}" for method, share in shares.items())
    yield f"**Swings**: updates with a cost above {LIMIT:g} in the last fifth of training: {words}."
    states = [
        f"{words[0].lower()}{words[1:]}: {state(folder, name)}" for name, words in OTHERS.items()
    ]
    yield f"**Beyond the paper's table**: {'; '.join(states)}."
    states = [f"{name}: {state(folder, name)}" for name in (SEARCH_SWEEP.name, *ABLATIONS)]
    yield f"**Search and ablations**: {'; '.join(states)}."


def span(counts: list[int]) -> str:
    """`3`, or `1 to 3`."""
    return " to ".join(str(one) for one in dict.fromkeys([min(counts), max(counts)]))


def aims(records: list[Record]) -> str:
    """What training aimed at, at the end."""
    ends = {round(float(one.aims("cost", np.array([0, one.samples]))[-1]), 1) for one in records}
    return " to ".join(f"{one:g}" for one in dict.fromkeys([min(ends), max(ends)]))


def interquartile(folder: Path) -> str:
    """Interquartile means of the return over the paper's best, from the table of methods."""
    with open(folder / "comparison.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    if rows[0][1] != ", ".join(TASKS):
        return "no seed has finished in every cell yet"
    seeds = rows[0][2]
    number = "one seed" if seeds == "1" else f"{seeds} seeds"
    parts = (f"{row[0]} {row[3]}" + (f" {row[4]}" if seeds != "1" else "") for row in rows)
    return f"interquartile mean of return / paper's best, {number}: {', '.join(parts)}"


def state(folder: Path, name: str) -> str:
    """How much of a sweep is recorded, in words."""
    cells = DeepStudy(place(folder, name)).cells(name)
    planned = len(TASKS) * len(TITLES) if name == "paper-settings" else len(SWEEPS[name].runs())
    failed = sum("failed" in row for row in cells.values())
    broken = f" ({failed} of them failed)" if failed else ""
    return f"{len(cells)} of {planned} runs{broken}" if cells else "not run yet"


def other(folder: Path, name: str, words: str) -> str:
    """Table and figure of a sweep beside the main comparison; or that it was not run."""
    target = place(folder, name)
    if not (target / "cells.md").exists():
        return f"{words}: **not run yet**; the command is [below](#the-commands)."
    table = (target / "cells.md").read_text().strip()
    return f"{table}\n\n![{words}](../results/deep/{name}.png)"


def search(folder: Path) -> str:
    """The search in the paper's grids."""
    if not (folder / "paper-search.md").exists():
        return "The search in the paper's grids: **not run yet**."
    return "A star marks what is chosen.\n\n" + (folder / "paper-search.md").read_text().strip()


def ablation(folder: Path, name: str) -> str:
    """An ablation's figure, if there are records; otherwise the older one says what it is."""
    if DeepStudy(folder).lines[name]:
        return f"![{name}](../results/deep/{name}.png)"
    old = "one seed, HalfCheetah, the settings of version 0.1"
    picture = f"![{name}, {old}](../results/deep-0.05/{name}.png)"
    return f"{picture}\n\n*{name}: {old}; the new ones are not run yet.*"


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text()))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
