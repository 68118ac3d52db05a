"""How much faster is a grid search as one batched run than as a loop over configurations?

    python benchmarks/grid_search.py [--steps 1000] [--repeat 3]

CPU seconds of one core, the best of three. The rival is what one writes without a batch axis: for
every configuration a loop of plain NumPy, dense transitions, one linear system per step for all
values, nothing recorded but reward and margin. Both do the same updates.
"""

import argparse
from functools import partial

import numpy as np
from timing import best_seconds

import cmdpax
from cmdpax.environments import finite
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import compiled
from cmdpax.paper import settings as paper
from cmdpax.paper.exact_study import configurations
from cmdpax.solvers.feasibility import largest_multiplier

compiled.PATIENCE = 0.0  # seconds are those of machine code

EARLY = 20  # iterates that must agree: those of a chaotic oscillation part from rounding on


def plain_values(P, r, c, gamma, policy):
    """V_r and V_c of one policy, `[S, 2]`."""
    flow = np.einsum("sa,sat->st", policy, P)
    right = np.stack([(policy * r).sum(1), (policy * c).sum(1)], axis=1)
    return np.linalg.solve(np.eye(len(P)) - gamma * flow, right)


def plain_npg_pd(form, optimistic, steps, step, dual_step):
    """NPG-PD (or, optimistic, ReLOAD) for one configuration: rewards, margins of all iterates."""
    P, gamma, rho = form.transitions.tensor, form.criterion.discount, form.initial
    shape = form.states, form.actions
    r, c = form.reward.reshape(shape), form.constraints[0].reshape(shape)
    b = form.thresholds[0]
    largest = np.inf if optimistic else largest_multiplier(form)
    logits, multiplier, past = np.log(form.uniform_policy()).reshape(shape), 0.0, None
    rewards, margins = [], []
    for _ in range(steps + 1):
        policy = np.exp(logits - logits.max(1, keepdims=True))
        policy /= policy.sum(1, keepdims=True)
        values = plain_values(P, r, c, gamma, policy)
        margin = rho @ values[:, 1] - b
        rewards.append(rho @ values[:, 0])
        margins.append(margin)
        next_values = P @ (values[:, 0] + multiplier * values[:, 1])
        action_values = r + multiplier * c + gamma * next_values
        before = past if past is not None and optimistic else (action_values, margin)
        past = action_values, margin
        logits = logits + step * (2 * action_values - before[0])
        logits -= logits.max(1, keepdims=True)
        multiplier = min(max(multiplier - dual_step * (2 * margin - before[1]), 0.0), largest)
    return rewards, margins


def compare(problem: str, method: str, steps: int, rounds: int) -> str:
    """One line: loop, batch, their ratio, and how far their first rewards are apart."""
    model, (points, _) = finite[problem](), configurations(method)
    names = {name: np.array([point[name] for point in points]) for name in points[0]}
    batch = partial(cmdpax.trajectory, model, method, **names)
    plain = partial(plain_npg_pd, StandardForm.of(model), method == "reload")

    def loop(steps: int) -> list:
        return [plain(steps=steps, **point) for point in points]

    early = np.array([rewards for rewards, _ in loop(EARLY)]).T  # [1 + steps, B]
    difference = np.abs(early - batch(steps=EARLY).rewards).max()  # and so all is compiled
    slow, fast = best_seconds(lambda: loop(steps), lambda: batch(steps=steps), rounds=rounds)
    return (
        f"{len(points)} configurations x {steps} steps: loop {slow:.2f} s, batch {fast:.2f} s,"
        f" ratio {slow / fast:.1f}, largest early difference {difference:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many is shown")
    options = parser.parse_args()
    for problem, title in paper.PROBLEMS.items():
        for method in ("npg-pd", "reload"):
            line = compare(problem, method, options.steps, options.repeat)
            print(f"{title:18} {method:7} {line}", flush=True)


if __name__ == "__main__":
    main()
