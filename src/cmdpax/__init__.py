"""cmdpax: constrained Markov decision processes, solved to one deployable policy with a proof.

>>> import cmdpax
>>> model = cmdpax.environments.cliff_world()
>>> result = cmdpax.solve(model)
>>> result.status, round(result.reward, 6)
('certified', 0.655402)
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

__version__ = version("cmdpax")
_HOMES = {  # where each public name lives; a module is loaded when a name of it is first used
    "checker.check": ("Verified", "check"),
    "errors": ("CertificateError", "CmdpaxError", "InputError", "NumericalError"),
    "learning.evaluation": ("Evidence", "evaluate"),
    "learning.margins": ("Verdict",),
    "learning.portable": ("Policy", "load_policy", "save_policy"),
    "learning.training": ("Training", "train"),
    "model.archive": ("load_model", "load_result", "save_model", "save_result"),
    "model.cmdp": ("CMDP",),
    "model.arguments": ("Grid",),
    "model.limits": ("Limits",),
    "model.result": (
        "Certificate",
        "FrontierPoint",
        "FrontierRegion",
        "Result",
        "TradeOff",
        "Trajectory",
    ),
    "solvers.algorithm": ("AugmentedLagrangian", "CertifiedGap", "Oracle"),
    "solvers.description": ("Description", "describe"),
    "solvers.frontier": ("frontier", "frontier_between"),
    "solvers.many": ("solve_many",),
    "solvers.log_linear": ("Features",),
    "solvers.solve": ("solve",),
    "solvers.surface": ("frontier_surface",),
    "solvers.table": ("Method", "methods"),
    "solvers.trajectory": ("certified_gaps", "trajectory"),
    "utilities.utility": ("Utility",),
}
_MODULES = ("environments", "utilities")
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted([*_HOME, *_MODULES])

if TYPE_CHECKING:
    from cmdpax import environments, utilities
    from cmdpax.checker.check import Verified, check
    from cmdpax.errors import CertificateError, CmdpaxError, InputError, NumericalError
    from cmdpax.learning.evaluation import Evidence, evaluate
    from cmdpax.learning.margins import Verdict
    from cmdpax.learning.portable import Policy, load_policy, save_policy
    from cmdpax.learning.training import Training, train
    from cmdpax.model.archive import load_model, load_result, save_model, save_result
    from cmdpax.model.arguments import Grid
    from cmdpax.model.cmdp import CMDP
    from cmdpax.model.limits import Limits
    from cmdpax.model.result import (
        Certificate,
        FrontierPoint,
        FrontierRegion,
        Result,
        TradeOff,
        Trajectory,
    )
    from cmdpax.solvers.algorithm import AugmentedLagrangian, CertifiedGap, Oracle
    from cmdpax.solvers.description import Description, describe
    from cmdpax.solvers.frontier import frontier, frontier_between
    from cmdpax.solvers.log_linear import Features
    from cmdpax.solvers.many import solve_many
    from cmdpax.solvers.solve import solve
    from cmdpax.solvers.surface import frontier_surface
    from cmdpax.solvers.table import Method, methods
    from cmdpax.solvers.trajectory import certified_gaps, trajectory
    from cmdpax.utilities.utility import Utility


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"cmdpax.{name}")
    elif name in _HOME:
        value = getattr(import_module(f"cmdpax.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'cmdpax' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _WithGymnasium:
    """Tells Gymnasium our robots' names when somebody imports it: 1.0 dropped its plug-ins."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Gymnasium's own specification, whose loader registers the robots at its end."""
        spec = PathFinder.find_spec(name, path) if name == "gymnasium" else None
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: Any) -> None:
                load(module)
                import_module("cmdpax.learning.robots").register()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


if "gymnasium" in sys.modules:
    import_module("cmdpax.learning.robots").register()
else:
    sys.meta_path.insert(0, _WithGymnasium)
