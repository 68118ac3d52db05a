"""The suite of `benchmarks/known_optima.py`: its optima, against brute force and closed forms."""

import itertools
import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog, minimize

import cmdpax
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.portable import Policy
from cmdpax.learning.simulator import ActionSpace

HOME = Path(__file__).parents[2]
sys.path.append(str(HOME / "benchmarks"))
import known_optima  # noqa: E402
import known_optima_tasks as suite  # noqa: E402
from known_optima_tasks import TASKS, TUNING, UNTOUCHED, Finite  # noqa: E402

ANSWERS = suite.kept_answers()
FINITE = [name for name, task in TASKS.items() if isinstance(task.problem, Finite)]
SMALL = [name for name in FINITE if (TASKS[name].problem.horizon or 0) <= 60]


def occupancy_optimum(task, limits):
    """The linear programme over visits `x [T, S, A]`, or over discounted visits `[S, A]`."""
    problem, (S, A) = task.problem, task.problem.reward.shape
    T, stay = problem.horizon or 1, problem.survival if problem.horizon is None else 0.0
    flow = np.zeros((T, S, T, S, A))
    for t, s, a in itertools.product(range(T), range(S), range(A)):
        flow[t, s, t, s, a] += 1
        flow[t, :, t, s, a] -= stay * problem.transitions[s, a]
        if t + 1 < T:
            flow[t + 1, :, t, s, a] -= problem.transitions[s, a]
    start = np.zeros((T, S))
    start[0] = problem.initial
    ages = (task.discount ** np.arange(T))[:, None, None]
    above, below = [], []
    for name, (low, high) in zip(limits.names, limits.bounds):
        row = (ages * problem.costs[name]).ravel()
        sign, bound = (1, high) if np.isfinite(high) else (-1, low)
        above.append(sign * row)
        below.append(sign * bound)
    reward = np.broadcast_to(problem.reward, (T, S, A)).ravel()
    result = linprog(-reward, above, below, flow.reshape(T * S, -1), start.ravel())
    assert result.status in (0, 2), result.message
    return -result.fun if result.status == 0 else None


def test_every_task_is_in_one_half_and_has_an_answer():
    assert len(TASKS) >= 16
    assert sorted([*TUNING, *UNTOUCHED]) == sorted(TASKS)
    assert len(UNTOUCHED) >= 0.4 * len(TASKS)  # tasks join the tuning half when their kind fails
    assert list(ANSWERS) == list(TASKS)  # else: python benchmarks/known_optima.py --exact
    for answer in ANSWERS.values():
        assert answer.worst < answer.optimum <= answer.best + 1e-6 * (answer.best - answer.worst)
        assert answer.accuracy <= 0.002


@pytest.mark.parametrize("name", SMALL)
def test_an_optimum_is_that_of_the_linear_programme_over_visits(name):
    task, answer = TASKS[name], ANSWERS[name]
    optimum = occupancy_optimum(task, task.parsed)
    if answer.least:
        assert optimum is None  # no visits meet the limit, and the least is what a programme says
        (cost, least), width = *answer.least.items(), np.ptp(answer.attainable["cost"])
        for share, is_met in ((-1e-4, False), (1e-4, True)):
            limits = cmdpax.Limits.parse([f"{cost}<={least + share * width}"])
            assert (occupancy_optimum(task, limits) is not None) == is_met
    else:
        assert abs(optimum - answer.optimum) <= 1e-5 * (answer.best - answer.worst)


@pytest.mark.parametrize("name", FINITE)
def test_kept_answers_of_finite_tasks_are_computed_again(name):
    again, answer = TASKS[name].solve(), ANSWERS[name]
    scale = answer.best - answer.worst
    for part in ("optimum", "best", "worst"):
        assert abs(getattr(again, part) - getattr(answer, part)) <= 1e-6 * scale


@pytest.mark.parametrize("name", ["long-2000", "long-1000"])
def test_an_optimum_of_long_episodes_is_that_of_bisection_on_the_multiplier(name):
    task, answer, problem = TASKS[name], ANSWERS[name], TASKS[name].problem
    sign = 1 if task.parsed.senses == ("<=",) else -1
    (cost,) = problem.costs.values()
    moves, times = sparse.csr_matrix(problem.transitions.reshape(-1, 5)), np.ones(problem.horizon)
    grid = suite.Gridded(moves, problem.reward, sign * cost, times, problem.initial)
    optimum = grid.optimum(sign * task.parsed.entries[0], steps=12)
    assert abs(optimum - answer.optimum) <= 1e-4 * (answer.best - answer.worst)


def test_six_states_by_all_deterministic_policies():
    """With one limit an optimum mixes two deterministic policies: the hull of all 729 has it."""
    task, answer = TASKS["six-states"], ANSWERS["six-states"]
    P, r, c = task.problem.transitions, task.problem.reward, task.problem.costs["cost"]
    points = []
    for choice in itertools.product(range(3), repeat=6):
        s = np.arange(6)
        visits = np.linalg.solve((np.eye(6) - 0.95 * P[s, choice]).T, np.eye(6)[0])
        points.append((visits @ c[s, choice], visits @ r[s, choice]))
    costs, returns = np.array(points).T
    kept, above = costs <= 8, costs > 8
    share = (8 - costs[kept][:, None]) / (costs[above] - costs[kept][:, None])
    mixed = returns[kept][:, None] + share * (returns[above] - returns[kept][:, None])
    assert abs(max(mixed.max(), returns[kept].max()) - answer.optimum) < 1e-6
    assert abs(returns.max() - answer.best) < 1e-6 and abs(returns.min() - answer.worst) < 1e-6


def test_other_units_are_the_same_task():
    plain, other = ANSWERS["six-states"], ANSWERS["six-states-units"]
    assert abs(other.optimum / 1000 - plain.optimum) < 1e-6
    assert suite.regret(other, 9000.0) == pytest.approx(suite.regret(plain, 9.0))


@pytest.mark.parametrize("name", ["short-5", "rare-end", "discounted-60"])
def test_episodes_have_the_means_that_backward_induction_says(name):
    """The uniform policy: 1,000 episodes of the environment against the exact values."""
    task, problem = TASKS[name], TASKS[name].problem
    S, A = problem.reward.shape
    exact = problem.values(np.full((1, S, A), 1 / A), task.parsed.names, task.discount)
    env, random = problem.environment()(), np.random.default_rng(0)
    totals = np.zeros((1000, 1 + len(task.limits)))
    for episode in range(len(totals)):
        env.reset(seed=episode)
        for age in itertools.count():
            _, reward, terminated, truncated, info = env.step(int(random.integers(A)))
            totals[episode, 0] += reward
            totals[episode, 1:] += task.discount**age * np.array(list(info["cost"].values()))
            if terminated or truncated:
                break
        assert age + 1 == problem.horizon
    error = totals.std(0) / np.sqrt(len(totals))
    assert (abs(totals.mean(0) - exact) <= 4 * error + 1e-9).all()


def test_a_networks_table_follows_the_observations():
    """An untrained network's table, evaluated exactly, against episodes of that network."""
    problem, random = TASKS["short-5"].problem, np.random.default_rng(1)
    (S, A), one = problem.reward.shape, np.ones(6)
    arrays = {
        "policy/layers/0/weight": random.normal(size=(S + 1, 8)).astype(np.float32),
        "policy/layers/0/bias": np.zeros(8, np.float32),
        "policy/layers/1/weight": random.normal(size=(8, A)).astype(np.float32),
        "policy/layers/1/bias": np.zeros(A, np.float32),
        "seen/total": np.array(10.0),
        "seen/mean": 0 * one,
        "seen/squares": 10 * one,
    }
    policy = NetworkPolicy.of(arrays, ActionSpace(choices=A), (S + 1,), 0)
    table = problem.table(policy)
    assert table.shape == (5, S, A) and np.allclose(table.sum(-1), 1)
    seen = np.append(np.eye(S)[2], 3 / 5)
    often = (
        np.bincount([Policy(policy)(seen, random=random) for _ in range(3000)], minlength=A) / 3000
    )
    assert abs(often - table[3, 2]).max() < 0.04


def moments(gains, A, B, noise):
    """Return and energy of `u = -gain x`, gain by gain, from the recursion of second moments."""
    spread, mean, energy = np.eye(len(A)), 0.0, 0.0
    for gain in gains:
        energy += np.trace(gain @ spread @ gain.T)
        spread = (A - B @ gain) @ spread @ (A - B @ gain).T + noise**2 * np.eye(len(A))
        mean -= np.trace(spread)
    return mean, energy


@pytest.mark.parametrize("name", ["lqr", "lqr-two-actions"])
def test_no_linear_policy_beats_riccatis_within_the_energy(name):
    """The best of one gain for all times, by descent, stays below the optimum, and close."""
    task, answer = TASKS[name], ANSWERS[name]
    A, B = (np.array(task.problem.arguments[one]) for one in "AB")
    limit, noise = task.parsed.entries[0], task.problem.arguments["noise"]

    def outcome(gain):
        return moments([gain.reshape(B.T.shape)] * 50, A, B, noise)

    result = minimize(
        lambda gain: -outcome(gain)[0],
        0.1 * np.ones(B.size),
        constraints={"type": "ineq", "fun": lambda gain: limit - outcome(gain)[1]},
        method="SLSQP",
    )
    mean, energy = outcome(result.x)
    assert energy <= limit + 1e-6
    assert mean <= answer.optimum <= mean + 0.05 * (answer.best - answer.worst)
    again = task.solve()
    assert again.optimum == pytest.approx(answer.optimum)


def test_the_heaters_optimum_is_attained_in_the_environment():
    """A policy of the grid, greedy for one multiplier, acts in the environment itself."""
    grid, answer = suite.heater_grid(1), ANSWERS["heater"]
    low, high = 0.0, 10.0
    for _ in range(12):
        weight = (low + high) / 2
        low, high = (weight, high) if grid.plan(weight)[1] > 40 else (low, weight)
    policies = greedy(grid, weight)
    axis, env = np.linspace(2, 38, 361), suite.Heater()
    totals = np.zeros((200, 2))
    for episode in range(len(totals)):
        env.reset(seed=episode)
        for t in range(100):
            action = policies[t][np.abs(axis - env.temperature).argmin()] / 50
            _, reward, _, _, info = env.step([action])
            totals[episode] += reward, info["cost"]["energy"]
    mean, energy = totals.mean(0)
    # the Lagrangian's value is what both sides of the limit share
    error = 4 * totals.std(0)[0] / np.sqrt(len(totals)) + 0.5
    assert abs(mean - weight * (energy - 40) - answer.optimum) < error


def greedy(grid, weight):
    """The actions `[T][N]` that are best for `return - weight * cost`, by plain induction."""
    value, policies = 0.0 * grid.initial, []
    for price in grid.prices[::-1]:
        action_values = price * grid.reward - weight * grid.cost
        action_values = action_values + (grid.moves @ value).reshape(grid.cost.shape)
        policies.append(action_values.argmax(1))
        value = action_values.max(1)
    return policies[::-1]


def test_interpolation_is_exact_for_a_plane():
    axes = np.linspace(0, 1, 5), np.linspace(-2, 2, 9)
    points = np.array([[[0.33, 0.7], [0.1, -1.9]], [[1.0, 2.0], [0.0, -2.0]]])
    weights = np.array([0.25, 0.75])
    x, y = np.meshgrid(*axes, indexing="ij")
    plane = (1 + 2 * x - 3 * y).ravel()
    exact = (1 + 2 * points[..., 0] - 3 * points[..., 1]) @ weights
    assert np.allclose(suite.interpolation(axes, points, weights) @ plane, exact)


def test_pendulums_grid_steps_as_the_environment_does():
    grid, env = suite.pendulum_grid(1), gymnasium.make("Pendulum-v1").unwrapped
    angles, speeds, torques = np.linspace(-np.pi, np.pi, 91), np.linspace(-8, 8, 81), 9
    for i, j, k in ((10, 40, 0), (45, 30, 8), (70, 60, 3)):
        env.reset(seed=0)
        env.state = np.array([angles[i], speeds[j]])
        _, reward, *_ = env.step(np.array([-2 + k * 0.5]))
        point = i * len(speeds) + j
        assert reward == pytest.approx(grid.reward[point, k])
        row = grid.moves[[point * torques + k]].toarray().reshape(91, 81)
        assert row.sum(0) @ speeds == pytest.approx(env.state[1])
        assert np.sin(row.sum(1) @ angles) == pytest.approx(np.sin(env.state[0]), abs=1e-9)


def test_cartpole_can_be_balanced_in_the_middle():
    mean, off = suite.cartpole_mean(suite.balance, episodes=5)
    assert mean == 500 and off <= 25


def test_scores_in_per_cent():
    task, answer = TASKS["zero-limit"], ANSWERS["zero-limit"]
    width = np.ptp(answer.attainable["balance"])  # the limit is 0: of what is attainable
    assert suite.violations(task, answer, {"balance": 0.1 * width})["balance"] == pytest.approx(10)
    at_least = suite.violations(TASKS["income"], ANSWERS["income"], {"income": 9.0})
    assert at_least["income"] == pytest.approx(25)
    negative = suite.violations(TASKS["negative-limit"], ANSWERS["negative-limit"], {"debt": -2.7})
    assert negative["debt"] == pytest.approx(10)
    hopeless = ANSWERS["cannot-be-met"]
    spent = {"cost": 1.2 * hopeless.least["cost"]}
    beyond = suite.violations(TASKS["cannot-be-met"], hopeless, spent)
    assert beyond["cost"] == pytest.approx(20)
    assert suite.regret(hopeless, hopeless.optimum) == 0


def test_a_run_is_one_line_and_is_not_repeated(tmp_path, monkeypatch, capsys):
    """Two jobs, the second of them done already; then the table and the criteria."""
    jobs = [
        {"task": "short-5", "method": "spma-alm", "seed": seed, "settings": {}} for seed in (0, 1)
    ]
    outcome = {"samples": 50_000, "seconds": 7.0, "return": 3.0, "cost": {"cost": 2.6}}
    scores = {"violation": {"cost": 3.0}, "regret": 4.0, "verdict": None, "multiplier": {}}
    digest = {"digest": TASKS["short-5"].digest}
    out = tmp_path / "runs.jsonl"
    out.write_text(json.dumps({**jobs[0], **outcome, **scores, **digest}) + "\n")
    asked = []

    def child(command, **kwargs):
        job = json.loads(command[-1])
        asked.append(job["seed"])
        line = json.dumps({**job, **outcome, **scores, **digest, "regret": 30.0})
        return type("Child", (), {"returncode": 0, "stdout": line, "stderr": ""})

    monkeypatch.setattr(known_optima.subprocess, "run", child)
    known_optima.execute(jobs, out, 1)
    assert asked == [1]
    lines = known_optima.table(known_optima.read(out)).splitlines()
    assert (
        "| spma-alm | short-5 | tuning | cost<=2.6 | 2.997 | +3.0 (+3.0 +3.0) | 17.0 (4.0 30.0) |"
        in lines[2]
    )
    assert lines[-1] == "| spma-alm | tuning | 2 | 100% | +3.0% | 17.0% | 50% | no |"


def test_a_failed_run_counts_against_its_method():
    row = {"task": "lqr", "method": "ppo-lag", "seed": 0, "settings": {}, "samples": 2000}
    row |= {"seconds": 1.0, "error": "not finite", "digest": TASKS["lqr"].digest}
    lines = known_optima.table([row]).splitlines()
    assert "| +inf | inf |" in lines[2]
    assert lines[-1] == "| ppo-lag | tuning | 1 | 0% | +inf% | inf% | 0% | no |"


def test_the_last_policy_is_judged_beside_the_one_that_was_kept():
    job = {"task": "short-5", "method": "spma-alm", "seed": 0}
    few = known_optima.run(job | {"settings": {"samples": 1_000, "passes": 1}})
    assert 0 < few["judging"] <= few["samples"] / 10
    few.pop("last", None)
    row = few | {"last": few, "seed": 1, "regret": 50.0, "violation": {"cost": -3.0}}
    lines = known_optima.choices([few, row, {**few, "task": "cannot-be-met"}]).splitlines()
    before, lost = few["violation"]["cost"], few["regret"]
    method = known_optima.variant(few)
    expected = f"| {method} | short-5 | 1 | {before:+.1f}, -3.0 | {lost:.1f}, 50.0 |"
    assert lines[2] == expected
    assert [line.split(" | ")[1:3] for line in lines[-2:]] == [["last", "2"], ["kept", "2"]]
    assert lines[-1].split(" | ")[5] == f"{(lost + 50) / 2:.1f}%"


def test_the_aim_has_a_price_where_it_lies_within_the_limit():
    answer, task = ANSWERS["six-states"], TASKS["six-states"]

    def price(aim):
        return known_optima.price_of_aim({"task": "six-states", "aim": {"cost": aim}})

    tighter = cmdpax.Limits.parse(["cost<=6"])
    lost = answer.optimum - task.problem.answer(tighter, 1.0).optimum
    assert price(8.0) == pytest.approx(0, abs=1e-3)
    assert price(6.0) == pytest.approx(100 * lost / (answer.best - answer.worst), abs=1e-3)
    assert price(0.0) == np.inf  # no policy costs nothing
    assert known_optima.price_of_aim({"task": "heater", "aim": {"energy": 39.0}}) is None
