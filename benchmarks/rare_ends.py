"""What do the samples of a run say about rare ends, to a learner that forgets nothing?

    python benchmarks/rare_ends.py [--tasks raft,climb,ferry,rare-end] [--draws 20] [--shares 1,4]

The oracle sees as many transitions as a run of the suite has, of the uniform policy. It knows the
states and which steps are possible, counts what followed (half a bad end beforehand for every state
and action that may have one), solves the counted model exactly with the task's limit, and its
policy is judged on the true one. It throws no batch away, and needs no policy gradient.
Bad ends: how many the uniform policy meets, and how many an optimal one would. `--shares`: the same
with a multiple of the samples.
"""

import argparse
from dataclasses import replace

import numpy as np
from known_optima import selected
from known_optima_tasks import TASKS, Finite, Task, kept_answers, regret, violations

import cmdpax

Array = np.ndarray


def counted(problem: Finite, samples: int, random: np.random.Generator) -> tuple[Finite, int]:
    """The model as counts show it after so many steps of the uniform policy, and the bad ends."""
    (S, A), horizon = problem.reward.shape, problem.horizon
    counts, state, visits = np.zeros((S, A, S)), problem.initial, np.zeros(S)
    for _ in range(horizon):  # expected, of each state
        visits, state = visits + state * (samples / horizon), state @ problem.transitions.mean(1)
    for s, a in np.ndindex(S, A):
        counts[s, a] = random.multinomial(int(visits[s] / A), problem.transitions[s, a])
    bad = np.flatnonzero(np.max(list(problem.costs.values()), axis=0).max(-1) > 0)
    met = int(counts[:, :, bad].sum())
    possible = problem.transitions > 0
    seen = counts + possible * 0.5 * np.isin(np.arange(S), bad)
    total = seen.sum(-1, keepdims=True)
    rows = np.where(total > 0, seen / np.where(total > 0, total, 1), problem.transitions)
    return replace(problem, transitions=rows), met


def best_policy(task: Task, problem: Finite) -> Array:
    """The optimal policy of a counted model, `[T, S, A]`."""
    result = cmdpax.solve(problem.model(task.parsed, task.discount), eps=1e-6)
    S, A = problem.reward.shape
    return np.asarray(result.policy)[: problem.horizon * S].reshape(problem.horizon, S, A)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default="raft,climb,ferry,rare-end")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--shares", default="1,4")
    options = parser.parse_args()
    print("| task | samples | bad ends seen | in episodes of the optimum | violation in %: median,"
          " nine of ten below | regret in %: median |\n|---|---|---|---|---|---|")  # fmt: skip
    for name in selected(options.tasks):
        task, answer = TASKS[name], kept_answers()[name]
        problem, names = task.problem, task.parsed.names
        assert isinstance(problem, Finite) and problem.horizon
        for share in map(float, options.shares.split(",")):
            samples, beyond, lost, met = int(task.samples * share), [], [], []
            for draw in range(options.draws):
                model, ends = counted(problem, samples, np.random.default_rng(draw))
                mean, *costs = problem.values(best_policy(task, model), names, task.discount)
                beyond.append(max(violations(task, answer, dict(zip(names, costs))).values()))
                lost.append(regret(answer, mean))
                met.append(ends)
            optimal = samples / problem.horizon * abs(task.parsed.entries[0])
            print(
                f"| {name} | {samples:,} | {np.mean(met):,.0f} | {optimal:,.0f} |"
                f" {np.median(beyond):+.0f}, {np.quantile(beyond, 0.9):+.0f} |"
                f" {np.median(lost):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
