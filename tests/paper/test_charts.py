import numpy as np
import pytest

from cmdpax.environments import cliff_world
from cmdpax.paper import charts
from cmdpax.solvers.trajectory import trajectory

WORK = np.arange(5)


def test_no_two_curves_look_alike():
    looks = {(s["linestyle"], s["marker"]) for s in map(charts.style, range(12))}
    assert len(looks) == 12


def test_one_column_per_method():
    curve = (WORK, np.linspace(1, -1, 5), np.zeros(5))
    figure = charts.side_by_side({"A": curve, "B": curve}, "title", 0.01)
    assert [axes.get_title() for axes in figure.axes[:2]] == ["A", "B"]
    assert "gap" in figure.axes[0].get_ylabel() and "violation" in figure.axes[2].get_ylabel()
    assert figure.axes[0].get_lines()[-1].get_ydata()[-1] == -1  # signed


def test_errors_below_rounding_are_drawn_at_the_floor():
    figure = charts.curves({"P": {"A": (WORK, np.array([1, 0.1, 0, -1, 1e-20]))}}, "error", "title")
    assert figure.axes[0].get_lines()[0].get_ydata().tolist() == [1, 0.1, *[charts.FLOOR] * 3]


def test_sensitivity_counts_steady_good_all_and_diverged():
    points = np.array(
        [[1e-3, 0, 0, 0], [1e-3, 0, 0, 0.5], [1e-3, 0, -0.5, 0], [-0.5, 0, 0, 0], [np.nan] * 4]
    )
    figure = charts.sensitivity({"P": {"A": points}}, 0.01, "title")
    assert "1/3/5, 1 diverged" in [text.get_text() for text in figure.axes[1].texts]


def test_rates_draw_measured_and_bound():
    line = (WORK + 1, np.full(5, 0.1), np.full(5, 2.0))
    figure = charts.rates({"P": {"gap": {"A": line}, "violation": {"A": line}}}, "title")
    measured, bound = figure.axes[0].get_lines()
    assert (
        measured.get_linestyle() == "-"
        and bound.get_linestyle() == "--"
        and (bound.get_ydata() == 2.0).all()
    )


def test_comparison_draws_gap_and_violation_of_every_run():
    model = cliff_world()
    runs = {
        "PQA-ALM": trajectory(model, "pqa-alm", outer=2, inner=5),
        "NPG-PD": trajectory(model, "npg-pd", steps=10),
    }
    left, right = charts.comparison(runs, 0.655402, "title").axes
    assert [line.get_label() for line in left.get_lines()[:2]] == ["PQA-ALM", "NPG-PD"]
    assert left.get_lines()[0].get_ydata()[0] == pytest.approx(0.655402 - 0.171924, abs=1e-6)
    assert right.get_lines()[0].get_ydata()[0] == pytest.approx(1.094389 - 0.17, abs=1e-6)
    assert left.get_lines()[0].get_linestyle() != left.get_lines()[1].get_linestyle()
