"""What does Lin-ReLOAD lose with plain least squares instead of our regression?

    python benchmarks/plain_least_squares.py [--methods lin-reload] [--out results/linear]

The compatible regression of `LogLinear.natural_gradient` raises the policy to 1e-9 of uniform and
adds a ridge in the last digits. Here it is `numpy.linalg.pinv` of the weighted score functions, as
the formula says and a first implementation would have it:

    w = argmin_w sum_{s,a} d(s) pi(a|s) (<phi(s,a) - E_pi phi(s,.), w> - Q(s,a))^2.

Everything else is the log-linear study: grids, budget, selection. Into the folder goes the table
`plain-least-squares`: the |gap| of what is selected, with ours from the records beside it.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.environments.by_name import open_model, tiles
from cmdpax.experiments.results import write_table
from cmdpax.paper import settings as paper
from cmdpax.paper.exact_study import ExactStudy, search
from cmdpax.solvers.log_linear import Features, LogLinear

RECORDS = Path(__file__).parents[1] / "results" / "linear"
STRICT = min(paper.TOLERANCES)
COLUMNS = ("problem", "d", "method", "regression", "settings", "size of the gap", "violation")
OURS, PLAIN = "floor and ridge (ours)", "plain least squares"


def plain_natural_gradient(
    policies: LogLinear, parameters: Any, share: Any, policy: Any, action_values: Any
) -> Any:
    """The shortest least-squares solution `[..., r]`; arguments as for `natural_gradient`."""
    features = policies.features
    phi = features.group_features[features.groups]  # [S, A, r]
    centred = phi - np.einsum("...sa,sar->...sr", policy, phi)[..., None, :]
    advantage = action_values - (policy * action_values).sum(-1, keepdims=True)
    root = np.sqrt(share[..., None] * policy)
    *batch, states, actions = root.shape
    rows = (root[..., None] * centred).reshape(*batch, states * actions, -1)
    wanted = (root * advantage).reshape(*batch, states * actions)
    return np.einsum("...rn,...n->...r", np.linalg.pinv(rows), wanted)


def row(study: ExactStudy, method: str, name: str, settings: Any, gap: Any, violated: Any) -> list:
    """A row of the table; None: no configuration is within the tolerance."""
    if settings is None:
        words, errors = "none within the limit", ["-", "-"]
    else:
        words = ", ".join(f"{key} {value:g}" for key, value in settings.items())
        errors = [f"{abs(gap):.3g}", f"{max(violated, 0):.3g}"]
    return [paper.PROBLEMS[study.problem], study.dimension, method, name, words, *errors]


def compare(study: ExactStudy, method: str) -> list[list]:
    """The recorded regression and the plain one, each with the best of the method's grid."""
    model, label = open_model(study.problem), paper.Entry(method).label
    curve = study.selected(STRICT).get(label)
    ours = None if curve is None else study.row(curve)
    kept = (
        (None, None, None) if ours is None else (ours["settings"], ours["gap"], ours["violation"])
    )
    features = Features(tiles(model.states, model.actions, *study.tiles))
    changed, LogLinear.natural_gradient = LogLinear.natural_gradient, plain_natural_gradient
    try:
        result = search(model, paper.Entry(method), study.header["optimum"], features)
    finally:
        LogLinear.natural_gradient = changed
    winner = result.winner(STRICT)
    plain: tuple = (None, None, None)
    if winner is not None:
        errors = (result.judged[key][winner] for key in ("gap", "violation"))
        plain = (result.settings(winner), *errors)
    return [row(study, label, OURS, *kept), row(study, label, PLAIN, *plain)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", default="lin-reload")
    parser.add_argument("--out", type=Path, default=RECORDS)
    options = parser.parse_args()
    rows = []
    for problem in paper.PROBLEMS:
        for size in paper.TILES:
            study = ExactStudy(problem, size).read(RECORDS)
            for method in options.methods.split(","):
                rows += compare(study, method)
                print(*rows[-2:], sep="\n", flush=True)
                write_table(options.out / "plain-least-squares", COLUMNS, rows)


if __name__ == "__main__":
    main()
