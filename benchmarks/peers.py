"""The solvers that `vs_lp.py` compares, one function each: normalised model -> policy `[S, A]` (or
only its value).

Every peer gets the occupancy linear program in the form it likes best, one thread, and tolerances
tight enough for a certified 1e-6; what it returns is re-evaluated by us. Building the program and
recovering the policy count as its time.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from cmdpax import CMDP
from cmdpax.solvers.programs import occupancy_program, policy_of, solve_lp


class Value(NamedTuple):
    """The optimal value alone, normalised, and the CPU seconds it took."""

    value: float
    seconds: float


def highs(algorithm: str) -> Callable[[CMDP, float], np.ndarray]:
    def solve(model: CMDP, limit: float) -> np.ndarray:
        return solve_lp(model, algorithm, time_limit=limit).policy

    return solve


def pdlp(model: CMDP, limit: float) -> np.ndarray:
    """In a process of its own, see there; its start counts as its time (about half a second)."""
    program = occupancy_program(model)
    matrix = program.matrix
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "program.npz", Path(folder) / "solution.npy"
        np.savez(
            given,
            objective=program.objective,
            inflow=program.inflow,
            lower=program.lower,
            data=matrix.data,
            indices=matrix.indices,
            indptr=matrix.indptr,
            shape=matrix.shape,
        )
        worker = Path(__file__).with_name("pdlp_worker.py")
        subprocess.run(
            [sys.executable, str(worker), str(given), str(answer), str(limit)],
            check=True,
            capture_output=True,
        )
        return policy_of(model, np.load(answer).reshape(model.states, model.actions))


def clarabel(model: CMDP, limit: float) -> np.ndarray:
    import clarabel as engine

    program = occupancy_program(model)
    S, m, n = model.states, model.constraint_count, len(program.objective)
    flow, rows = program.matrix[:S], program.matrix[S:]
    # Clarabel: A x + s = b with s in the cones
    matrix = sp.csc_matrix(sp.vstack([flow, -rows, -sp.eye_array(n)]))
    right = np.concatenate([program.inflow, -program.lower, np.zeros(n)])
    settings = engine.DefaultSettings()
    settings.verbose, settings.max_threads, settings.time_limit = False, 1, limit
    cones = [engine.ZeroConeT(S), engine.NonnegativeConeT(m + n)]
    solver = engine.DefaultSolver(
        sp.csc_matrix((n, n)), -program.objective, matrix, right, cones, settings
    )
    return policy_of(model, np.array(solver.solve().x).reshape(model.states, model.actions))


def storm(model: CMDP, limit: float) -> Value:
    """Storm's multi-objective engine (Pareto curve by value iteration): a value at precision 1e-6,
    no policy.

    The discount becomes a jump to a sink. Writing the model as text and parsing it are a detour of
    ours and do not count.
    """
    import stormpy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.drn"
        _write_drn(model, path)
        mdp = stormpy.build_model_from_drn(str(path))
    environment = stormpy.Environment()
    environment.modelchecker().multi().precision = stormpy.Rational("1e-6")
    limits = ", ".join(f'R{{"c{i}"}}>={float(b)!r} [C]' for i, b in enumerate(model.thresholds))
    query = stormpy.parse_properties(f'multi(R{{"r"}}max=? [C], {limits})')[0]
    before = time.process_time()
    answer = stormpy.model_checking(mdp, query, environment=environment)
    return Value(float(answer.get_value(mdp.initial_states[0])), time.process_time() - before)


def _write_drn(model: CMDP, path: Path) -> None:
    """The model as a text file of Storm's, with an initial state that draws from the initial
    distribution.
    """
    S, A, m = model.states, model.actions, model.constraint_count
    names, zeros = ["r", *(f"c{i}" for i in range(m))], ", ".join("0" * (m + 1))
    with path.open("w") as out:
        out.write(f"@type: MDP\n@parameters\n\n@reward_models\n{' '.join(names)}\n")
        out.write(
            f"@nr_states\n{S + 2}\n@nr_choices\n{S * A + 2}\n@model\nstate 0 [{zeros}]"
            f" init\n\taction 0 [{zeros}]\n"
        )
        for s in np.nonzero(model.initial)[0]:
            out.write(f"\t\t{s + 1} : {float(model.initial[s])!r}\n")
        for s in range(S):
            out.write(f"state {s + 1} [{zeros}]\n")
            for a in range(A):
                gains = [
                    float(model.reward[s, a]),
                    *(float(row[s, a]) for row in model.constraints),
                ]
                out.write(f"\taction {a} [{', '.join(map(repr, gains))}]\n")
                targets: dict[int, float] = {}
                for t, p in zip(model.successors[s, a], model.probabilities[s, a], strict=True):
                    if p > 0:
                        targets[int(t) + 1] = targets.get(int(t) + 1, 0.0) + model.discount * float(
                            p
                        )
                targets[S + 1] = 1 - sum(targets.values())
                out.writelines(f"\t\t{t} : {targets[t]!r}\n" for t in sorted(targets))
        out.write(f"state {S + 1} [{zeros}] sink\n\taction 0 [{zeros}]\n\t\t{S + 1} : 1\n")


PEERS: dict[str, Callable[[CMDP, float], np.ndarray | Value]] = {
    "highs-simplex": highs("simplex"),
    "highs-ipm": highs("ipm"),
    "highs-hipo": highs("hipo"),
    "pdlp": pdlp,
    "clarabel": clarabel,
    "storm": storm,
}
