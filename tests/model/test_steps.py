"""A function of a state and an action makes a model, and every mistake in it gets one sentence."""

from typing import Any

import numpy as np
import pytest

from cmdpax import CMDP, InputError


def repair_step(state: str, action: str) -> tuple[dict[str, float], float, list[float]]:
    if state == "broken":
        return {"works": 1.0}, -5.0, [1.0]
    if action == "run":
        return {"works": 0.9, "broken": 0.1}, 1.0, [0.0]
    return {"works": 1.0}, 0.0, [0.0]


def repair(**changes: Any) -> CMDP:
    arguments: dict[str, Any] = {
        "states": ["works", "broken"],
        "actions": lambda state: ["run", "rest"] if state == "works" else ["repair"],
        "step": repair_step,
        "thresholds": [1.0],
        "initial": {"works": 1.0},
        "discount": 0.9,
        "senses": ["<="],
        "constraint_names": ["repairs"],
    }
    return CMDP.from_step(**{**arguments, **changes})


def test_from_step_with_actions_that_depend_on_the_state() -> None:
    model = repair()
    assert model.state_names == ("works", "broken")
    assert model.action_names == ("run", "rest", "repair")
    np.testing.assert_array_equal(model.available, [[True, True, False], [False, False, True]])
    tensor = model.transitions.tensor
    np.testing.assert_allclose(tensor[0, :2], [[0.9, 0.1], [1.0, 0.0]])
    np.testing.assert_array_equal(tensor[1], [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(model.constraints, [[0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(model.thresholds, [1.0])


def test_from_step_begins_in_a_state_and_ends_in_a_goal() -> None:
    assert repair(initial="works").digest == repair().digest
    done = repair(goal="broken")
    assert done.transitions.tensor[1, 0].tolist() == [0.0, 1.0] and done.reward[2] == 0.0


def test_from_step_takes_every_sense() -> None:
    model = repair(thresholds=[(0.5, 1.0)], senses=None, minimise=True)
    assert (model.senses, model.minimise) == (("in",), True)
    np.testing.assert_array_equal(model.thresholds, [[0.5, 1.0]])


def test_from_step_takes_any_iterable_of_states() -> None:
    def step(state: str, action: str) -> tuple[dict[str, float], float, list[float]]:
        return {"a": 1.0}, 0.0, []

    given = {"thresholds": [], "initial": {"a": 1.0}, "discount": 0.5}
    assert CMDP.from_step(iter(["a"]), ["go"], step, **given).states == 1  # type: ignore[arg-type]


RETURN = r"step\('works', 'run'\): return \(\{next_state: probability\}, reward, \[constraint"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"actions": lambda state: []}, r"state 'works': the action set is empty; every state"),
        ({"actions": lambda state: "go"}, r"state 'works' has the text 'go'; give a list\."),
        ({"states": ["works", "broken", "works"]}, r"states: 3 given, 2 differ; list each once\."),
        (
            {"step": lambda s, a: ({"gone": 1.0}, 0.0, [0.0])},
            r"step\('works', 'run'\): successor 'gone' is not one of the states\.",
        ),
        (
            {"step": lambda s, a: ({"works": 1.0}, 0.0, [])},
            r"step\('works', 'run'\) returned 0 constraint values; return a list of 1\.",
        ),
        (
            {"step": lambda s, a: ({"works": 1.0}, 0.0, 2.0)},
            r"returned the number 2\.0 as its constraint values; return a list of 1, as in \[2\.0",
        ),
        ({"step": lambda s, a: ({"works": 1.0}, 0.0)}, RETURN),
        ({"step": lambda s, a: (None, 0.0, [0.0])}, RETURN),
        ({"step": lambda s, a: ({"works": 1.0}, "much", [0.0])}, RETURN),
        ({"step": lambda s, a: ({"works": 1.0}, 0.0, ["much"])}, RETURN),
        (
            {"step": lambda s, a: ({"works": "likely"}, 0.0, [0.0])},
            r"probability of 'works': 'likely' is not a finite number",
        ),
        ({"initial": {"gone": 1.0}}, r"initial: 'gone' is not one of the states\."),
        ({"initial": {"works": "yes"}}, r"initial, state 'works': 'yes' is not a finite number\."),
        ({"initial": [1.0]}, r"initial: give a state, or probabilities of states"),
    ],
)
def test_from_step_explains_what_is_wrong(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        repair(**changes)
