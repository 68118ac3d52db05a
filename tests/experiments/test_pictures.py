import matplotlib.image
import numpy as np
import pytest

from cmdpax import CMDP, InputError, frontier_surface, solve
from cmdpax.environments import cliff_world, deep_sea, garnet, grid_world, queue
from cmdpax.experiments.pictures import frontier_picture, policy_picture, save, surface_picture
from cmdpax.solvers.frontier import frontier


@pytest.mark.parametrize(
    "model",
    [cliff_world(), deep_sea(), queue(capacity=12), garnet(states=80)],
    ids=["cliff", "sea", "queue", "garnet"],
)
def test_policy_pictures_are_drawn(model, tmp_path):
    figure = policy_picture(model, solve(model).policy, "a title")
    path = save(figure, tmp_path / "deep" / "policy.png")
    assert matplotlib.image.imread(path).shape[0] > 300
    axes = figure.axes[0]
    assert axes.get_title() == "a title"
    assert all(a.get_ylabel() for a in figure.axes) and figure.axes[-1].get_xlabel()


def test_with_a_horizon_a_bar_is_a_time():
    model = queue(capacity=5)
    stationary = {"discount": None, "horizon": 7, "thresholds": [100.0]}
    fields = {name: getattr(model, name) for name in ("reward", "constraints", "senses", "initial")}
    finite = CMDP(model.transitions, **fields, **stationary)
    figure = policy_picture(finite, finite.uniform_policy())
    assert figure.axes[1].get_xlabel() == "time"
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(heights, 1 / 7)  # one visit at each of seven times


def test_an_arrow_is_as_long_as_its_probability():
    model = cliff_world()
    figure = policy_picture(model, model.uniform_policy())
    arrows = [
        text for text in figure.axes[0].texts if getattr(text, "arrow_patch", None) is not None
    ]
    assert len(arrows) == 19 * 4  # no arrow in the goal and in the end
    lengths = {round(max(abs(t.xy[0] - t.xyann[0]), abs(t.xy[1] - t.xyann[1])), 6) for t in arrows}
    assert lengths == {0.11}


def test_frontier_picture():
    figure = frontier_picture(frontier(queue(capacity=10), points=4), "energy", "<=", current=2.0)
    assert "energy" in figure.axes[0].get_xlabel() and "price" in figure.axes[1].get_ylabel()
    with pytest.raises(InputError, match="no points"):
        frontier_picture([], "energy", "<=")


@pytest.mark.parametrize("size", [5, 32])
def test_visits_stand_beside_the_policy_as_a_heat_map(size):
    model = grid_world(size, size)
    figure = policy_picture(model, model.uniform_policy(), heat=True)
    heat = next(axes for axes in figure.axes if axes.get_title() == "visits")
    shades = heat.images[0].get_array()
    assert shades.shape[0] == size and (shades.compressed() > 0).all()
    assert shades.mask.sum() > 0  # where everything ends there is no shade


def test_surface_picture():
    model = garnet(states=6, constraints=2)
    regions = frontier_surface(model)
    figure = surface_picture(regions, model.constraint_names, model.thresholds)
    assert [axes.get_title() for axes in figure.axes[:3]] == [
        "best reward $V_r^*$",
        "shadow price of 'c0'",
        "shadow price of 'c1'",
    ]
    assert len(figure.axes[1].collections[0].get_paths()) == len(regions)
    with pytest.raises(InputError, match="no regions"):
        surface_picture([], ("a", "b"))
