"""Models from functions and tables: the arrays that they mean, and what is wrong with those that
mean nothing.
"""

from typing import Any

import gymnasium
import numpy as np
import pytest

from cmdpax import CMDP, InputError
from cmdpax.exact.discounted import evaluate


def repair_step(state: str, action: str) -> tuple[dict[str, float], float, list[float]]:
    if state == "broken":
        return {"works": 1.0}, -5.0, [1.0]
    return (
        {"works": 0.9, "broken": 0.1} if action == "run" else {"works": 1.0},
        1.0 if action == "run" else 0.0,
        [0.0],
    )


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
    assert (model.state_names, model.action_names) == (
        ("works", "broken"),
        ("run", "rest", "repair"),
    )
    np.testing.assert_array_equal(model.available, [[True, True, False], [False, False, True]])
    np.testing.assert_allclose(model.tensor[0, :2], [[0.9, 0.1], [1.0, 0.0]])
    np.testing.assert_array_equal(
        model.tensor[1], [[1.0, 0.0]] * 3
    )  # all three are copies of "repair"
    np.testing.assert_array_equal(model.constraints[0, 1], [-1.0] * 3)
    np.testing.assert_array_equal(model.thresholds, [-1.0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"actions": lambda state: []},
            r"state 'works': the action set is empty; every state needs at least one action\.",
        ),
        (
            {"states": ["works", "broken", "works"]},
            r"states: 3 given, but only 2 differ; list each once\.",
        ),
        (
            {"step": lambda s, a: ({"gone": 1.0}, 0.0, [0.0])},
            r"step\('works', \.\.\.\): successor 'gone' is not one of the 2 states\.",
        ),
        (
            {"step": lambda s, a: ({"works": 1.0}, 0.0, [])},
            r"step\('works', 'run'\): 0 constraint rewards for 1 thresholds",
        ),
        (
            {"step": lambda s, a: ({"works": 1.0}, 0.0)},
            r"step\('works', 'run'\): return \(\{next_state: probability\}, reward",
        ),
        (
            {"step": lambda s, a: (None, 0.0, [0.0])},
            r"step\('works', 'run'\): return \(\{next_state: probability\}, reward",
        ),
        ({"step": lambda s, a: ({"works": 1.0}, "much", [0.0])}, r"step\('works', 'run'\): return"),
        (
            {"step": lambda s, a: ({"works": "likely"}, 0.0, [0.0])},
            r"probability of 'works': 'likely' is not a finite number",
        ),
        ({"initial": {"gone": 1.0}}, r"initial: 'gone' is not one of the states\."),
        ({"initial": {"works": "yes"}}, r"initial, state 'works': 'yes' is not a finite number\."),
    ],
)
def test_from_step_explains_what_is_wrong(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        repair(**changes)


def frozen_lake() -> Any:
    return gymnasium.make("FrozenLake-v1", is_slippery=True)


def hole(s: int, a: int, following: int) -> float:
    return float(following in (5, 7, 11, 12))


def test_from_toy_text_has_the_values_of_the_table() -> None:
    """Values of a random policy, against plain iteration on the environment's own table."""
    env, discount = frozen_lake(), 0.95
    model = CMDP.from_toy_text(env, hole, limit=0.1, discount=discount, cost_name="holes")
    assert (model.states, model.senses, model.constraint_names, model.state_names[-1]) == (
        17,
        ("<=",),
        ("holes",),
        "end",
    )  # type: ignore[index]
    policy = np.random.default_rng(0).dirichlet(np.ones(4), size=17)
    V, C = np.zeros(16), np.zeros(16)
    for _ in range(800):
        new_V, new_C = np.zeros(16), np.zeros(16)
        for s in range(16):
            for a in range(4):
                for p, following, gain, terminated in env.unwrapped.P[s][a]:
                    stays = discount * (not terminated)
                    new_V[s] += policy[s, a] * p * (gain + stays * V[following])
                    new_C[s] += policy[s, a] * p * (hole(s, a, following) + stays * C[following])
        V, C = new_V, new_C
    found = evaluate(model, policy)
    np.testing.assert_allclose(found.values[0, :16], V, atol=1e-12)
    np.testing.assert_allclose(found.values[1, :16], -C, atol=1e-12)
    assert found.values[0, 16] == 0
    assert float(found.margins[0]) == pytest.approx(0.1 - C[0], abs=1e-12)


def test_from_toy_text_explains_what_is_wrong() -> None:
    with pytest.raises(InputError, match=r"no transition table `unwrapped\.P`"):
        CMDP.from_toy_text(gymnasium.make("CartPole-v1"), hole, limit=0.1, discount=0.9)
    with pytest.raises(InputError, match=r"initial: shape \(3,\), expected \(17,\)"):
        CMDP.from_toy_text(frozen_lake(), hole, limit=0.1, discount=0.9, initial=[1.0, 0.0])
    with pytest.raises(InputError, match=r"cost\(0, 0, 0\): nan is not a finite number"):
        CMDP.from_toy_text(frozen_lake(), lambda s, a, t: np.nan, limit=0.1, discount=0.9)
    with pytest.raises(InputError, match=r"cost\(0, 0, 0\): None is not a finite number"):
        CMDP.from_toy_text(frozen_lake(), lambda s, a, t: None, limit=0.1, discount=0.9)  # type: ignore[arg-type,return-value]


def test_from_step_says_what_it_wants() -> None:
    arguments: dict[str, Any] = {"thresholds": [], "initial": {"a": 1.0}, "discount": 0.5}
    with pytest.raises(InputError, match="they are the text 'go'; give a list"):
        CMDP.from_step(
            ["a"], lambda state: "go", lambda state, action: ({"a": 1.0}, 0.0, []), **arguments
        )
    with pytest.raises(InputError, match="give a mapping of states to probabilities"):
        CMDP.from_step(
            ["a"],
            ["go"],
            lambda state, action: ({"a": 1.0}, 0.0, []),
            **{**arguments, "initial": [1.0]},
        )
    assert (
        CMDP.from_step(
            iter(["a"]), ["go"], lambda state, action: ({"a": 1.0}, 0.0, []), **arguments
        ).states
        == 1
    )
