"""The product pays along every path what the objectives say about that path, and no more."""

import numpy as np
import pytest

from cmdpax import CMDP, InputError
from cmdpax.model import numbers
from cmdpax.model.product import Graph, Objective, numbered, product, row_fields

STEPS = 5


def random_graph(rng: np.random.Generator, states: int = 4) -> Graph:
    counts = rng.integers(1, 3, states)
    lists = [rng.choice(states, rng.integers(1, 4), replace=False) for _ in range(counts.sum())]
    first_entry = np.append(0, np.cumsum([len(one) for one in lists]))
    chances = np.concatenate([rng.dirichlet(np.ones(len(one))) for one in lists])
    initial = np.zeros(states)
    initial[0] = 1.0
    rows = np.append(0, np.cumsum(counts)), first_entry, np.concatenate(lists), chances
    return Graph.of(*rows, initial)


def random_objectives(rng: np.random.Generator, graph: Graph) -> list[Objective]:
    """What `R [F t]`, `R [C]`, `P [F t]` and `P [a U b]` count."""
    S, K = graph.states, len(graph.first_entry) - 1
    objectives = []
    for kind in rng.choice(4, size=3):
        target = rng.random(S) < 0.4
        target[0] = False
        if kind < 2:
            closes = target if kind else np.zeros(S, dtype=bool)
            objectives.append(Objective(closes, rng.integers(0, 3, K).astype(float)))
        else:
            fails = rng.random(S) < 0.3 if kind == 3 else np.zeros(S, dtype=bool)
            fails[0] = False
            objectives.append(Objective(target | fails, wins=target))
    return objectives


def counted(path: list[tuple[int, int]], last: int, objective: Objective) -> float:
    """What an objective counts on a path `(state, choice), ..., last`, read off its definition."""
    states = [*(s for s, _ in path), last]
    end = next((t for t, s in enumerate(states) if objective.closes[s]), len(states))
    if objective.paid is not None:
        return float(sum(objective.paid[k] for t, (_, k) in enumerate(path) if t < end))
    return float(end < len(states) and objective.wins[states[end]])


@pytest.mark.parametrize("seed", range(40))
def test_every_path_pays_what_the_objectives_say(seed):
    """All paths of five steps under a random policy of the product, one by one."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    objectives = random_objectives(rng, graph)
    made = product(graph, objectives)
    own = made.graph
    keys = zip(own.state_origin.tolist(), map(tuple, made.closed.T.tolist()))
    index = {key: s for s, key in enumerate(keys)}
    policy = [
        rng.dirichlet(np.ones(j - i)) if j > i else None
        for i, j in zip(own.first_choice[:-1], own.first_choice[1:])
    ]
    expected = np.zeros(len(objectives))

    def walk(path: list[tuple[int, int]], s: int, chance: float, past: tuple[bool, ...]) -> None:
        past = tuple(was or bool(one.closes[s]) for was, one in zip(past, objectives))
        place = index.get((s, past))
        if len(path) == STEPS or place is None or policy[place] is None:
            # beyond a goal nothing is paid: any continuation does
            expected[:] += [chance * counted(path, s, one) for one in objectives]
            return
        first = own.first_choice[place]
        for i, share in enumerate(policy[place]):
            k = own.choice_origin[first + i]
            for e in range(graph.first_entry[k], graph.first_entry[k + 1]):
                step = chance * share * graph.probabilities[e]
                walk([*path, (s, int(k))], int(graph.successors[e]), step, past)

    walk([], 0, 1.0, (False,) * len(objectives))
    now, values = own.initial.copy(), np.zeros(len(objectives))
    for _ in range(STEPS):
        after = np.where(made.goal, now, 0.0)
        for s in np.flatnonzero(now):
            if policy[s] is None:
                continue
            for i, share in enumerate(policy[s]):
                k = own.first_choice[s] + i
                values += now[s] * share * made.numbers[:, k]
                entries = slice(own.first_entry[k], own.first_entry[k + 1])
                np.add.at(
                    after, own.successors[entries], now[s] * share * own.probabilities[entries]
                )
        now = after
    np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_a_product_is_a_model(seed):
    rng = np.random.default_rng(seed)
    made = product(*(lambda g: (g, random_objectives(rng, g)))(random_graph(rng)))
    if made.goal[made.graph.initial > 0].all():
        return
    model = CMDP(
        **row_fields(made),
        reward=made.numbers[0],
        constraints=made.numbers[1:],
        thresholds=[0, 0],
        discount=0.9,
    )
    assert model.states == made.graph.states
    assert not model.reward[np.flatnonzero(made.goal[model.transitions.state_of])].any()


def line(length: int, back: bool = False) -> Graph:
    """0 -> 1 -> ... -> last, which stays, or leads back to 0."""
    to = np.append(np.arange(1, length), 0 if back else length - 1)
    count = np.arange(length + 1)
    return Graph.of(count, count, to, np.ones(length), np.eye(length)[0])


def at(length: int, *states: int) -> np.ndarray:
    return np.isin(np.arange(length), states)


def test_a_set_that_is_never_left_needs_no_bit():
    steps = np.ones(4)
    made = product(line(4), [Objective(at(4, 3), steps), Objective(at(4, 2, 3), wins=at(4, 2, 3))])
    assert made.bits == 0 and made.graph.states == 4
    assert made.numbers.tolist() == [[1, 1, 1], [0, 1, 0]]
    assert made.goal.tolist() == [False, False, False, True]


def test_equal_sets_share_a_bit_and_others_have_their_own():
    steps, one, two = np.ones(4), at(4, 1), at(4, 2)
    made = product(line(4), [Objective(one, steps), Objective(one, wins=one)])
    assert made.bits == 1
    assert made.graph.states == 2  # cut at 1: nothing is paid afterwards
    made = product(line(4), [Objective(one, wins=one), Objective(two, wins=two)])
    assert made.bits == 2 and made.numbers.tolist() == [[1, 0], [0, 1]]


def test_what_lies_beyond_the_goal_is_dropped_and_a_circle_never_ends():
    made = product(line(6), [Objective(at(6, 2), np.ones(6))])
    assert made.graph.state_origin.tolist() == [0, 1, 2] and made.goal.tolist() == [0, 0, 1]
    made = product(line(3, back=True), [Objective(at(3), np.ones(3))])
    assert not made.goal.any() and "goal" not in row_fields(made)


def test_a_product_of_an_absurd_size_is_refused(monkeypatch):
    monkeypatch.setattr(numbers, "MAX_ENTRIES", 5)
    with pytest.raises(InputError, match="would be more than"):
        product(line(4), [Objective(at(4, 1), np.ones(4))])


def test_repeated_labels_are_numbered():
    assert numbered(["a", "b", "a", "a"]) == ["a", "b", "a#2", "a#3"]
