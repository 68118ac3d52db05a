from pathlib import Path

import numpy as np
import pytest

from cmdpax.paper import exact_figures
from cmdpax.paper.exact_study import ExactStudy
from cmdpax.paper.settings import PROBLEMS, RANDOM_PROBLEMS, TILES

RESULTS = Path(__file__).parents[2] / "results"
TABLES = [ExactStudy(problem).read(RESULTS / "tabular") for problem in PROBLEMS]
FEATURES = [
    ExactStudy(problem, tiles).read(RESULTS / "linear") for problem in PROBLEMS for tiles in TILES
]


def titles(figure):
    return [axes.get_title() for axes in figure.axes]


def test_al_converges_and_primal_dual_oscillates():
    left, right = exact_figures.first().axes
    al, primal_dual = (line.get_ydata() for line in right.get_lines()[:2])
    assert np.ptp(al[-200:]) < 1e-3
    assert np.ptp(primal_dual[-200:]) > 1e-2
    gap = left.get_lines()[0].get_ydata()
    assert abs(gap[-1]) < 1e-4 and len(gap) == 1001


@pytest.mark.parametrize(
    ("problem", "reward"), [("cliff-world", "0.655402"), ("deep-sea", "0.392671")]
)
def test_the_optimum_is_drawn_with_its_reward(problem, reward):
    assert reward in exact_figures.optimal_policy(problem).axes[0].get_title()


def test_the_selected_are_drawn_in_the_papers_order():
    figure = exact_figures.all_methods(TABLES[0])
    headings = [title.splitlines() for title in titles(figure)[:6]]
    assert [lines[0] for lines in headings] == list(exact_figures.LAST_ITERATE)
    assert headings[0][1:] == ["step 0.1"]  # what was selected stands below
    assert "axis linear within 0.001 of zero" in figure.get_suptitle()
    assert figure.get_suptitle().startswith("Cliff World: last-iterate methods, best of each grid")
    figure = exact_figures.selected(TABLES[1], 0.01, exact_figures.APPENDIX)
    first = [title.partition("\n")[0].rstrip(",") for title in titles(figure)[:8]]
    assert first == [label.partition(",")[0] for label in exact_figures.APPENDIX]
    row = TABLES[1].selected(0.01)["PQA-ALM"]
    assert figure.axes[0].get_lines()[-1].get_ydata().tolist() == row["gap"]


def test_with_features_the_class_optimum_is_marked():
    figure = exact_figures.selected(FEATURES[0], 0.001)
    assert len(figure.axes) == 2 * 8 and titles(figure)[-9].startswith(
        "Lin-PPO-Lag,\ndual every step\nstep "
    )
    best = FEATURES[0].class_optimum["gap"]
    assert all(axes.get_lines()[-1].get_ydata()[0] == best for axes in figure.axes[:8])
    assert "dashed: best policy in the class" in figure.get_suptitle()


def test_three_constraints_show_the_final_and_the_worst_late_error():
    studies = [ExactStudy(problem).read(RESULTS / "tabular") for problem in RANDOM_PROBLEMS]
    figure = exact_figures.three_constraints(*studies)
    row = studies[0].row(studies[0].selected(0.001)["PQA-ALM"])
    bar, final, worst = figure.axes[0].get_lines()[:3]
    assert list(bar.get_ydata()) == [abs(row["gap"]), row["worst_gap"]]
    assert (final.get_ydata()[0], worst.get_ydata()[0]) == (abs(row["gap"]), row["worst_gap"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["none"]  # of NPG-NRL
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == studies[0].labels


def test_what_is_drawn_as_certified_is_the_larger_of_gap_and_violation():
    row = TABLES[0].selected(0.001)["PQA-ALM"]
    (line,) = [
        line
        for line in exact_figures.certified(*TABLES).axes[0].get_lines()
        if line.get_label() == "PQA-ALM"
    ]
    larger = np.maximum(row["certified"], row["violation"])
    assert (line.get_ydata() == np.maximum(larger, 1e-10)).all()


def test_sensitivity_counts_what_the_table_counts():
    texts = [text.get_text() for text in exact_figures.sensitivity(*TABLES).axes[1].texts]
    lines = (RESULTS / "tabular" / "sensitivity.csv").read_text().splitlines()
    (row,) = [line.split(",") for line in lines if line.startswith("Cliff World,RPG-PD,")]
    tried, good, steady, diverged = row[2], row[3], row[4], row[6]
    assert f"{steady}/{good}/{tried}, {diverged} diverged" in texts


def test_every_method_has_a_mark_for_every_set_of_features():
    for axes in exact_figures.features(*FEATURES).axes:
        assert [line.get_label() for line in axes.get_lines()] == FEATURES[0].labels
        assert all(len(line.get_xdata()) == 3 for line in axes.get_lines())
        assert [text.get_text()[:6] for text in axes.get_xticklabels()] == [
            f"d = {dimension}" for dimension, _, _ in TILES
        ]


def test_projection_errors_have_two_lines_for_each_set_of_features():
    left, right = exact_figures.projection_errors(*FEATURES).axes
    labels = [line.get_label() for line in left.get_lines()]
    assert labels == [
        f"d = {d}: {part}" for d in (40, 60, 80) for part in ("class", "gradient steps")
    ]
    assert len(right.get_lines()) == 6
