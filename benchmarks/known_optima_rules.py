"""Which policy of a run is the one to deploy: the last, an average, or the best that was tried?

    last      the policy after the last update
    average   the mean of the weights over the last tenth of the updates, with the last statistics
              of observations
    best      of ten policies, evenly spaced over the last third, each tried by 20 episodes: the
              largest mean return among those whose mean costs keep the limits, else the smallest
              excess; the episodes are samples, too

Each of them is judged as the last one is: exactly where the model is finite, else by 200 episodes,
others than those it was chosen by. `known_optima.py --rules` makes the records.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from known_optima_tasks import Answer, Task, kept_answers, outcome, scores, tried, violations

Row = dict[str, Any]
RULES = ("last", "average", "best")
CANDIDATES, EPISODES, TRIAL_SEED = 10, 20, 1


class Trail:
    """The policies that the rules need, read from a run's folder after each update."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.updates, self.policies = folder, 0, dict[int, Any]()

    def add(self, update: int) -> None:
        """Keep the policy of the newest checkpoint; there must be one after every update."""
        import cmdpax
        from cmdpax.learning.run_folder import RunFolder

        if not self.updates:
            config = RunFolder(self.folder).config
            self.updates = config["samples"] // config["batch"]
        if update in (*candidates(self.updates), *late(self.updates)):
            self.policies[update] = cmdpax.load_policy(self.folder).core
            assert self.policies[update].updates == update

    def outcomes(self, task: Task, answer: Answer) -> dict[str, Row]:
        """What each rule's policy is worth, and the samples that choosing it took."""
        average = averaged([self.policies[update] for update in late(self.updates)])
        best, samples = self.best(task, answer)
        chosen = {"last": (self.policies[self.updates], 0), "average": (average, 0)}
        chosen["best"] = (best, samples)
        return {
            rule: {**outcome(task, answer, policy), "samples": spent}
            for rule, (policy, spent) in chosen.items()
        }

    def best(self, task: Task, answer: Answer) -> tuple[Any, int]:
        """The best policy by a few episodes of each, and the samples that took."""
        environment, ranks, samples = task.problem.environment(), {}, 0
        for update in candidates(self.updates):
            policy = self.policies[update]
            means, steps = tried(
                environment, policy, task.parsed, task.discount, EPISODES, TRIAL_SEED
            )
            samples += steps
            ranks[update] = rank(means["return"], violations(task, answer, means["cost"]))
        return self.policies[max(ranks, key=ranks.__getitem__)], samples


def candidates(updates: int) -> list[int]:
    """The updates whose policies are tried: the last of them is the last of the run."""
    shares = 2 / 3 + np.arange(1, CANDIDATES + 1) / (3 * CANDIDATES)
    return sorted({max(1, round(updates * share)) for share in shares.tolist()})


def late(updates: int) -> range:
    """The last tenth of the updates."""
    return range(updates - max(1, updates // 10) + 1, updates + 1)


def rank(mean: float, violation: dict[str, float]) -> tuple[float, float]:
    """Larger is better: first a smaller excess of the worst limit, then a larger return."""
    return -max(0.0, *violation.values()), mean


def averaged(policies: list[Any]) -> Any:
    """The last policy with the mean of all weights, biases and deviations."""

    def mean(arrays: Any) -> np.ndarray:
        return np.mean(np.stack(list(arrays)), axis=0, dtype=np.float64).astype(np.float32)

    last = policies[-1]
    return replace(
        last,
        weights=[mean(layer) for layer in zip(*(one.weights for one in policies))],
        biases=[mean(layer) for layer in zip(*(one.biases for one in policies))],
        log_std=None if last.log_std is None else mean(one.log_std for one in policies),
    )


def rules_table(rows: list[Row]) -> str:
    """Markdown: every rule over all pairs of task and seed, of all methods, then of each.

    A limit that cannot be met has no part in this, as in the criteria.
    """
    answers = kept_answers()
    rows = [row for row in rows if "rules" in row and answers[row["task"]].least is None]
    lines = [
        "| method | rule | pairs | violation <= 5% | largest violation | median regret |"
        " regret <= 20% | extra samples, in % of the run's: median, largest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    methods = sorted({row["method"] for row in rows})
    for method in ["all", *methods] if len(methods) > 1 else methods:
        group = [row for row in rows if method in ("all", row["method"])]
        for rule in RULES:
            outcomes = [row["rules"].get(rule, {}) for row in group]
            within, largest, median, small = scores(outcomes)
            spent = [
                100 * one["samples"] / row["samples"] for one, row in zip(outcomes, group) if one
            ]
            extra = f"{np.median(spent):.0f}, {max(spent):.0f}" if spent else "-"
            lines.append(
                f"| {method} | {rule} | {len(group)} | {within:.0%} | {largest:+.1f}% |"
                f" {median:.1f}% | {small:.0%} | {extra} |"
            )
    return "\n".join(lines)
