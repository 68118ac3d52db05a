"""Every row of the table is complete, checks its settings and uses them."""

import numpy as np
import pytest

import plain
from cmdpax import CMDP, InputError, check, methods, solve, trajectory
from cmdpax.environments import cliff_world, garnet
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.log_linear import one_hot
from cmdpax.solvers.table import find_method, of_oracle

FIXED = [name for name, row in methods.items() if row.trace]
SOLVERS = [name for name, row in methods.items() if row.solve]
SHORT = {"outer": 2, "inner": 3, "steps": 6}  # budgets that are enough to see a difference


def features_for(name, model):
    """What a method with log-linear policies needs: features that reach every policy."""
    return one_hot(model.states, model.actions) if methods[name].features else None


def short_run(name, **settings):
    """A few steps of a method on the model of the plain formulas."""
    model, budget = plain.tiny(), {k: v for k, v in SHORT.items() if k in methods[name].budget}
    return trajectory(model, name, features=features_for(name, model), **{**budget, **settings})


@pytest.mark.parametrize("name", methods)
def test_rows_are_complete(name):
    row = find_method(name)
    assert row.name == name and row.title and row.source and row.proven
    assert row.family in ("augmented Lagrangian", "primal-dual", "dual", "exact")
    assert row.trace or row.solve
    assert bool(row.trace) == bool(row.budget) and (row.solve or not row.own_settings)
    assert row.settings == {**row.own_settings, **row.budget}
    assert row.linear == "" or methods[row.linear].features
    assert not (row.features and row.linear)


def test_the_papers_grids_are_made_of_settings():
    from cmdpax.paper.settings import GRIDS

    assert set(GRIDS) == set(FIXED)
    for name, grid in GRIDS.items():
        assert grid and set(grid) <= set(methods[name].budget)


def test_the_table_is_read_only():
    with pytest.raises(TypeError):
        methods["mine"] = methods["lp"]


def test_an_unknown_method_gets_a_suggestion():
    with pytest.raises(InputError, match=r"method 'relod' is not known; did you mean 'reload'\?"):
        find_method("relod")
    with pytest.raises(InputError, match=r"method 'qqq' is not known; known: convex-al, .*, spma"):
        find_method("qqq")


def test_the_row_of_an_oracle_of_ones_own():
    row = of_oracle(Corrective())
    assert (row.name, row.family) == ("Corrective", "augmented Lagrangian")
    assert set(row.settings) == {"dual_factor", "outer", "inner"} and row.trace is None
    with pytest.raises(InputError, match="method: 3 is neither the name of a method nor an Oracle"):
        of_oracle(3)
    with pytest.raises(InputError, match="is neither the name of a method nor an Oracle"):
        of_oracle(Corrective)  # the class, and not an oracle


@pytest.mark.parametrize("name", FIXED)
def test_settings_are_checked(name):
    row = find_method(name)
    counts = [key for key, default in row.budget.items() if isinstance(default, int)]
    rules = [key for key, default in row.budget.items() if isinstance(default, str)]
    assert set(rules) <= {"step", "projection_step"}
    for key in counts:
        for wrong in (0, -3, 2.5):
            with pytest.raises(InputError, match=f"{key} is .*whole number"):
                short_run(name, **{key: wrong})
    for key in row.budget.keys() - set(counts):
        for wrong in (0.0, -1.0, np.nan, np.inf, np.array([1.0, 0.0])):
            with pytest.raises(InputError, match=f"{key} is .*positive and finite"):
                short_run(name, **{key: wrong})
        with pytest.raises(InputError, match=f"{key}.* '?soon"):
            short_run(name, **{key: "soon"})
    sentence = f"setting of {name} 'learning_rate' is not known; "
    with pytest.raises(InputError, match=sentence):
        short_run(name, learning_rate=1.0)


@pytest.mark.parametrize("name", FIXED)
def test_every_setting_of_a_fixed_budget_is_used(name):
    def bytes_of(run):
        return run.rewards.tobytes() + run.policy.tobytes() + run.multipliers.tobytes()

    numbers = {"step": 0.3, "projection_step": 0.3} if name.startswith("p") else {}
    base = {key: value for key, value in numbers.items() if key in methods[name].budget}
    plainly = bytes_of(short_run(name, **base))
    assert plainly == bytes_of(short_run(name, **base))
    for key, default in methods[name].budget.items():
        value = base.get(key, SHORT.get(key, default))
        other = 2 * value if isinstance(value, int) else 0.4 * value
        assert bytes_of(short_run(name, **{**base, key: other})) != plainly, key


@pytest.mark.parametrize(
    ("name", "setting", "other"),
    [
        ("corrective-alm", "outer", 1),
        ("corrective-alm", "inner", 1),
        ("corrective-alm", "dual_factor", 0.1),
        ("convex-al", "penalty", 3.0),
        ("convex-al", "outer", 1),
        ("convex-al", "dual_factor", 0.5),
        ("cutting-plane", "entropy", 1e-2),
        ("cutting-plane", "cuts", 2),
        ("lp", "algorithm", "ipm"),
    ],
)
def test_every_setting_of_a_certified_form_is_used(name, setting, other):
    model = garnet(states=40, constraints=3) if name == "corrective-alm" else plain.tiny()
    plainly, changed = solve(model, name), solve(model, name, **{setting: other})
    assert plainly.method == changed.method == name
    assert plainly.policy.tobytes() != changed.policy.tobytes() or (
        plainly.multipliers.tobytes() != changed.multipliers.tobytes()
    )


def test_every_certified_form_with_settings_of_its_own_is_in_that_test():
    own = {(name, key) for name in SOLVERS for key in methods[name].own_settings}
    (mark,) = test_every_setting_of_a_certified_form_is_used.pytestmark
    assert own == {(name, key) for name, key, _ in mark.args[1]}


def test_a_step_may_be_a_rule():
    model = cliff_world()
    rules = ("backtracking", "theory", 1.0)
    runs = [trajectory(model, "pqa-alm", step=rule, outer=1, inner=4) for rule in rules]
    assert len({run.rewards.tobytes() for run in runs}) == 3
    with pytest.raises(InputError, match="'fast' is neither a number"):
        trajectory(model, "pqa-alm", step="fast")


# shop, road, home, where a run ends, with two actions each; each criterion by what it adds
ROWS = [[{1: 0.5, 2: 0.5}, {2: 1.0}], [{0: 0.2, 2: 0.8}, {2: 1.0}], [{2: 1.0}, {2: 1.0}]]
KINDS = {
    "discounted": (ROWS, {"discount": 0.9}),
    "total": (ROWS, {"discount": 1.0, "goal": 2}),
    "total with cycles": (
        [[{0: 1.0}, {2: 1.0}], *ROWS[1:]],  # one may wait in the shop for ever
        {"discount": 1.0, "goal": 2},
    ),
    "average": ([*ROWS[:2], [{0: 1.0}, {1: 1.0}]], {"criterion": "average"}),
    "finite": (ROWS, {"horizon": 3}),
}


def of_kind(kind):
    """A model of one criterion whose limit binds."""
    rows, more = KINDS[kind]
    end = 0.0 if "goal" in more else 1.0
    costs = np.array([[2.0, 1.0], [3.0, 1.0], [end, end]])
    tolls = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
    limit = {"average": 0.3, "total with cycles": 1.5}.get(kind, 0.5)
    start = [0.6, 0.3, 0.1]
    return CMDP(rows, costs, [tolls], [limit], start, senses="<=", minimise=True, **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", methods)
def test_a_method_takes_its_criteria_and_refuses_the_others(name, kind):
    """Every cell of the table: an answer that the checker accepts, or one sentence."""
    row, model = methods[name], of_kind(kind)
    budget = {one: count for one, count in SHORT.items() if one in row.budget}
    kind_of_run = {**budget, "features": features_for(name, model)}
    if kind not in row.criteria:
        sentence = (
            f"^method '{name}' takes .* only, and this one is {kind.split()[0]}.*; the default"
        )
        with pytest.raises(InputError, match=sentence):
            solve(model, name, **kind_of_run)
        return
    result = solve(model, name, **kind_of_run)
    check(model, result)
    assert budget or max(result.scaled_gap, result.scaled_violation) <= 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_an_oracle_of_ones_own_takes_what_its_row_says(kind):
    model, row = of_kind(kind), of_oracle(Corrective())
    if kind in row.criteria:
        assert solve(model, Corrective()).status == "certified"
    else:
        with pytest.raises(InputError, match="'Corrective' takes discounted, total and finite mod"):
            solve(model, Corrective())


@pytest.mark.parametrize("kind", ["total", "finite", "average"])
def test_a_step_of_theory_is_for_a_discount(kind):
    with pytest.raises(InputError, match=r"'theory' is for a discount|method 'pqa-alm' takes"):
        solve(of_kind(kind), "pqa-alm", step="theory", outer=2, inner=2)
