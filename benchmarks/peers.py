"""The solvers that `vs_lp.py` compares us with: `peer(scaled form, seconds) -> policy or Value`.

Each linear-programming solver gets the occupancy program in the form it likes best, one thread, and
tolerances tight enough for a certified 1e-6; `vs_lp.py` evaluates the policy `[S, A]` it returns.
Building the program and recovering the policy count as its time.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from cmdpax.exact.standard import StandardForm
from cmdpax.loops.bellman import greedy
from cmdpax.solvers.policy_classes import from_visits
from cmdpax.solvers.programs import Algorithm, occupancy_program, solve_program


class Value(NamedTuple):
    """The optimal value alone, scaled as the form is, and the CPU seconds it took."""

    value: float
    seconds: float


Peer = Callable[[StandardForm, float], np.ndarray | Value]


def highs(algorithm: Algorithm, form: StandardForm, seconds: float) -> np.ndarray:
    return solve_program(form, algorithm, seconds)[0]


def pdlp(form: StandardForm, seconds: float) -> np.ndarray:
    """In a process of its own, whose start (about half a second) counts as its time."""
    program = occupancy_program(form)
    matrix = program.matrix
    with tempfile.TemporaryDirectory() as folder:
        program_file, solution_file = Path(folder) / "program.npz", Path(folder) / "solution.npy"
        np.savez(
            program_file,
            objective=program.objective,
            inflow=program.inflow,
            lower=program.lower,
            data=matrix.data,
            indices=matrix.indices,
            indptr=matrix.indptr,
            shape=matrix.shape,
        )
        worker = Path(__file__).with_name("pdlp_worker.py")
        command = [sys.executable, worker, program_file, solution_file, str(seconds)]
        subprocess.run(command, check=True, capture_output=True)
        return policy_of(form, np.load(solution_file))


def clarabel(form: StandardForm, seconds: float) -> np.ndarray:
    import clarabel as engine

    program = occupancy_program(form)
    S, m, n = form.states, form.constraint_count, len(program.objective)
    flow, rows = program.matrix[:S], program.matrix[S:]
    # Clarabel: A x + s = b with s in the cones
    matrix = sp.csc_matrix(sp.vstack([flow, -rows, -sp.eye_array(n)]))
    right = np.concatenate([program.inflow, -program.lower, np.zeros(n)])
    cones = [engine.ZeroConeT(S), engine.NonnegativeConeT(m + n)]
    settings = engine.DefaultSettings()
    settings.verbose, settings.max_threads, settings.time_limit = False, 1, seconds
    quadratic = sp.csc_matrix((n, n))
    solver = engine.DefaultSolver(quadratic, -program.objective, matrix, right, cones, settings)
    return policy_of(form, np.array(solver.solve().x))


def policy_of(form: StandardForm, visits: np.ndarray) -> np.ndarray:
    """The policy of visits `[K]` that may be slightly negative; greedy where there are none."""
    best, _ = greedy(form.transitions.first_choice, form.reward)
    return from_visits(form, np.maximum(visits, 0), form.transitions.deterministic(best))


def storm(form: StandardForm, seconds: float) -> Value:
    """Storm's multi-objective engine (Pareto curve by value iteration), at precision 1e-6.

    It gives a value and no policy, and knows no time limit: who takes too long is killed. The
    discount becomes a jump to a sink. Writing the model as text and parsing it are a detour of ours
    and do not count.
    """
    import stormpy

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.drn"
        write_drn(form, file)
        mdp = stormpy.build_model_from_drn(str(file))
    environment = stormpy.Environment()
    environment.modelchecker().multi().precision = stormpy.Rational("1e-6")
    limits = ", ".join(f'R{{"c{i}"}}>={float(b)!r} [C]' for i, b in enumerate(form.thresholds))
    query = stormpy.parse_properties(f'multi(R{{"r"}}max=? [C], {limits})')[0]
    started = time.process_time()
    answer = stormpy.model_checking(mdp, query, environment=environment)
    return Value(float(answer.get_value(mdp.initial_states[0])), time.process_time() - started)


def write_drn(form: StandardForm, file: Path) -> None:
    """The form as a text file of Storm's: state 0 draws the first state, the last is a sink."""
    S, K, m, chain = form.states, form.choices, form.constraint_count, form.transitions
    rows, sink = np.stack([form.reward, *form.constraints], axis=-1), S + 1
    names, zeros = ["r", *(f"c{i}" for i in range(m))], ", ".join("0" * (m + 1))
    with file.open("w") as out:
        out.write(f"@type: MDP\n@parameters\n\n@reward_models\n{' '.join(names)}\n")
        out.write(f"@nr_states\n{S + 2}\n@nr_choices\n{K + 2}\n@model\n")
        out.write(f"state 0 [{zeros}] init\n\taction 0 [{zeros}]\n")
        for s in np.flatnonzero(form.initial):
            out.write(f"\t\t{s + 1} : {float(form.initial[s])!r}\n")
        for s in range(S):
            out.write(f"state {s + 1} [{zeros}]\n")
            for k in range(chain.first_choice[s], chain.first_choice[s + 1]):
                paid = ", ".join(map(repr, rows[k].tolist()))
                out.write(f"\taction {k - chain.first_choice[s]} [{paid}]\n")
                own = slice(chain.first_entry[k], chain.first_entry[k + 1])
                successors, chances = chain.successors[own], chain.probabilities[own]
                moves = zip(successors.tolist(), chances.tolist(), strict=True)
                targets = {t + 1: form.criterion.discount * p for t, p in moves}
                targets[sink] = 1 - sum(targets.values())
                out.writelines(f"\t\t{t} : {p!r}\n" for t, p in targets.items())
        out.write(f"state {sink} [{zeros}] sink\n\taction 0 [{zeros}]\n\t\t{sink} : 1\n")


PEERS: dict[str, Peer] = {
    "highs-simplex": partial(highs, "simplex"),
    "highs-ipm": partial(highs, "ipm"),
    "highs-hipo": partial(highs, "hipo"),
    "pdlp": pdlp,
    "clarabel": clarabel,
    "storm": storm,
}
