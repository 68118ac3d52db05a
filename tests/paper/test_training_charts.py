import numpy as np
import pytest

from cmdpax.experiments.statistics import mean_interval
from cmdpax.paper import training_charts

X = np.arange(4.0)


def curves(seeds):
    """Seed i has the value 10 i everywhere."""
    return X, np.repeat(10.0 * np.arange(seeds)[:, None], 4, axis=1)


def drawn(seeds):
    panels = {quantity: {"Hopper": {"A": curves(seeds)}} for quantity in ("return", "cost")}
    marks = {quantity: {"Hopper": {"A": 5.0}} for quantity in panels}
    return training_charts.learning_curves(panels, ["A", "B"], marks, 25.0, "title")


def words(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize(
    ("seeds", "legend"), [(1, None), (2, "both seeds"), (3, "95% interval"), (5, "95% interval")]
)
def test_bands_are_intervals_but_of_two_seeds_the_seeds(seeds, legend):
    figure = drawn(seeds)
    axes = figure.axes[0]
    assert axes.get_lines()[0].get_ydata().tolist() == [5.0 * (seeds - 1)] * 4
    assert words(figure) == [
        "A",
        "B",
        "paper's final value (right edge)",
        *([legend] if legend else []),
    ]
    if seeds == 1:
        assert not axes.collections
        return
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    interval = mean_interval(10.0 * np.arange(seeds))
    wanted = (0.0, 10.0) if seeds == 2 else (interval.low, interval.high)
    assert (heights.min(), heights.max()) == pytest.approx(wanted)


def test_the_limit_is_drawn_and_the_missing_is_said():
    figure = drawn(2)
    returns, costs = figure.axes
    assert [line.get_ydata()[0] for line in costs.get_lines() if line.get_linestyle() == "--"][
        -1
    ] == 25.0
    assert "no records: B" in [text.get_text() for text in returns.texts]


def test_boxes_are_over_all_episodes_and_dots_over_seeds():
    seeds = [np.array([-10.0, -8.0]), np.array([2.0, 4.0])]
    figure = training_charts.box_plot({"Hopper": {"A": seeds}}, ["A", "B"], "title")
    lines = figure.axes[0].get_lines()
    by_marker = {
        line.get_marker(): np.asarray(line.get_ydata()).tolist()
        for line in lines
        if line.get_marker() in "^."
    }
    assert by_marker["^"] == [-3.0] and by_marker["."] == [-9.0, 3.0]
    assert words(figure) == ["median", "mean", "mean of a seed"]
    assert "no records" in [text.get_text() for text in figure.axes[0].texts]


def test_an_ablation_has_a_line_for_each_value():
    panels = {
        ("Ant", "A"): {
            quantity: {0.1: (np.array([1, 10]), np.ones((3, 2)))}
            for quantity in ("return", "excess")
        }
    }
    figure = training_charts.ablation(
        panels, ["Ant"], ["A"], "penalty", [0.1, 1.0], [1, 5, 10], "title"
    )
    assert words(figure) == ["penalty 0.1", "penalty 1", "95% interval"]
    assert figure.axes[0].get_lines()[0].get_xdata().tolist() == [
        0,
        2,
    ]  # evenly spaced: 1 is the first, 10 the third
