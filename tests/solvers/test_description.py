import json

import numpy as np
import pytest
from hypothesis import given, settings

from cmdpax import CMDP, InputError, describe
from cmdpax.environments import cliff_world, inventory, queue
from models import build, cmdps, large_path, uneven


def test_sizes_and_components_of_a_small_model():
    """0 -> 1 <-> 2, 1 -> 3, which stays; 4 is never reached."""
    rows = [[{1: 1.0}], [{2: 1.0}, {3: 1.0}], [{1: 0.5, 2: 0.5}], [{3: 1.0}], [{0: 1.0}]]
    model = CMDP(rows, [0.0, 1, 2, 0, 9, 5], [], [], 0, 0.5)
    seen = describe(model)
    assert seen.sizes == {
        "states": 5,
        "actions": 2,
        "choices": 6,
        "entries": 7,
        "constraints": 0,
        "criterion": "discounted",
        "discount": 0.5,
        "components": 4,
        "largest_component": 2,
        "states_in_cycles": 2,
        "states_that_may_stay": 2,
        "reachable_states": 4,
        "states_with_one_choice": 4,
    }
    (reward,) = seen.series
    assert (reward.name, reward.least, reward.most) == ("reward", 0.0, 9.0)
    # to 3: V(1) = 2 + 18 / 2; round and round: V(2) = V(1) / 3, V(1) = 1 + V(2) / 2
    assert reward.high == pytest.approx(5.5) and reward.low == pytest.approx(0.6)
    assert seen.odd == ("state 4 is never reached",)


@settings(max_examples=25)
@given(cmdps(constraints=(1, 2), states=12))
def test_values_of_policies_lie_in_the_attainable_ranges(model):
    from cmdpax.exact.standard import StandardForm

    form, rng = StandardForm.of(model), np.random.default_rng(0)
    seen = describe(model)
    with large_path():
        again = describe(model)
    for one, other in zip(seen.series, again.series):
        size = 1e-5 * max(1e-300, one.most - one.least) / (1 - model.discount) + 1e-9
        assert abs(one.low - other.low) + abs(one.high - other.high) <= size
    for _ in range(3):
        policy = rng.dirichlet(np.ones(model.actions), model.states)
        rows = np.stack([model.reward, *model.constraints])
        values = form.criterion.values(form, model.by_choice(policy), rows) @ model.initial
        for one, value in zip(seen.series, values):
            room = 1e-5 * (one.high - one.low) + 1e-9 * (1 + abs(value))
            assert one.low - room <= value <= one.high + room


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (queue(10, feasible=False), "energy: no policy keeps"),
        (cliff_world(threshold=-50.0), "chasm: every policy keeps chasm>=-50"),
        (build("random", 5, 1, 2, 0.9, 0), "no state has a choice: there is one policy"),
        (uneven(9, 1).replace(reward=np.full(uneven(9, 1).choices, 3.0)), "every choice pays 3"),
        (cliff_world().replace(reward=1e12 * cliff_world().reward), "numbers up to 1e+12 cost"),
        (CMDP([[[1 - 3e-9]]], [[1.0]], [], [], 0, 0.9), "rows missed a sum of 1 by up to 3e-09"),
    ],
)
def test_what_is_odd_is_said(model, sentence):
    assert any(sentence in one for one in describe(model).odd)


def test_prints_and_plain_numbers():
    seen = describe(queue(10))
    text = str(seen)
    assert "states in cycles" in text and "attainable from" in text and "energy<=" in text
    assert "<table>" in seen._repr_html_()
    assert json.loads(json.dumps(seen.as_json()))["series"][1]["name"] == "energy"


def test_what_has_no_end_and_no_discount_is_said_in_plain_json():
    """A cycle that costs: any value from -2 down is attained. An average has no discount."""
    rows = [[{0: 0.5, 1: 0.5}, {0: 1.0}], [{1: 1.0}]]
    total = describe(CMDP(rows, [-1.0, -2.0, 0.0], [], [], 0, 1.0))
    assert total.series[0].low == -np.inf and "-inf" in str(total)
    (reward,) = json.loads(json.dumps(total.as_json(), allow_nan=False))["series"]
    assert reward["low"] is None and reward["high"] == pytest.approx(-2.0)
    average = describe(CMDP(rows, [1.0, 2.0, 0.0], [], [], 0, criterion="average"))
    assert "discount" not in average.sizes and average.sizes["criterion"] == "average"


@pytest.mark.parametrize("model", [None, 5, "queue"])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(InputError, match="model: a CMDP is needed, not "):
        describe(model)


def test_rounding_is_no_attainable_value():
    lost = describe(inventory()).series[1]  # a plan finds -9e-14
    assert lost.low == 0.0 and not np.signbit(lost.low) and lost.high > 400
