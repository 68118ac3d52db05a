"""Every claim of the README's table is recomputed from records; so are the sizes of the records.

A row that is added there needs a check here.
"""

import json
import re
from pathlib import Path
from statistics import median

import numpy as np
import plain_least_squares
import pytest
import vs_lp_report

from cmdpax.environments import deep_sea
from cmdpax.environments.by_name import tiles
from cmdpax.exact.standard import StandardForm
from cmdpax.paper.deep_records import best_printed
from cmdpax.paper.deep_study import DeepStudy
from cmdpax.paper.exact_study import ExactStudy
from cmdpax.paper.settings import LIMIT, PROBLEMS, TABLE_ENTRIES, TASKS
from cmdpax.solvers.log_linear import Features, LogLinear

ROOT = Path(__file__).parents[2]
RESULTS, README = ROOT / "results", (ROOT / "README.md").read_text()
LARGEST = 15e6  # bytes of all records together
OURS = ("spma-alm", "ppo-alm")
# rows that no record can confirm: a machine's compiler, and what the package does not do
WITHOUT_RECORDS = {"first use", "other aims", "training"}


def table() -> dict[str, str]:
    """The rows of "Good at, and not", by their first cell."""
    text = README.partition("## Good at, and not")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, flags=re.M)
    return {name.strip(): claim.strip() for name, claim in rows}


CLAIMS = table()


def numbers(text: str) -> list[float]:
    """Numbers in a sentence: `2,700`, `0.06`, `1e4`."""
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e\d+)?", text)]


@pytest.fixture(scope="module")
def times():
    """A function to the median seconds of a solver at `discount 0.99, eps 1e-6`, or None."""
    with open(RESULTS / "vs_lp" / "targets.jsonl") as file:
        rows = [json.loads(line) for line in file]

    def seconds(solver, family, states, constraints=1, discount=0.99):
        wanted = {"solver": solver, "family": family, "states": states, "eps": 1e-6}
        wanted |= {"constraints": constraints, "discount": discount}
        own = [
            row["seconds"]
            for row in rows
            if row["finished"] and row["solved"] and all(row[key] == wanted[key] for key in wanted)
        ]
        return median(own) if own else None

    seconds.programs = sorted({row["solver"] for row in rows} - {"cmdpax", "storm"})
    seconds.families = sorted({row["family"] for row in rows})
    return seconds


def slower(times, *case, **more):
    """Our time over the best LP solver's on one kind of instance."""
    every = [times(solver, *case, **more) for solver in times.programs]
    return times("cmdpax", *case, **more) / min(one for one in every if one is not None)


def test_every_row_has_a_check():
    checked = {name.removeprefix("test_").replace("_", " ") for name in globals() if "test" in name}
    assert {name.lower() for name in CLAIMS} - checked == WITHOUT_RECORDS


def test_large_models(times):
    states, seconds, ratio, more, longer = numbers(CLAIMS["large models"])
    assert times("cmdpax", "garnet", int(states)) == pytest.approx(seconds, abs=0.005)
    assert 1 / slower(times, "garnet", int(states)) == pytest.approx(ratio, rel=0.02)
    assert times("cmdpax", "garnet", int(more)) == pytest.approx(longer, rel=0.05)


def test_storm(times):
    (ratio, *_) = numbers(CLAIMS["Storm"])
    measured = times("storm", "garnet", 10_000) / times("cmdpax", "garnet", 10_000)
    assert measured == pytest.approx(ratio, rel=0.06)


def test_small_models():
    """Of every cell of the grid up to that size, none left out."""
    least, most, low, high = numbers(CLAIMS["small models"])
    with open(RESULTS / "vs_lp" / "grid.jsonl") as file:
        rows = [json.loads(line) for line in file]
    peers = sorted({row["solver"] for row in rows} - {vs_lp_report.US, "storm"})
    best = vs_lp_report.ratios(rows, peers)
    small = {cell: one.ratio for cell, one in best.items() if least <= cell[1] <= most}
    assert len(small) == 3 * len(vs_lp_report.FAMILIES) * len(vs_lp_report.COUNTS)
    assert min(small.values()) == pytest.approx(low, abs=0.05)
    assert max(small.values()) == pytest.approx(high, rel=0.03)


def test_last_iterates():
    assert CLAIMS["last iterates"].startswith("all methods of the field on the same problems")
    for problem in PROBLEMS:
        study = ExactStudy(problem).read(RESULTS / "tabular")
        assert study.labels == [entry.label for entry in TABLE_ENTRIES]
        assert study.selected(0.01).keys() == set(study.labels)


def test_velocity_robots():
    """Over the paper's ten episodes, and over a hundred where they are recorded."""
    assert "over the paper's best on 3 tasks, cost < 25, " in CLAIMS["velocity robots"]
    study = DeepStudy(RESULTS / "deep")
    (_, _, *seeds) = numbers(CLAIMS["velocity robots"])  # "1 to 3 seeds" while a study goes on
    counts = [len(study.of(task, method)) for task in TASKS for method in OURS]
    assert (seeds[0], seeds[-1]) == (min(counts), max(counts))
    for task in TASKS:
        for method in OURS:
            cell = study.of(task, method)
            kinds = [[one.episodes() for one in cell]]
            if all(one.longer is not None for one in cell):
                kinds.append([one.episodes(evaluation=one.longer) for one in cell])
            for pairs in kinds:
                assert np.mean([gained.mean() for gained, _ in pairs]) > best_printed(task)
                assert np.mean([excess.mean() for _, excess in pairs]) < 0


def test_the_limit_of_the_robots_is_the_papers():
    assert {tuple(one.config["limits"]) for one in DeepStudy(RESULTS / "deep").records} == {
        (f"cost<={LIMIT:g}",)
    }


def test_the_records_are_small():
    total = sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file())
    assert total < LARGEST, f"{total / 1e6:.1f} MB"


def test_plain_least_squares_is_our_regression_where_nothing_is_given_up():
    """At a policy well inside the simplex, floor and ridge change nothing that matters."""
    model = deep_sea()
    form, features = StandardForm.of(model), Features(tiles(model.states, model.actions, 60, 4, 3))
    policies, x = LogLinear(features), 0.3 * np.random.default_rng(0).standard_normal(features.rank)
    policy = features.probabilities(x)
    share = form.criterion.share(form, form.transitions.by_choice(policy))
    values = np.random.default_rng(1).standard_normal(policy.shape)
    arguments = (x, share, policy, values)
    np.testing.assert_allclose(
        plain_least_squares.plain_natural_gradient(policies, *arguments),
        policies.natural_gradient(*arguments),
        rtol=1e-5,
        atol=1e-7,
    )


def test_plain_least_squares_is_what_the_page_says():
    """The finding on the log-linear page: 17 and 39 times as far from the optimum at d = 60."""
    lines = (RESULTS / "linear" / "plain-least-squares.md").read_text().splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    gaps = {(row[0], int(row[1]), row[3]): float(row[5]) for row in rows}
    ours, plain = "floor and ridge (ours)", "plain least squares"
    ratios = [gaps[title, 60, plain] / gaps[title, 60, ours] for title in PROBLEMS.values()]
    assert [round(one) for one in ratios] == [17, 39]
    page = (ROOT / "docs" / "reproduction-linear.md").read_text()
    assert "at d = 60 it is 17 and 39 times as far from the optimum" in page
