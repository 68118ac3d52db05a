from dataclasses import replace

import numpy as np
import pytest

from cmdpax.experiments.statistics import mean_interval
from cmdpax.paper import deep_figures
from cmdpax.paper.deep_records import Record
from cmdpax.paper.deep_study import DeepStudy
from cmdpax.paper.settings import LIMIT, RESULTS, TASKS, TITLES


@pytest.fixture
def study(tmp_path):
    """A function to a study of SPMA-ALM on Ant: seed i has the return and the cost 10 i."""

    def make(seeds):
        made = DeepStudy(tmp_path)
        for seed in range(seeds):
            config = {"environment": TASKS["Ant"], "limits": ["cost<=25"], "samples": 4_000}
            rows = [
                {"samples": 1_000 * n, "return": 10.0 * seed, "cost": {"cost": 10.0 * seed}}
                for n in range(1, 5)
            ]
            totals = {"cost": [LIMIT - 10.0 + 12 * seed, LIMIT - 8.0 + 12 * seed]}
            evaluation = {"stochastic": {"returns": [1.0, 2.0], "totals": totals}}
            made.records.append(Record("Ant", "spma-alm", seed, config, rows, evaluation, {}))
        return made

    return make


def words(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize(
    ("seeds", "legend"),
    [(1, "one seed: no interval"), (2, "both seeds"), (3, "95% interval"), (5, "95% interval")],
)
def test_bands_are_intervals_but_of_two_seeds_the_seeds(study, seeds, legend):
    figure = deep_figures.learning_curves(study(seeds), "Tasks", 5)
    axes = figure.axes[0]
    assert axes.get_lines()[0].get_ydata().tolist() == [5.0 * (seeds - 1)] * 4
    others = ["paper's final value (right edge)", "limit", "aim of training"]
    assert words(figure) == [*TITLES.values(), *others, legend]
    if seeds == 1:
        assert not axes.collections
        return
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    interval = mean_interval(10.0 * np.arange(seeds))
    wanted = (0.0, 10.0) if seeds == 2 else (interval.low, interval.high)
    assert (heights.min(), heights.max()) == pytest.approx(wanted)


def test_limit_and_paper_are_drawn_and_the_missing_is_said(study):
    made = study(2)
    made.failed = [{"task": "Ant", "method": "cpo", "seed": 0, "failed": "not finite"}]
    figure = deep_figures.learning_curves(made, "Velocity tasks", 5)
    returns, costs = figure.axes
    dashed = [line for line in costs.get_lines() if line.get_linestyle() == "--"]
    assert dashed[-1].get_ydata()[0] == LIMIT
    edges = returns.get_lines()[1:]
    assert [line.get_ydata()[0] for line in edges] == [RESULTS[name]["Ant"][0] for name in TITLES]
    assert len({line.get_marker() for line in edges}) == len(TITLES)  # told without colour
    assert returns.get_title() == "Ant\nnot run: PPO-ALM, PPO-Lag\nfailed: CPO (seed 0)"
    assert figure.get_suptitle() == (
        "Velocity tasks: 0.04% of the paper's samples, 2 seeds (paper: 100%, 5 seeds)"
        "\nnot run: HalfCheetah, Hopper"
    )


def test_a_curve_that_is_cut_is_marked_and_its_height_said(study):
    figure = deep_figures.learning_curves(study(20), "Tasks", None)  # the mean cost is 95
    costs = figure.axes[1]
    assert costs.get_ylim() == (0, 62.5)
    assert costs.get_title() == "axis cut at 62.5; marks on the edge: means up to\nSPMA-ALM 95"
    (marks,) = [line for line in costs.get_lines() if line.get_linestyle() == "None"]
    assert marks.get_ydata().tolist() == [62.5] * 4


def test_curves_that_are_cut_at_the_same_place_are_marked_in_turns(study):
    made = study(20)
    (_, *others) = TITLES
    made.records += [replace(one, method=other) for one in made.records for other in others]
    costs = deep_figures.learning_curves(made, "Tasks", None).axes[1]
    marks = [line for line in costs.get_lines() if line.get_linestyle() == "None"]
    places = [line.get_xdata().tolist() for line in marks]
    assert len({line.get_marker() for line in marks}) == len(TITLES)
    assert places == [[500.0], [1500.0], [2500.0], [3500.0]]


def test_every_limit_has_a_row_of_panels_and_its_aim(study):
    made = study(1)
    (record,) = made.records
    record.config["limits"] = ["cost<=25", "energy<=100"]
    for row in record.rows:
        row["cost"]["energy"], row["aim"] = 80.0, {"cost": 23.0, "energy": 95.0}
    figure = deep_figures.learning_curves(made, "Two limits", None)
    assert [axes.get_ylabel().split("\n")[0] for axes in figure.axes] == [
        *("episode return", "cost", "energy")
    ]
    energies = [line.get_ydata()[0] for line in figure.axes[2].get_lines()]
    assert energies == [80.0, 95.0, 100.0]
    words = "Two limits: 0.004e6 samples, 1 seed (not in the paper)\nnot run: HalfCheetah, Hopper"
    assert figure.get_suptitle() == words


def test_boxes_are_over_all_episodes_and_dots_over_seeds(study):
    figure = deep_figures.violations(study(2))
    by_marker = {
        line.get_marker(): np.asarray(line.get_ydata()).tolist()
        for line in figure.axes[0].get_lines()
        if line.get_marker() in "^."
    }
    assert by_marker["^"] == [-3.0] and by_marker["."] == [-9.0, 3.0]
    assert words(figure) == ["median", "mean", "mean of a seed", "limit", "aim of training"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["not run"] * 3
    assert "(paper: 100%, 10 seeds)" in figure.get_suptitle()  # of its caption


def test_an_ablation_has_a_line_for_each_value(study):
    made, row = (
        study(0),
        {"task": "Hopper", "method": "ppo-alm", "penalty": 0.1, "samples": 500_000},
    )
    made.lines["penalties"] = [
        {**row, "inner": inner, "seed": seed, "return": 1.0, "excess": 2.0}
        for inner in (1, 10)
        for seed in range(3)
    ]
    lost = {**row, "inner": 5, "seed": 0, "return": None, "excess": None, "failed": "not finite"}
    made.lines["penalties"].append(lost)
    figure = deep_figures.ablation(made, "penalties")
    lines = [f"penalty {value:g}" for value in (1e-4, 1e-3, 0.1, 1)]
    assert words(figure) == [*lines, "95% interval"]
    left, right = figure.axes[:2]
    assert [axes.get_title() for axes in (left, right)] == [
        "Hopper, SPMA-ALM",
        "Hopper, PPO-ALM (1 run failed)",
    ]
    assert [text.get_text() for text in left.texts] == ["not run"]
    assert left.get_ylim()[0] == 0 and left.get_ylim() == right.get_ylim()
    # evenly spaced: 1 is the first of K, 10 the third; the third of four lines is a little beside
    assert right.get_lines()[0].get_xdata() == pytest.approx([0.075, 2.075])
    assert figure.get_suptitle() == (
        "Penalty and K: 5% of the paper's samples, 3 seeds (paper: 100%, 10 seeds)"
        "\nnot run: HalfCheetah"
    )


def test_an_ablations_bars_are_intervals_and_where_a_seed_failed_the_two_others(study):
    made, row = (
        study(0),
        {"task": "Hopper", "method": "ppo-alm", "penalty": 0.1, "samples": 500_000},
    )
    made.lines["penalties"] = [
        {**row, "inner": inner, "seed": seed, "return": float(seed), "excess": 0.0}
        for inner, seeds in ((1, 3), (10, 2))
        for seed in range(seeds)
    ]
    figure = deep_figures.ablation(made, "penalties")
    (bars,) = figure.axes[1].collections
    ends = [path.vertices[:, 1].tolist() for path in bars.get_paths()]
    assert ends == [list(mean_interval([0.0, 1.0, 2.0])[1:]), [0.0, 1.0]]
    assert words(figure)[-1] == "95% interval or both seeds"
