"""The command line. Exit codes: 0 certified, 1 check failed, 2 bad input, 3 infeasible, 4 limit reached, 5 marginal."""

import sys
from collections.abc import Callable, Sequence

import tyro

from cmdpax.commands import exact, studies, sweeping, training
from cmdpax.errors import CertificateError, InputError, NumericalError

COMMANDS: dict[str, Callable[..., int]] = {
    "solve": exact.solve,
    "check": exact.check,
    "frontier": exact.frontier,
    "show": exact.show,
    "export": exact.export,
    "train": training.train,
    "evaluate": training.evaluate,
    "film": training.film,
    "check-env": training.check_env,
    "list": exact.list_,
    "demo": studies.demo,
    "sweep": sweeping.sweep,
    "reproduce": studies.reproduce,
    "report": studies.report,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code; bad input gets one sentence and code 2."""
    try:
        code = tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="cmdpax", description=__doc__, args=arguments)
    except InputError as error:
        code = _complain(error, 2)
    except (CertificateError, NumericalError) as error:
        code = _complain(error, 1)
    except BrokenPipeError:
        code = 0
    except OSError as error:
        code = _complain(error, 2)
    except MemoryError:
        code = _complain("there is not enough memory for this model; use fewer states, actions or successors.", 2)
    except KeyboardInterrupt as error:
        code = _complain(str(error) or "interrupted.", 130)
    except Exception as error:  # a fault of ours: still one sentence, and it says so
        code = _complain(f"internal error, please report it: {type(error).__name__}: {error}", 1)
    sys.exit(code)


def _complain(sentence: object, code: int) -> int:
    print(f"cmdpax: {sentence}", file=sys.stderr)
    return code
