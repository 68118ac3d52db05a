"""The command line.

Exit codes: 0 certified, 1 check failed, 2 bad input, 3 infeasible, 4 limit, 130 interrupted.
"""

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import tyro

import cmdpax
from cmdpax.cli import exact, experiments
from cmdpax.cli import learning as training
from cmdpax.cli.terminal import complain
from cmdpax.errors import CertificateError, InputError, NumericalError
from cmdpax.learning.config import TrainConfig

COMMANDS: dict[str, Callable[..., int]] = {
    "solve": exact.solve,
    "check": exact.check,
    "frontier": exact.frontier,
    "describe": exact.describe,
    "show": exact.show,
    "export": exact.export,
    "train": training.train,
    "evaluate": training.evaluate,
    "film": training.film,
    "publish": training.publish,
    "check-env": training.check_env,
    "list": exact.list_,
    "demo": experiments.demo,
    "sweep": experiments.sweep,
    "reproduce": experiments.reproduce,
    "report": experiments.report,
}
SCIENTIFIC = re.compile(r"\d+(\.\d+)?[eE]\+?\d{1,2}")
# of `train`, what other libraries call it
FOREIGN = {"--lr": "--learning-rate", "--gamma": "--discount", "--lam": "--gae"}
FOREIGN |= {"--steps": "--samples", "--total-steps": "--samples", "--total-timesteps": "--samples"}
FOREIGN |= {"--epochs": "--passes", "--minibatch-size": "--minibatch", "--batch-size": "--batch"}
FOREIGN |= {"--cost-limit": "--limit", "--target-kl": "--kl-stop", "--policy": "--network"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code; bad input gets one sentence, a warning too."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: complain(message)
        sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"cmdpax {cmdpax.__version__}")
        return 0
    try:
        words = [*map(_whole, words)]
        _refuse_repeated(words)
        _refuse_foreign(words)
        return tyro.extras.subcommand_cli_from_dict(
            _commands(words), prog="cmdpax", description=__doc__, args=words
        )
    except InputError as error:
        return _complain(error, 2)
    except (CertificateError, NumericalError) as error:
        return _complain(error, 1)
    except BrokenPipeError:
        return 0
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}." if error.filename else error, 2)
    except MemoryError:
        remedy = "use fewer states, actions or successors"
        return _complain(f"there is not enough memory for this model; {remedy}.", 2)
    except KeyboardInterrupt as error:
        return _complain(str(error) or "interrupted.", 130)
    except Exception as error:  # a fault of ours: still one sentence, and it says so
        return _complain(f"internal error, please report it: {type(error).__name__}: {error}", 1)


def _commands(words: Sequence[str]) -> dict[str, Callable[..., int]]:
    if _given(words, "--preset") != "paper":
        return COMMANDS
    method = _given(words, "--method") or TrainConfig.method
    return {**COMMANDS, "train": training.train_as_the_paper(method)}


def _given(words: Sequence[str], option: str) -> str | None:
    """The value of an option, before parsing."""
    joined = (word.partition("=")[::2] for word in words if "=" in word)
    return dict([*pairwise(words), *joined]).get(option)


def _refuse_repeated(words: Sequence[str]) -> None:
    """An option given twice would count once; a limit that nobody sees dropped protects nobody."""
    options = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
    for option, times in Counter(option.replace("_", "-") for option in options).items():
        if times > 1:
            remedy = "give it once, with all of its values after it"
            raise InputError(f"{option} is given {times} times; {remedy}.")


def _whole(word: str) -> str:
    """`1e5` as `100000`, also in `--samples=1e5`: whole numbers may be written so."""
    ahead, equals, text = word.rpartition("=") if word.startswith("--") else ("", "", word)
    if not SCIENTIFIC.fullmatch(text) or (number := float(text)) % 1:
        return word
    return f"{ahead}{equals}{number:.0f}"


def _refuse_foreign(words: Sequence[str]) -> None:
    """Options of `train` that other libraries call so."""
    for word in words if words[:1] == ["train"] else []:
        option = word.partition("=")[0].replace("_", "-")
        if option in FOREIGN:
            raise InputError(f"{option} is not known; did you mean '{FOREIGN[option]}'?")


def _complain(sentence: object, code: int) -> int:
    complain(sentence)
    return code
