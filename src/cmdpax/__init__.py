"""cmdpax: constrained Markov decision processes, solved to one deployable policy with a proof of
how good it is.

>>> import cmdpax
>>> model = cmdpax.environments.cliff_world()
>>> result = cmdpax.solve(model, eps=1e-6)
>>> result.status, round(result.reward, 6)
('certified', 0.655402)
"""

from cmdpax import environments
from cmdpax.checker import check
from cmdpax.errors import CertificateError, CmdpaxError, InputError, NumericalError
from cmdpax.learning.policy import load_policy
from cmdpax.model.archive import load_model, load_result, save_model, save_result
from cmdpax.model.cmdp import CMDP, Grid
from cmdpax.model.result import Result
from cmdpax.solvers.certified import solve
from cmdpax.solvers.frontier import frontier
from cmdpax.solvers.table import methods, run

__version__ = "0.1.0"
__all__ = [
    "CMDP",
    "CertificateError",
    "CmdpaxError",
    "Grid",
    "InputError",
    "NumericalError",
    "Result",
    "check",
    "environments",
    "frontier",
    "load_model",
    "load_policy",
    "load_result",
    "methods",
    "run",
    "save_model",
    "save_result",
    "solve",
]
