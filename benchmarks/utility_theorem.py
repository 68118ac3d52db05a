"""PQA on general utilities: measured gaps beside the paper's bound, for every K.

    F* - F(pi_K) <= 32 L (1 + 1/((1-gamma) rho_min)) / ((1-gamma)^2 rho_min K),   step rho_min / L.

That is the theorem as printed; its proof has `rho_min^2` in the denominator, which is weaker. On
Cliff World and on a model of two states, both with a positive initial distribution, for the squared
distance to visits and for a soft limit. Writes `docs/images/pqa-theorem.png`, or another file.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import cmdpax
from cmdpax import utilities
from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.pictures import STYLES, save
from cmdpax.solvers.climb import objective_of

STEPS = 3000


def two_states() -> cmdpax.CMDP:
    """Stay or leave, in two states."""
    transitions = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.8, 0.2]]])
    return cmdpax.CMDP(transitions, np.array([[1.0, 0.0], [0.0, 0.5]]), [], [], [0.5, 0.5], 0.8)


def cliff() -> cmdpax.CMDP:
    """Cliff World without its limit, from a uniform start."""
    model = cmdpax.environments.cliff_world()
    start = np.full(model.states, 1 / model.states)
    return model.replace(constraints=[], thresholds=[], senses=None, initial=start)


def measured(
    model: cmdpax.CMDP, utility: utilities.Utility, steps: int = STEPS
) -> tuple[np.ndarray, np.ndarray]:
    """Gaps to a proven bound on the optimum, and the theorem's bounds, for K = 1, 2, ..."""
    linear, objective = objective_of(model, utility)
    L = objective.smoothness(StandardForm.of(linear))
    budget = {"step": "theory", "outer": 1, "inner": steps}
    run = cmdpax.trajectory(model, "pqa-alm", utility=utility, **budget)
    best = cmdpax.solve(model, utility=utility, eps=1e-6).certificate.dual_bound
    K, least, unit = np.arange(1, steps + 1), model.initial.min(), 1 - model.discount
    bound = 32 * L * (1 + 1 / (unit * least)) / (unit**2 * least * K)
    return best - run.rewards[1:], bound


def smooth_ones(model: cmdpax.CMDP) -> dict[str, utilities.Utility]:
    """Two smooth utilities, one of visits and one of a value, by what they are called."""
    corner = np.zeros((model.states, model.actions))
    corner[0, 0] = 1.0
    most = 0.5 * float(cmdpax.solve(model).reward)
    return {
        "squared distance to one pair": utilities.distance(corner),
        "soft limit on the reward": utilities.soft_limit("reward", most=most, least=most),
    }


def main(path: Path) -> None:
    """Draw four panels; stop if a gap lies above its bound."""
    figure = Figure(figsize=(10, 6.4))
    panels = figure.subplots(2, 2, sharex=True)
    models = {"two states": two_states(), "Cliff World": cliff()}
    for column, (name, model) in enumerate(models.items()):
        for row, (kind, utility) in enumerate(smooth_ones(model).items()):
            gaps, bound = measured(model, utility)
            assert (gaps <= bound).all(), (name, kind)
            axes, K = panels[row][column], np.arange(1, STEPS + 1)
            axes.loglog(K, bound, label="bound of the theorem", **STYLES[1])
            axes.loglog(K, np.maximum(gaps, 1e-16), label="measured gap", **STYLES[0])
            axes.set_title(f"{name}: {kind}", fontsize=10)
            axes.grid(alpha=0.3)
            axes.set_ylabel("F* - F")
            print(f"{name}, {kind}: gap {gaps[-1]:.3g} of {gaps[0]:.3g}, bound {bound[-1]:.3g}")
    panels[0][0].legend(frameon=False)
    for axes in panels[1]:
        axes.set_xlabel("steps K of PQA")
    figure.tight_layout()
    save(figure, path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/pqa-theorem.png"))
