import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, Rectangle

from cmdpax import CMDP, solve
from cmdpax.environments import cliff_world, deep_sea, garnet, grid_world, queue
from cmdpax.experiments.pictures import STYLES, save
from cmdpax.experiments.policy_pictures import FAINT, policy_picture


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


@pytest.mark.parametrize("size", [5, 32])
def test_visits_stand_beside_the_policy_as_a_heat_map(size):
    model = grid_world(size, size)
    figure = policy_picture(model, model.uniform_policy(), heat=True)
    heat = next(axes for axes in figure.axes if axes.get_title() == "visits")
    shades = heat.images[0].get_array()
    assert shades.shape[0] == size and (shades.compressed() > 0).all()
    assert shades.mask.sum() > 0  # where everything ends there is no shade


def ring(names, actions=("stay", "on"), states=4):
    """A ring of states: stay, or go on; state 0 is the first, the last is never reached."""
    P = np.zeros((states, 2, states))
    P[range(states), 0, range(states)] = 1.0
    P[range(states), 1, [1, 2, 0, 0][:states]] = 1.0
    reward = np.zeros((states, 2))
    return CMDP(
        P, reward, [], [], 0, 0.9, senses=None, state_names=names, action_names=list(actions)
    )


def test_states_with_two_coordinates_are_a_table_of_cells():
    model = ring(["(0, 'dry')", "(0, 'wet')", "(10, 'dry')", "(2, 'wet')"])
    policy = np.array([[0.0, 1.0], [0.3, 0.7], [0.0, 1.0], [1.0, 0.0]])
    axes = policy_picture(model, policy).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "2", "10"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["dry", "wet"]
    numbers = {text.get_position(): text.get_text() for text in axes.texts}
    assert numbers == {(0, 0): "1", (0, 1): "1/0", (2, 0): "1", (1, 1): "0"}
    boxes = {box.get_xy(): box for box in axes.patches if isinstance(box, Rectangle)}
    assert to_hex(boxes[-0.5, -0.5].get_facecolor()) == STYLES[1]["color"]
    assert boxes[0.5, 0.5].get_facecolor()[3] == pytest.approx(0.8 * FAINT)  # nobody goes there
    assert boxes[-0.5, -0.5].get_facecolor()[3] > 1.6 * FAINT
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["0  stay", "1  on"]


def test_named_states_are_a_network():
    model = ring(["new", "worn", "broken", "sold"])
    policy = np.array([[0.25, 0.75], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    figure = policy_picture(model, policy)
    axes = figure.axes[0]
    assert len([disc for disc in axes.patches if isinstance(disc, Circle)]) == 3  # not the last
    texts = {text.get_text() for text in axes.texts}
    assert {"new", "worn", "broken", "on 0.75\nstay 0.25", "on"} <= texts and "sold" not in texts
    arrows = [text for text in axes.texts if getattr(text, "arrow_patch", None) is not None]
    assert len(arrows) == 3 and "3 of 4 states" in axes.get_title()


def test_where_there_are_too_many_arrows_bars_are_drawn():
    model = garnet(states=12, branching=12).replace(state_names=[f"s{i}" for i in range(12)])
    assert policy_picture(model, model.uniform_policy()).axes[1].get_ylabel().startswith("prob")


def test_bars_show_what_is_used_and_fade_what_is_not_visited():
    model = ring([f"{i} in stock" for i in range(4)], actions=("wait", "order"))
    policy = np.array([[0.0, 1.0]] * 4)
    below = policy_picture(model, policy).axes[1]
    assert [text.get_text() for text in below.get_legend().get_texts()] == ["order"]
    shades = [bar.get_alpha() for bar in below.patches]
    assert shades[3] == FAINT and min(shades[:3]) >= 2 * FAINT
