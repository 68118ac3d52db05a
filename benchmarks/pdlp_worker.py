"""PDLP in a process of its own: OR-Tools has a HiGHS too, and two cannot be loaded together.

    python benchmarks/pdlp_worker.py PROGRAM.npz SOLUTION.npz SECONDS

`peers.py` writes the program, starts this and reads the solution.
"""

import sys
import time

import numpy as np
import scipy.sparse as sp
from ortools.pdlp import solvers_pb2
from ortools.pdlp.python import pdlp


def main(program_file: str, solution_file: str, seconds: str) -> None:
    program = np.load(program_file)
    objective, inflow, lower = program["objective"], program["inflow"], program["lower"]
    parts = program["data"], program["indices"], program["indptr"]
    problem = pdlp.QuadraticProgram()
    problem.objective_vector = -objective
    problem.constraint_matrix = sp.csc_matrix(parts, shape=program["shape"])
    problem.constraint_lower_bounds = np.append(inflow, lower)
    problem.constraint_upper_bounds = np.append(inflow, np.full_like(lower, np.inf))
    problem.variable_lower_bounds = np.zeros_like(objective)
    problem.variable_upper_bounds = np.full_like(objective, np.inf)
    parameters = solvers_pb2.PrimalDualHybridGradientParams()
    criteria = parameters.termination_criteria
    criteria.simple_optimality_criteria.eps_optimal_absolute = 1e-8
    criteria.simple_optimality_criteria.eps_optimal_relative = 1e-8
    criteria.time_sec_limit = float(seconds)
    started = time.process_time()
    visits = pdlp.primal_dual_hybrid_gradient(problem, parameters).primal_solution
    np.savez(solution_file, visits=visits, seconds=time.process_time() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
