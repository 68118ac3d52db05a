"""Random models of every criterion: no claim of `solve` is false in rational numbers.

Degenerate, near-infeasible, badly scaled, with offsets, equalities, ranges and zero budgets. Each
is solved; what the result claims is then compared with an exact linear program and exact policy
iteration (`tests/rational.py`). A criterion is one row of `CRITERIA`.

`python benchmarks/rational_campaign.py` judges 10,000 of them.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from cmdpax import CMDP, check, solve
from cmdpax.errors import CmdpaxError, NumericalError
from cmdpax.exact.standard import StandardForm
from models import turned
from rational import ONE, ZERO, Rational, falsehoods, real

Fields = dict[str, Any]
ORDINARY = (0.0, 1e-9, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
DISCOUNTS = (*ORDINARY, 1 - 1e-6, 1 - 1e-7, 1 - 1e-9)
FEW, MANY = 20, 2500  # models of each criterion
UNDECIDED = 0.01  # share that may end so


def chances(rng: np.random.Generator, shape: tuple[int, ...], states: int) -> np.ndarray:
    """Distributions over states `[*shape, states]`: dense, sparse, certain, or nearly so."""
    kind = rng.choice(["dense", "sparse", "certain", "nearly"])
    if kind == "dense":
        return rng.dirichlet(np.ones(states), shape)
    picks = rng.integers(0, states, (*shape, 2))
    share = {"sparse": rng.random(shape), "certain": np.zeros(shape)}.get(kind)
    if share is None:
        share = 10.0 ** rng.uniform(-300 if rng.random() < 0.2 else -16, -6, shape)
    rows, eye = np.zeros((*shape, states)), np.eye(states)
    return (
        rows + (1 - share)[..., None] * eye[picks[..., 0]] + share[..., None] * eye[picks[..., 1]]
    )


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One function: normal, with ties, constant, with a few huge costs, scaled or shifted."""
    kind = rng.choice(["normal", "ties", "constant", "costs", "scaled", "shifted"])
    array = rng.normal(size=shape)
    if kind == "ties":
        array = rng.integers(-1, 2, shape).astype(float)
    elif kind == "constant":
        array[...] = rng.choice([0.0, 1.0, -3.5, 1e9])
    elif kind == "costs":
        array[rng.random(shape) < 0.2] = -(10.0 ** rng.uniform(3, 9))
    elif kind == "scaled":
        array *= 10.0 ** rng.uniform(-12, 12)
    elif kind == "shifted":
        array += rng.choice([-1e9, 1e9, 1e6, 1e3])
    return array


def discounted(rng: np.random.Generator) -> Fields:
    S, A, m = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(0, 4))
    fields: Fields = {"transitions": chances(rng, (S, A), S), "reward": numbers(rng, (S, A))}
    fields["constraints"] = np.array([numbers(rng, (S, A)) for _ in range(m)]).reshape(m, S, A)
    fields["discount"] = float(rng.choice(DISCOUNTS))
    fields["initial"] = rng.dirichlet(np.ones(S)) if rng.random() < 0.7 else int(rng.integers(S))
    if rng.random() < 0.3:
        fields["available"] = rng.random((S, A)) < 0.7
        fields["available"][:, int(rng.integers(A))] = True
    return fields


def total(rng: np.random.Generator) -> Fields:
    """The same with a goal: every choice may end there, or leads to later states only."""
    fields = discounted(rng)
    P = fields["transitions"]
    S, A, _ = P.shape
    kind = rng.choice(["often", "seldom", "later"])
    leak = rng.uniform(0.05, 1, (S, A)) if kind == "often" else 10.0 ** rng.uniform(-5, 0, (S, A))
    moves = np.zeros((S + 1, A, S + 1))
    moves[:S, :, :S], moves[:S, :, S] = P * (1 - leak)[..., None], leak
    if kind == "later":
        own = np.arange(S + 1)
        moves = np.where(own[None, None, :] > own[:, None, None], moves + 1e-3, 0.0)
    moves[S, :, S] = 1.0
    fields["transitions"] = moves / moves.sum(-1, keepdims=True)
    for name in ("reward", "constraints"):
        array = fields[name]
        fields[name] = np.concatenate([array, np.zeros_like(array[..., :1, :])], -2)
    if not isinstance(fields["initial"], int):
        fields["initial"] = np.append(fields["initial"], 0.0)
    if "available" in fields:
        fields["available"] = np.vstack([fields["available"], np.ones((1, A), bool)])
    return {**fields, "goal": S, "discount": 1.0}


def average(rng: np.random.Generator) -> Fields:
    """The long run: moves to few states, often with places that are never left."""
    fields = discounted(rng)
    del fields["discount"]
    S = len(fields["reward"])
    if S > 2 and rng.random() < 0.5:  # walls
        wall = int(rng.integers(1, S))
        P = fields["transitions"]
        P[:wall, :, wall:] = 0.0
        P[np.arange(wall), :, np.arange(wall)] += 1e-3
        fields["transitions"] = P / P.sum(-1, keepdims=True)
    return {**fields, "criterion": "average"}


def finite(rng: np.random.Generator) -> Fields:
    """So many steps; half of the time each step has transitions and rewards of its own."""
    fields, H = discounted(rng), int(rng.integers(1, 5))
    S, A = fields["reward"].shape
    if rng.random() < 0.5:
        fields["transitions"] = np.stack([chances(rng, (S, A), S) for _ in range(H)])
        fields["reward"] = numbers(rng, (H, S, A))
        m = len(fields["constraints"])
        fields["constraints"] = np.array([numbers(rng, (H, S, A)) for _ in range(m)])
        fields["constraints"] = fields["constraints"].reshape(m, H, S, A)
    if rng.random() < 0.7:
        fields["discount"] = 1.0
    return {**fields, "horizon": H}


CRITERIA: dict[str, Callable[[np.random.Generator], Fields]] = {
    "discounted": discounted,
    "total": total,
    "finite": finite,
    "average": average,
}


def limited(rng: np.random.Generator, fields: Fields) -> CMDP:
    """The model with limits around what one random policy attains, or at the edge, or far off."""
    m = len(fields["constraints"])
    is_zero = rng.random(m) < 0.15  # nothing of it may be paid
    fields["constraints"][is_zero] = np.abs(fields["constraints"][is_zero])
    model = CMDP(**fields, thresholds=[(0.0, 0.0)] * m)
    exact = Rational(model)
    *shape, A = model.policy_shape
    table = rng.dirichlet(np.full(A, 0.5), shape)
    if rng.random() < 0.3:
        table = np.eye(A)[rng.integers(0, A, shape)]
    policy = model.as_table(model.by_choice(table))
    visits = exact.visits(exact.policy(policy))
    pairs = []
    for i, (row, ends) in enumerate(zip(exact.functions[1:], exact.ranges[1:])):
        value = real(sum((n * x for n, x in zip(visits, row)), ZERO))
        low, high = map(real, ends)
        width, kind = high - low, rng.choice(["loose", "met", "edge", "far", "range", "equal"])
        pair = {
            "loose": (value - rng.uniform(-0.02, 0.3) * width, np.inf),
            "met": (value, np.inf),
            "edge": (high + rng.choice([-1, 0, 1]) * 10.0 ** rng.uniform(-12, -3) * width, np.inf),
            "far": (
                high + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-1, 12) * (width or 1),
                np.inf,
            ),
            "range": (
                value - rng.uniform(0, 0.1) * width,
                value + 10.0 ** rng.uniform(-9, 0) * width,
            ),
            "equal": (value, value),
        }[kind]
        pairs.append((-np.inf, 0.0) if is_zero[i] else pair)
    model = model.replace(thresholds=pairs, senses=None)
    return turned(model, rng.random(m) < 0.5, bool(rng.random() < 0.5))


def judged(criterion: str, seed: int) -> tuple[str, list[str], str]:
    """The status of one model, what is false about its result, and why it has no verdict.

    The checker verifies it too. A model that is refused because a run goes on for more steps than a
    number has digits counts as undecided.
    """
    rng = np.random.default_rng([list(CRITERIA).index(criterion), seed])
    model = limited(rng, CRITERIA[criterion](rng))
    try:
        result = solve(model, time_limit=60)
        check(model, result)
    except NumericalError as error:
        return "limit", [], str(error)
    except CmdpaxError as error:
        return type(error).__name__, [str(error)], ""
    return result.status, falsehoods(model, result), result.reason


def campaign(criterion: str, seeds: range) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    wrong = []
    for seed in seeds:
        status, sentences, _ = judged(criterion, seed)
        counts[status] += 1
        wrong += [f"{criterion}, seed {seed}: {sentence}" for sentence in sentences]
    return counts, wrong


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_few_models_make_no_false_claim(criterion):
    counts, wrong = campaign(criterion, range(FEW))
    assert not wrong and counts["limit"] <= 1, (counts, wrong)


@pytest.mark.parametrize(
    ("criterion", "seed"),
    [
        ("discounted", 67),  # 1e7 where nobody goes: both sides of an equality differed
        ("discounted", 177),
        ("discounted", 314),  # 1e7 that is hardly ever met: its rounding was all
        ("discounted", 1994),
        ("average", 274),  # a price of 5,000 in its unit: planning repeated itself
        ("average", 1054),  # one policy has not the values of two, but for rounding
        ("average", 2326),  # a reward that was no number, of a policy that takes 1e15 steps
    ],
)
def test_models_that_once_had_no_verdict(criterion, seed):
    status, wrong, _ = judged(criterion, seed)
    assert status in ("certified", "infeasible") and not wrong


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
def test_thousands_of_models_make_no_false_claim(criterion, capsys):
    counts, wrong = campaign(criterion, range(MANY))
    with capsys.disabled():
        print(f"\n{criterion}: {dict(counts)}, {len(wrong)} false claims")
    assert not wrong, wrong
    assert counts["limit"] <= UNDECIDED * MANY, counts


@pytest.mark.parametrize("seed", range(6))
def test_mixtures_of_deterministic_policies_are_the_program_of_all_chains(seed):
    """Derman's theorem, which the rational optimum of averages rests on."""
    rng = np.random.default_rng(seed)
    parts = few(rng), rng.normal(size=(5, 3)), rng.normal(size=(1, 5, 3)), [-0.1], 0
    model = CMDP(*parts, criterion="average")
    rows, K, own = model.transitions, model.choices, np.eye(5)[model.transitions.state_of].T
    flow = own - rows.matrix.toarray().T
    program = linprog(
        np.append(-model.reward, np.zeros(K)),
        A_ub=[np.append(-model.constraints[0], np.zeros(K))],
        b_ub=[0.1],
        A_eq=np.vstack([np.hstack([flow, np.zeros((5, K))]), np.hstack([own, flow])]),
        b_eq=np.append(np.zeros(5), model.initial),
    )
    best = Rational(model).optimum()
    assert (best is None) == (program.status == 2)
    if best is not None:
        assert real(best) == pytest.approx(-program.fun, abs=1e-8)


def few(rng: np.random.Generator) -> np.ndarray:
    """Moves `[5, 3, 5]` to two states each: often several places to settle."""
    picks, share = rng.integers(0, 5, (2, 5, 3)), rng.random((5, 3, 1))
    return share * np.eye(5)[picks[0]] + (1 - share) * np.eye(5)[picks[1]]


def three_ways(seed: int) -> None:
    """`gamma P` is the same kernel whether the rest is lost by discounting or leads to a goal."""
    rng = np.random.default_rng(seed)
    S, A, m = int(rng.integers(2, 6)), int(rng.integers(2, 4)), int(rng.integers(1, 3))
    gamma = float(rng.choice([0.3, 0.5, 0.8]))
    P = rng.dirichlet(np.ones(S), (S, A))
    reward, costs = rng.normal(size=(S, A)), rng.random((m, S, A))
    rest: Fields = {"senses": "<=", "initial": rng.dirichlet(np.ones(S))}
    model = CMDP(P, reward, costs, np.zeros(m), discount=gamma, **rest)
    form = StandardForm.of(model)
    some = form.evaluate(model.by_choice(rng.dirichlet(np.ones(A), S)))
    rest["thresholds"] = 0.1 * rng.random(m) - some.margins  # a little more than some policy pays
    moves = np.zeros((S + 1, A, S + 1))
    moves[:S, :, :S], moves[..., S] = gamma * P, 1 - gamma
    padded = [
        np.concatenate([one, np.zeros((*one.shape[:-2], 1, A))], -2) for one in (reward, costs)
    ]
    start = {"initial": np.append(rest["initial"], 0.0)}
    steps = math.ceil(math.log(1e-13) / math.log(gamma))
    models = [
        CMDP(P, reward, costs, discount=gamma, **rest),
        CMDP(moves, *padded, discount=1.0, goal=S, **{**rest, **start}),
        CMDP(P, reward, costs, discount=gamma, horizon=steps, **rest),
    ]
    results = [solve(model, eps=1e-9) for model in models]
    assert [result.status for result in results] == ["certified"] * 3
    for what in ("reward", "values", "multipliers"):
        first, *others = (getattr(result, what) for result in results)
        for other in others:
            np.testing.assert_allclose(other, first, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_one_model_discounted_with_a_leak_and_with_a_horizon(seed):
    three_ways(seed)


@pytest.mark.slow
def test_many_models_discounted_with_a_leak_and_with_a_horizon():
    for seed in range(1000):
        three_ways(seed)


def test_rational_numbers_by_hand():
    """Stay for 1 or go for 0 and then 3 for ever, at gamma 1/2; going costs 1, and half is left."""
    model = CMDP(
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]],
        [[1.0, 0.0], [3.0, 3.0]],
        [[[0.0, 1.0], [0.0, 0.0]]],
        [0.5],
        0,
        0.5,
        senses="<=",
    )
    exact = Rational(model)
    assert exact.ranges == [(2, 3), (0, 1)]
    go = exact.policy(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert exact.visits(go) == [0, ONE, ONE, 0]
    # x visits stay, y go: x = 1 + x / 2 - y, so y = 1 - x / 2; 1 x + 3 y with y <= 1 / 2
    assert exact.optimum() == 1 + ONE * 3 / 2
    assert Rational(model.replace(thresholds=[-1.0])).optimum() is None
    assert not falsehoods(model, solve(model))
