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
from cmdpax.deep.policy import load_policy
from cmdpax.errors import CertificateError, CmdpaxError, InputError, NumericalError
from cmdpax.frontier import frontier
from cmdpax.methods import methods, run
from cmdpax.model import CMDP, Grid
from cmdpax.result import Result
from cmdpax.solve import solve
from cmdpax.storage import load_model, load_result, save_model, save_result

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
