"""Ready utilities: values by hand, gradients by difference quotients, concavity, texts."""

import math

import numpy as np
import pytest

from cmdpax import utilities
from cmdpax.errors import InputError
from cmdpax.utilities.ready import from_text, made_again

RANDOM = np.random.default_rng(0)
VISITS = RANDOM.dirichlet([1.0] * 6).reshape(3, 2)
READY = {
    "linear": utilities.linear(),
    "states": utilities.entropy(),
    "pairs": utilities.entropy("pairs"),
    "kl": utilities.kl(VISITS),
    "recorded": utilities.kl(VISITS, of="recorded"),
    "distance": utilities.distance(VISITS),
    "fairness": utilities.fairness(["a", "b"]),
    "alpha": utilities.fairness(["a", "b"], alpha=2.5),
    "soft": utilities.soft_limit("a", most=0.4, penalty=3.0),
    "huber": utilities.soft_limit("a", least=0.9, huber=0.1),
    "sum": utilities.fairness(["a"]) + 0.5 * utilities.entropy() + 2.0 * utilities.linear("b"),
}


def points(utility, count=2):
    """Random values in (0, 1) and random visits."""
    for _ in range(count):
        visits = None if utility.is_of_values else RANDOM.dirichlet([1.0] * 6).reshape(3, 2)
        yield RANDOM.uniform(0.05, 1.0, len(utility.rewards)), visits


@pytest.mark.parametrize("name", READY)
def test_gradients_are_those_of_difference_quotients(name):
    utility, h = READY[name], 1e-6
    (values, visits), *_ = points(utility)
    slopes, table = utility.gradient(values, visits)
    for i in range(len(values)):
        step = h * np.eye(len(values))[i]
        ends = [utility.value(values + sign * step, visits) for sign in (1, -1)]
        assert slopes[i] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-5)
    for s, a in np.ndindex(0 if visits is None else 3, 2):
        step = np.zeros((3, 2))
        step[s, a] = h
        ends = [utility.value(values, visits + sign * step) for sign in (1, -1)]
        assert table[s, a] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-5)


@pytest.mark.parametrize("name", READY)
def test_no_point_lies_above_a_tangent(name):
    utility = READY[name]
    for _ in range(100):
        x, y = points(utility)
        offset, slopes, table = utility.tangent(*x)
        bound = offset + float(slopes @ y[0])
        bound += 0.0 if table is None else float((table * y[1]).sum())
        assert utility.value(*y) <= bound + 1e-12


@pytest.mark.parametrize("name", ["states", "pairs", "kl", "distance"])
def test_the_modulus_bounds_what_a_change_of_visits_can_do(name):
    utility = READY[name]
    for scale in (1e-6, 1e-3, 0.1):
        for _ in range(50):
            (_, x), (_, z) = points(utility)
            y = (1 - scale) * x + scale * z
            change = abs(utility.value(np.zeros(0), x) - utility.value(np.zeros(0), y))
            assert change <= utility.modulus(float(np.abs(x - y).sum()), 6)


def test_values_by_hand():
    none, even = np.zeros(0), np.full((3, 2), 1 / 6)
    assert utilities.entropy().value(none, even) == pytest.approx(math.log(3))
    assert utilities.entropy("pairs").value(none, even) == pytest.approx(math.log(6))
    assert utilities.kl(VISITS).value(none, VISITS) == pytest.approx(0, abs=1e-15)
    assert utilities.distance(VISITS).value(none, VISITS) == 0
    assert utilities.fairness(["a", "b"]).value(np.array([2.0, 3.0])) == pytest.approx(math.log(6))
    assert utilities.fairness(["a"], alpha=2.0).value(np.array([4.0])) == -0.25
    assert utilities.fairness(["a"]).value(np.array([-1.0])) == -math.inf
    assert utilities.max_min(["a", "b"]).value(np.array([2.0, 3.0])) == 2
    soft = utilities.soft_limit("a", most=1.0, penalty=2.0)
    assert [soft.value(np.array([x])) for x in (0.5, 1.0, 3.0)] == [0, 0, -4]
    huber = utilities.soft_limit("a", most=1.0, penalty=2.0, huber=1.0)
    assert huber.value(np.array([3.0])) == -3  # 2 (1/2 + 1)


def test_a_log_of_transitions_becomes_shares():
    visits = utilities.recorded_visits([0, 0, 2, 1], [1, 1, 0, 0], (3, 2))
    assert np.array_equal(visits, [[0, 0.5], [0.25, 0], [0.25, 0]])
    smooth = utilities.recorded_visits([0], [0], (2, 1), smoothing=1.0)
    assert smooth == pytest.approx(np.array([[2 / 3], [1 / 3]]))


@pytest.mark.parametrize(
    ("states", "actions", "sentence"),
    [
        ([5], [0], "states must be whole numbers from 0 to 2"),
        ([-1], [0], "states must be whole numbers"),
        ([0], [2], "actions must be whole numbers from 0 to 1"),
        ([0.5], [0], "states must be whole numbers"),
        (["a"], [0], "states must be whole numbers"),
        ([0, 1, 2], [0], "as many states as actions"),
        ([0, 1, 2], 0, "as many states as actions"),
        ([[0, 1]], [[0, 1]], "in two lists"),
        ([], [], "as many states as actions"),
    ],
)
def test_a_log_that_does_not_fit_is_refused(states, actions, sentence):
    with pytest.raises(InputError, match=sentence):
        utilities.recorded_visits(states, actions, (3, 2))


@pytest.mark.parametrize("shape", [3, ("a", 2), (2.5, 2), (2, 0), (1, 2, 3)])
def test_a_log_needs_a_shape(shape):
    with pytest.raises(InputError, match="give \\(states, actions\\)"):
        utilities.recorded_visits([0], [0], shape)


def test_ones_own_functions_may_write_on_what_they_get():
    def spoilt(d):
        d *= 0
        return 0.0

    visits = VISITS.copy()
    utility = utilities.own(spoilt, lambda d: 0 * d)
    assert utility.value(np.zeros(0), visits) == 0
    assert np.array_equal(visits, VISITS)


def test_a_ready_utility_is_made_again_from_its_recipe():
    for utility in READY.values():
        recipes = [{**term.recipe, "weight": term.weight} for term in utility.terms]
        again, (x, _) = made_again(recipes, utility.minimise), points(utility)
        assert again.value(*x) == utility.value(*x) and again.name == utility.name


def test_texts_of_the_command_line():
    assert from_text("entropy").terms[0].recipe["over"] == "states"
    assert from_text("entropy:pairs").terms[0].recipe["over"] == "pairs"
    assert from_text("fairness:a, b").rewards == ("a", "b")
    assert from_text("max-min:a,b").rewards == ("a", "b")
    with pytest.raises(InputError, match="did you mean 'entropy'"):
        from_text("entrpy")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: utilities.entropy("cells"), "entropy over 'cells' is not known"),
        (lambda: utilities.kl(np.eye(2)), "smooth them, or say of='recorded'"),
        (lambda: utilities.distance(-np.ones((2, 2))), "numbers >= 0"),
        (lambda: utilities.max_min(["a"]), "at least two"),
        (lambda: utilities.fairness("ab"), "a list of names"),
        (lambda: utilities.soft_limit("a"), "give one"),
        (lambda: -1.0 * utilities.entropy(), "weight of a utility"),
        (lambda: utilities.max_min(["a", "b"]) + utilities.linear(), "use it alone"),
        (lambda: utilities.kl(VISITS, minimise=True) + utilities.linear(), "turn one of them"),
        (lambda: utilities.kl("uniform"), "numbers >= 0"),
        (lambda: utilities.kl([[1, 2], [3]]), "numbers >= 0"),
        (lambda: utilities.distance([1, 2]), "an array \\[S, A\\]"),
        (lambda: utilities.distance(np.full((2, 2), np.nan)), "numbers >= 0"),
        (lambda: utilities.distance(np.zeros((2, 2))), "not all of them 0"),
        (lambda: utilities.kl(VISITS, of="log"), "kl of 'log' is not known"),
        (lambda: utilities.fairness(None), "a list of names"),
        (lambda: utilities.fairness([]), "a list of names"),
        (lambda: utilities.fairness(["a"], alpha=-1), "alpha is -1"),
        (lambda: utilities.fairness(["a"], alpha="one"), "alpha is 'one'"),
        (lambda: utilities.soft_limit("a", most=0, least=1), "in order"),
        (lambda: utilities.soft_limit("a", most=math.nan), "in order"),
        (lambda: utilities.soft_limit("a", most="1"), "in order"),
        (lambda: utilities.soft_limit("a", most=1, penalty=0), "penalty is 0"),
        (lambda: utilities.soft_limit("a", most=1, huber=-1), "huber is -1"),
        (lambda: math.nan * utilities.entropy(), "weight of a utility is nan"),
        (lambda: utilities.own(3, np.cos), "its value is 3"),
        (lambda: utilities.own(np.sum, None), "its gradient is None"),
        (lambda: utilities.own(np.sum, np.cos, "reward"), "a list of names"),
        (lambda: utilities.own(np.sum, np.cos, []), "a list of names"),
        (lambda: from_text(""), "utility '' is not known"),
        (lambda: from_text("entropy:pairs,states"), "takes one word"),
        (lambda: from_text("fairness"), "a list of names"),
        (lambda: from_text("max-min:a"), "at least two"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


@pytest.mark.parametrize(
    "utility",
    [
        utilities.entropy(),
        utilities.entropy("pairs"),
        utilities.kl(np.arange(1.0, 7).reshape(3, 2)),
        utilities.kl(np.arange(1.0, 7).reshape(3, 2), of="recorded"),
        utilities.distance(np.arange(1.0, 7).reshape(3, 2)),
        utilities.linear() + 0.5 * utilities.entropy() + 2.0 * utilities.entropy("pairs"),
    ],
)
def test_the_curvature_is_what_the_gradient_changes_by(utility):
    random = np.random.default_rng(0)
    visits = random.dirichlet(np.full(6, 30.0)).reshape(3, 2)
    change = random.normal(size=(3, 2))
    values = np.ones(len(utility.rewards))
    after, before = (utility.gradient(values, visits + e * change)[1] for e in (1e-5, -1e-5))
    pairs, states = utility.curvature(values, visits)
    expected = pairs * change + states * change.sum(1, keepdims=True)
    assert (before - after) / 2e-5 == pytest.approx(expected, rel=1e-6, abs=1e-8)
