"""PDLP in a process of its own: OR-Tools carries another HiGHS, and the two cannot be loaded
together.

python pdlp_worker.py PROGRAM.npz SOLUTION.npy SECONDS
"""

import sys

import numpy as np
import scipy.sparse as sp
from ortools.pdlp import solvers_pb2
from ortools.pdlp.python import pdlp


def main() -> None:
    given = np.load(sys.argv[1])
    problem = pdlp.QuadraticProgram()
    problem.objective_vector = -given["objective"]
    problem.constraint_matrix = sp.csc_matrix(
        (given["data"], given["indices"], given["indptr"]), shape=given["shape"]
    )
    problem.constraint_lower_bounds = np.append(given["inflow"], given["lower"])
    problem.constraint_upper_bounds = np.append(
        given["inflow"], np.full(len(given["lower"]), np.inf)
    )
    problem.variable_lower_bounds = np.zeros(len(given["objective"]))
    problem.variable_upper_bounds = np.full(len(given["objective"]), np.inf)
    parameters = solvers_pb2.PrimalDualHybridGradientParams()
    criteria = parameters.termination_criteria
    criteria.simple_optimality_criteria.eps_optimal_absolute = 1e-8
    criteria.simple_optimality_criteria.eps_optimal_relative = 1e-8
    criteria.time_sec_limit = float(sys.argv[3])
    np.save(sys.argv[2], pdlp.primal_dual_hybrid_gradient(problem, parameters).primal_solution)


if __name__ == "__main__":
    main()
