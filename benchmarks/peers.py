"""The solvers that `vs_lp.py` compares us with: `peer(scaled form, program, seconds) -> run`.

Each linear-programming solver gets the occupancy program in the form it likes best, one thread, and
tolerances tight enough for a certified 1e-6. What is built before is not timed: `run()` alone is,
and returns visits `[K]`, from which `vs_lp.py` makes a policy and evaluates it; or, where a peer
times itself or has no policy, an `Outcome`.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp

from cmdpax.exact.standard import StandardForm
from cmdpax.loops.bellman import greedy
from cmdpax.solvers.policy_classes import from_visits
from cmdpax.solvers.programs import ENGINES, OccupancyProgram


class Outcome(NamedTuple):
    """What a peer that times itself found: visits `[K]`, or the optimal value of the form alone."""

    found: np.ndarray | float
    seconds: float  # of the CPU


Peer = Callable[[StandardForm, OccupancyProgram, float], Callable[[], Any]]


def highs(algorithm: str, form: StandardForm, program: OccupancyProgram, seconds: float) -> Any:
    """HiGHS' simplex, IPX or HiPO; where crossover fails, as on long queues, it is left out."""
    matrix, solver, lp = program.matrix, highspy.Highs(), highspy.HighsLp()
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_, lp.col_lower_ = program.objective, np.zeros(lp.num_col_)
    lp.col_upper_ = np.full(lp.num_col_, highspy.kHighsInf)
    lp.row_lower_ = np.append(program.inflow, program.lower)
    lp.row_upper_ = np.append(program.inflow, np.full(len(program.lower), highspy.kHighsInf))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
    lp.a_matrix_.value_ = matrix.data
    lp.sense_ = highspy.ObjSense.kMaximize
    options = {"output_flag": False, "threads": 1, "solver": ENGINES.get(algorithm, algorithm)}
    options |= {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
    options |= {"ipm_optimality_tolerance": 1e-10, "time_limit": float(seconds)}
    for option, setting in options.items():
        if solver.setOptionValue(option, setting) != highspy.HighsStatus.kOk:
            raise RuntimeError(f"HiGHS does not take {option}={setting}; install highspy-extras")
    solver.passModel(lp)

    def run() -> np.ndarray:
        solver.run()
        if not solver.getSolution().value_valid and algorithm != "simplex":
            solver.setOptionValue("run_crossover", "off")
            solver.run()
        if not solver.getSolution().value_valid:
            said = solver.modelStatusToString(solver.getModelStatus())
            raise RuntimeError(f"HiGHS ended with '{said}' and no solution")
        return np.array(solver.getSolution().col_value)

    return run


def pdlp(form: StandardForm, program: OccupancyProgram, seconds: float) -> Callable[[], Outcome]:
    """In a process of its own, which times the solving alone."""
    matrix = program.matrix

    def run() -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            program_file, solution = Path(folder) / "program.npz", Path(folder) / "solution.npz"
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
            command = [sys.executable, worker, program_file, solution, str(seconds)]
            subprocess.run(command, check=True, capture_output=True)
            with np.load(solution) as found:
                return Outcome(found["visits"], float(found["seconds"]))

    return run


def clarabel(form: StandardForm, program: OccupancyProgram, seconds: float) -> Any:
    import clarabel as engine

    S, m, n = form.states, form.constraint_count, len(program.objective)
    flow, rows = program.matrix[:S], program.matrix[S:]
    # Clarabel: A x + s = b with s in the cones
    matrix = sp.csc_matrix(sp.vstack([flow, -rows, -sp.eye_array(n)]))
    right = np.concatenate([program.inflow, -program.lower, np.zeros(n)])
    cones = [engine.ZeroConeT(S), engine.NonnegativeConeT(m + n)]
    settings = engine.DefaultSettings()
    settings.verbose, settings.max_threads, settings.time_limit = False, 1, seconds
    numbers = sp.csc_matrix((n, n)), -program.objective, matrix, right, cones, settings
    return lambda: np.array(engine.DefaultSolver(*numbers).solve().x)


def policy_of(form: StandardForm, visits: np.ndarray) -> np.ndarray:
    """The policy of visits `[K]` that may be slightly negative; greedy where there are none."""
    best, _ = greedy(form.transitions.first_choice, form.reward)
    return from_visits(form, np.maximum(visits, 0), form.transitions.deterministic(best))


def storm(form: StandardForm, program: OccupancyProgram, seconds: float) -> Any:
    """Storm's multi-objective engine (Pareto curve by value iteration), at precision 1e-6.

    It gives a value and no policy, and knows no time limit: who takes too long is killed. The
    discount becomes a jump to a sink. Writing the model as text and parsing it are a detour of ours
    and do not count. Without constraints it is its value iteration, at the same precision.
    """
    import stormpy

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.drn"
        write_drn(form, file)
        mdp = stormpy.build_model_from_drn(str(file))
    environment = stormpy.Environment()
    environment.modelchecker().multi().precision = stormpy.Rational("1e-6")
    limits = "".join(f', R{{"c{i}"}}>={float(b)!r} [C]' for i, b in enumerate(form.thresholds))
    text = f'multi(R{{"r"}}max=? [C]{limits})' if limits else 'R{"r"}max=? [C]'
    query = stormpy.parse_properties(text)[0]

    def run() -> Outcome:
        started = time.process_time()
        answer = stormpy.model_checking(mdp, query, environment=environment)
        value = float(answer.get_value(mdp.initial_states[0]))
        return Outcome(value, time.process_time() - started)

    return run


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


PEERS: dict[str, Peer] = {  # the most promising first
    "clarabel": clarabel,
    "highs-simplex": partial(highs, "simplex"),
    "highs-ipm": partial(highs, "ipm"),
    "highs-hipo": partial(highs, "hipo"),
    "storm": storm,
    "pdlp": pdlp,
}
