"""How much faster is a grid search as one batched run than as a loop over configurations? `python
benchmarks/grid_search.py`

Processor time, one core. The rival is what one writes without a batch axis: for every configuration
a loop of plain NumPy, dense transitions, one `solve` per step for all values, nothing recorded but
reward and margin. Both do the same updates.
"""

import argparse
import time

import numpy as np
from cmdpax.solvers.forms import largest_multiplier

from cmdpax.environments import cliff_world, deep_sea
from cmdpax.paper.exact_study import configurations
from cmdpax.solvers.table import trajectory


def plain_values(P, r, c, gamma, policy):
    """V_r and V_c of one policy."""
    flow = np.einsum("sa,sat->st", policy, P)
    right = np.stack([(policy * r).sum(1), (policy * c).sum(1)], axis=1)
    return np.linalg.solve(np.eye(len(P)) - gamma * flow, right)


def plain_npg_pd(model, step, dual_step, steps, optimistic):
    """NPG-PD (or, optimistic, ReLOAD) for one configuration."""
    P, r, c, gamma = model.tensor, model.reward, model.constraints[0], model.discount
    rho, b = model.initial, model.thresholds[0]
    largest = np.inf if optimistic else largest_multiplier(model)
    logits, multiplier, past = np.log(model.uniform_policy()), 0.0, None
    rewards, margins = [], []
    for _ in range(steps + 1):
        policy = np.exp(logits - logits.max(1, keepdims=True))
        policy /= policy.sum(1, keepdims=True)
        values = plain_values(P, r, c, gamma, policy)
        rewards.append(rho @ values[:, 0])
        margins.append(rho @ values[:, 1] - b)
        quality, margin = (
            r + multiplier * c + gamma * P @ (values[:, 0] + multiplier * values[:, 1]),
            margins[-1],
        )
        before = past if past is not None and optimistic else (quality, margin)
        past = quality, margin
        logits = logits + step * (2 * quality - before[0])
        logits -= logits.max(1, keepdims=True)
        multiplier = min(max(multiplier - dual_step * (2 * margin - before[1]), 0.0), largest)
    return rewards, margins


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many is shown")
    arguments = parser.parse_args()
    for model, problem in ((cliff_world(), "Cliff World"), (deep_sea(), "Deep Sea")):
        for method in ("npg-pd", "reload"):
            points, _ = configurations(method)
            batch = {name: np.array([point[name] for point in points]) for name in points[0]}
            trajectory(model, method, steps=2, **batch)  # warm up
            batched, plain = [], []
            for _ in range(arguments.repeat):
                started = time.process_time()
                run = trajectory(model, method, steps=arguments.steps, **batch)
                batched.append(time.process_time() - started)
                started = time.process_time()
                ends = [
                    plain_npg_pd(
                        model, **point, steps=arguments.steps, optimistic=method == "reload"
                    )
                    for point in points
                ]
                plain.append(time.process_time() - started)
            slow, fast = min(plain), min(batched)
            # iterates of a chaotic oscillation part from rounding on; early ones must agree
            early = np.array([end[0][:20] for end in ends]).T
            difference = np.abs(early - run.rewards[:20]).max()
            print(
                f"{problem:12} {method:7} {len(points)} configurations x {arguments.steps} steps:"
                f" loop {slow:.2f} s, batch {fast:.2f} s, ratio {slow / fast:.1f}, largest early"
                f" difference {difference:.1e}"
            )


if __name__ == "__main__":
    main()
