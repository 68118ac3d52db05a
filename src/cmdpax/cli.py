"""The command line. Exit codes: 0 certified, 1 check failed, 2 bad input, 3 infeasible, 4 limit reached, 5 marginal."""

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.status import Status as Spinner
from rich.table import Table

from cmdpax import checker
from cmdpax.deep.config import TrainConfig, paper_settings
from cmdpax.environments import finite
from cmdpax.errors import CertificateError, InputError, NumericalError, did_you_mean
from cmdpax.frontier import frontier as trace_frontier
from cmdpax.methods import methods, run
from cmdpax.model import CMDP
from cmdpax.result import Result
from cmdpax.sources import open_features, open_model
from cmdpax.storage import load_result, save_model, save_result

EXIT = {"certified": 0, "infeasible": 3, "limit": 4, "marginal": 5}
QUIET_SECONDS = 2.0  # nothing is shown before a command has taken this long
out, err = Console(soft_wrap=True, highlight=False), Console(stderr=True, highlight=False)

Model = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
Json = Annotated[bool, tyro.conf.arg(name="json")]


class Progress:
    """A line that appears on a terminal once something takes longer than two seconds."""

    def __init__(self) -> None:
        self.started, self.spinner = time.perf_counter(), None if not err.is_terminal else Spinner("", console=err)
        self.visible = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.spinner and self.visible:
            self.spinner.stop()

    def say(self, text: str) -> None:
        """Show what is going on."""
        seconds = time.perf_counter() - self.started
        if self.spinner and seconds > QUIET_SECONDS:
            self.spinner.update(f"{text}  ({seconds:.0f} s)")
            if not self.visible:
                self.spinner.start()
                self.visible = True

    def row(self, row: dict[str, Any]) -> None:
        """Show a row of a solver's trace."""
        self.say(
            f"iteration {row['outer']}, {row['evaluations']} evaluations: gap {row['gap']:.1e}, violation {row['violation']:.1e}"
        )


def solve(
    model: Model,
    eps: float = 1e-6,
    method: str = "corrective-alm",
    set: tuple[str, ...] = (),
    features: str | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    out_file: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    as_json: Json = False,
) -> int:
    """Solve a constrained MDP: one stationary policy, its shadow prices, and a proof of how good it is.

    Args:
        model: a model file (.npz, .json) or an environment, with settings if need be: garnet:states=200,seed=3
        eps: accuracy of gap and violation, on the scale of possible values
        method: one of `cmdpax list methods`
        set: settings of the method, for example --set step=0.1 inner=50 (augmented-Lagrangian methods then run a fixed budget)
        features: log-linear policies on these features: tiles:60,4,3 (dimension, tilings, size) or a .npy or .npz file [S, A, d]
        time_limit: seconds after which the best policy so far is returned (Ctrl-C does the same)
        memory_limit: gigabytes that the process may use (corrective-alm only)
        out_file: write the result (policy and certificate) to this .npz file
        as_json: print one JSON object instead of a table
    """
    if out_file is not None and out_file.suffix != ".npz":
        raise InputError(f"--out {out_file}: results are written as .npz; give a name that ends so.")
    if out_file is not None and not out_file.parent.is_dir():  # better now than after the work is done
        raise InputError(f"--out {out_file}: there is no folder {out_file.parent}; make it first.")
    problem = open_model(model)
    table = None if features is None else open_features(features, problem)
    settings: dict[str, Any] = dict(_setting(text) for text in set)
    known = methods[method].settings() if method in methods else {}
    if time_limit is not None:
        settings["time_limit"] = time_limit
    if memory_limit is not None:
        settings["memory_limit"] = 1e9 * memory_limit
    with Progress() as progress:
        if "report" in known and not set and table is None:
            settings["report"] = progress.row
        result = run(problem, method, eps, table, **settings)
    _print(result, as_json)
    if out_file is not None:
        save_result(result, out_file)
    return EXIT[result.status]


def check(
    model: Model, result: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RESULT")], as_json: Json = False
) -> int:
    """Verify a saved result against a model, with code that the solvers do not share.

    Args:
        model: the model file or environment that was solved
        result: what `cmdpax solve --out` wrote
        as_json: print one JSON object
    """
    verified = checker.check(open_model(model), load_result(result))
    if as_json:
        print(json.dumps({"verified": True, "status": verified.status, "gap": verified.gap, "violation": verified.violation}))
    else:
        out.print(str(verified), markup=False)
    return 0


def frontier(
    model: Model,
    constraint: str = "0",
    points: int = 25,
    eps: float = 1e-6,
    out_file: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    as_json: Json = False,
) -> int:
    """Trade-off curve: best reward and shadow price against one budget, over its whole feasible range.

    Args:
        model: a model file or environment
        constraint: index or name of the constraint whose threshold is swept
        points: how many thresholds
        eps: accuracy of every point
        out_file: draw the curve to this .png file
        as_json: print one JSON object
    """
    problem = open_model(model)
    index = _constraint(problem, constraint)
    with Progress() as progress:
        curve = trace_frontier(problem, index, points, eps, lambda done, total: progress.say(f"{done} of {total} points"))
    name, sense = problem.constraint_names[index] if problem.constraint_names else f"c{index}", problem.senses[index]
    if out_file is not None:
        from cmdpax.experiments.figures import frontier_picture, save

        current = (1.0 if sense == ">=" else -1.0) * float(problem.thresholds[index])
        save(frontier_picture(curve, name, sense, current), _png(out_file))
    if as_json:
        print(json.dumps({"constraint": name, "sense": sense, "points": [point.__dict__ for point in curve]}))
    else:
        table = Table(title=escape(f"best reward against the threshold of '{name}' ({sense})"))
        for heading in ("threshold", "reward", "shadow price", "certified gap", "status"):
            table.add_column(heading, justify="right")
        for p in curve:
            table.add_row(f"{p.threshold:.6g}", f"{p.reward:.6g}", f"{p.multiplier:.4g}", f"{p.gap:.1e}", p.status)
        out.print(table)
        if out_file is not None:
            out.print(f"wrote {out_file}", markup=False)
    return max(EXIT[point.status] for point in curve)


def show(
    model: Model,
    result: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RESULT")] = None,
    out_file: Annotated[Path, tyro.conf.arg(name="out")] = Path("policy.png"),
) -> int:
    """Draw a policy and its occupancy: arrows on a grid, or bars per state. Solves the model if no result is given.

    Args:
        model: a model file or environment
        result: what `cmdpax solve --out` wrote
        out_file: the picture
    """
    from cmdpax.experiments.figures import policy_picture, save

    problem = open_model(model)
    if result is None:
        with Progress() as progress:
            answer = run(problem, "corrective-alm", report=progress.row)
    else:
        answer = load_result(result)
        checker.check(problem, answer)
    title = f"{model}: reward {answer.reward:.6g}, violation {answer.certificate.violation:.2g} ({answer.status})"
    out.print(f"wrote {save(policy_picture(problem, answer.policy, title), _png(out_file))}", markup=False)
    return EXIT[answer.status]


def export(model: Model, path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]) -> int:
    """Write a model to a file: .npz for any size, .json to read and edit by hand.

    Args:
        model: a model file or environment
        path: where to
    """
    save_model(open_model(model), path)
    out.print(f"wrote {path}", markup=False)
    return 0


def check_env(
    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")],
    steps: int = 2000,
    seed: int = 0,
    as_json: Json = False,
) -> int:
    """Try a simulator with random actions, and tell whether it can be trained on: spaces, costs, ends of episodes.

    Args:
        environment: a velocity task, a Gymnasium id (also module:id), or module:function that makes one
        steps: how many random steps
        seed: of the environment and of the actions
        as_json: print one JSON object
    """
    from dataclasses import asdict

    gym_adapter = _deep("cmdpax.environments.gym_adapter")
    report = gym_adapter.check_environment(environment, steps, seed)
    if as_json:
        print(json.dumps(asdict(report)))
        return 0
    costs = ", ".join(f"{name} {mean:.4g}" for name, mean in zip(report.cost_names, report.mean_costs))
    out.print(f"{report.name}: {report.observation_size} observations, {report.actions} actions, {report.episodes} episodes")
    out.print(
        f"in {report.steps} random steps (longest {report.longest}), mean return {report.mean_return:.4g}, mean costs: {costs}"
    )
    for complaint in report.complaints:
        out.print(f"warning: {complaint}.", markup=False)
    out.print(f'ready: cmdpax train {report.name} --limit "{report.cost_names[0]}<=25"', markup=False)
    return 0


def train(
    config: Annotated[TrainConfig, tyro.conf.arg(name="")],
    out_dir: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    resume: bool = False,
    preset: Literal["default", "paper"] = "default",
) -> int:
    """Train a policy on a simulator with limits on its costs; a run is a folder that can be killed and resumed.

    Args:
        config: the settings
        out_dir: run folder; default runs/ENVIRONMENT-METHOD-SEED
        resume: continue the run in that folder where its last checkpoint left it
        preset: paper: the paper's settings for whatever is left at its default
    """
    training = _deep("cmdpax.deep.train")
    if preset == "paper":
        config = paper_settings(config)
    plain = config.environment.replace(":", "-").replace("/", "-")
    folder = out_dir or Path("runs") / f"{plain}-{config.method}-{config.seed}"
    with TrainingBar(config.resolved().samples) as bar:
        training.train(config, folder, resume, bar.row)
    out.print(f"trained; next: cmdpax evaluate {folder}", markup=False)
    return 0


class TrainingBar:
    """A bar with return, cost, multiplier, steps per second and time left; off a terminal, a line now and then."""

    def __init__(self, samples: int) -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[rate]:.0f} steps/s"),
            TimeRemainingColumn(),
        )
        self.bar = Bar(*columns, console=err, disable=not err.is_terminal)
        self.task = self.bar.add_task("training", total=samples, rate=0.0)
        self.samples, self.first, self.started, self.said = samples, None, time.perf_counter(), 0.0

    def __enter__(self) -> "TrainingBar":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def row(self, row: dict[str, Any]) -> None:
        """Show a row of metrics."""
        now = time.perf_counter()
        if self.first is None:  # compilation is not part of the rate
            self.first, self.started = row["samples"], now
        rate = (row["samples"] - self.first) / max(now - self.started, 1e-9)
        costs = " ".join(f"{name} {value:.3g} (x{row['multiplier'][name]:.3g})" for name, value in row["cost"].items())
        text = f"return {row['return']:.4g} {costs}"
        self.bar.update(self.task, completed=row["samples"], description=text, rate=rate)
        if not err.is_terminal and (now - self.said > 30 or row["samples"] >= self.samples):
            err.print(f"{row['samples']} of {self.samples} steps: {text}, {rate:.0f} steps/s")
            self.said = now


def evaluate(
    run_dir: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    episodes: int = 10,
    seed: int = 12345,
    as_json: Json = False,
) -> int:
    """Measure a trained policy, acting at random as in training and deterministically: return, costs, tails, chance of violation.

    Args:
        run_dir: folder of `cmdpax train`
        episodes: how many, of each kind
        seed: of the environments
        as_json: print one JSON object
    """
    from dataclasses import asdict

    stochastic, deterministic = _deep("cmdpax.deep.evaluate").evaluate(run_dir, episodes, seed)
    if as_json:
        print(json.dumps({"stochastic": asdict(stochastic), "deterministic": asdict(deterministic)}))
        return 0
    for kind, seen in (("stochastic", stochastic), ("deterministic", deterministic)):
        table = Table(
            title=f"{kind}: {seen.episodes} episodes of {seen.length:.0f} steps on average (no optimality gap is known)"
        )
        for heading in ("", "mean", "deviation", "P90", "P95", "worst", "95% bound on mean", "P(violation)"):
            table.add_column(heading, justify="right")
        for name, part in {"return": seen.reward, **seen.costs}.items():
            numbers = [f"{value:.4g}" for value in asdict(part).values()]
            chance = f"{seen.violation_probability[name]:.2f} (<= {seen.violation_bound[name]:.2f})" if name in seen.costs else ""
            table.add_row(name, *numbers, chance)
        out.print(table)
    return 0


def film(
    run_dir: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    out_file: Annotated[Path, tyro.conf.arg(name="out")] = Path("policy.mp4"),
    steps: int = 500,
    seed: int = 12345,
) -> int:
    """Film a trained policy, headless.

    Args:
        run_dir: folder of `cmdpax train`
        out_file: .mp4 or .gif
        steps: at most so many steps of one episode
        seed: of the environment
    """
    out.print(f"wrote {_deep('cmdpax.deep.film').film(run_dir, out_file, steps, seed)}", markup=False)
    return 0


def list_(what: Annotated[Literal["methods", "environments", "all"], tyro.conf.Positional] = "all", as_json: Json = False) -> int:
    """What there is: methods and environments with their settings.

    Args:
        what: methods, environments or all
        as_json: print one JSON object
    """
    import inspect

    environments = {
        name: {key: parameter.default for key, parameter in inspect.signature(builder).parameters.items()}
        for name, builder in finite.items()
    }
    if as_json:
        columns = ("title", "family", "citation", "rate", "grid")
        rows = {name: {column: getattr(row, column) for column in columns} for name, row in methods.items()}
        print(json.dumps({"methods": rows, "environments": environments}))
        return 0
    if what != "environments":
        table = Table(title="methods")
        for heading in ("name", "family", "last iterate", "settings", "paper grid", "source"):
            table.add_column(heading, no_wrap=heading == "name")
        for row in methods.values():
            shown = ", ".join(key for key in row.settings() if key != "report")
            grid = "; ".join(f"{key} {', '.join(f'{value:g}' for value in values)}" for key, values in row.grid.items())
            table.add_row(row.name, row.family, row.rate, shown, grid, row.citation)
        out.print(table)
    if what != "methods":
        table = Table(title="environments")
        table.add_column("name", no_wrap=True)
        table.add_column("settings with their defaults")
        for name, defaults in environments.items():
            table.add_row(name, ", ".join(f"{key}={value}" for key, value in defaults.items()))
        out.print(table)
    return 0


def demo(out_dir: Annotated[Path, tyro.conf.arg(name="out")] = Path("demo")) -> int:
    """The main job on the paper's two problems: solve with PQA-ALM, certify, check, and draw.

    Args:
        out_dir: folder for the pictures
    """
    from cmdpax.experiments.figures import policy_picture, save
    from cmdpax.paper.first_figure import first_figure

    codes = []
    for name in ("cliff-world", "deep-sea"):
        problem = finite[name]()
        result = run(problem, "pqa-alm")
        out.print(f"\n[bold]{name}[/bold], {problem}")
        out.print(str(result), markup=False)
        out.print(str(checker.check(problem, result)))
        title = f"{name}: optimal policy, reward {result.reward:.4f}, gap <= {max(result.certificate.gap, 0):.1e}"
        out.print(f"wrote {save(policy_picture(problem, result.policy, title), out_dir / f'{name}.png')}")
        codes.append(EXIT[result.status])
    out.print(f"\nwrote {save(first_figure(), out_dir / 'alm-against-primal-dual.png')}")
    return max(codes)


def reproduce(
    what: Annotated[Literal["tabular", "linear"], tyro.conf.Positional],
    figure: str | None = None,
    out_dir: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    rerun: bool = False,
) -> int:
    """The paper's experiments: grid searches of every method, tables and figures. Redrawn in seconds from their records.

    `tabular` takes about a minute; `linear` (log-linear policies) minutes on two cores, and goes on where it was stopped.

    Args:
        what: which experiments
        figure: one figure only: first, all-methods, cliff-world-0.001, certified, sensitivity, rate, ... (linear:
        cliff-world-40, ...) out_dir: folder of records, tables and figures (default: results/tabular or results/linear)
        rerun: run again what is recorded there
    """
    from cmdpax import reproduce

    with Progress() as progress:
        make = reproduce.tabular if what == "tabular" else reproduce.linear
        written = make(out_dir or Path("results") / what, figure, rerun, progress.say)
    for path in written:
        out.print(f"wrote {path}")
    return 0


COMMANDS: dict[str, Callable[..., int]] = {
    "solve": solve,
    "check": check,
    "frontier": frontier,
    "show": show,
    "export": export,
    "train": train,
    "evaluate": evaluate,
    "film": film,
    "check-env": check_env,
    "list": list_,
    "demo": demo,
    "reproduce": reproduce,
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
    except KeyboardInterrupt:
        code = _complain("interrupted.", 130)
    except Exception as error:  # a fault of ours: still one sentence, and it says so
        code = _complain(f"internal error, please report it: {type(error).__name__}: {error}", 1)
    sys.exit(code)


def _deep(module: str) -> Any:
    """A module of the deep part; it needs packages that the exact part does not."""
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(f"this command needs the package '{error.name}'; install cmdpax[deep].") from None


def _complain(sentence: object, code: int) -> int:
    print(f"cmdpax: {sentence}", file=sys.stderr)
    return code


def _print(result: Result, as_json: bool) -> None:
    if as_json:
        print(json.dumps(result.summary()))
    else:
        out.print(str(result), markup=False)


def _setting(text: str) -> tuple[str, Any]:
    """`step=0.1` as a name and a value (a number where it reads as one)."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text}: write name=value, for example step=0.1.")
    try:
        number = float(value)
    except ValueError:
        return name, value
    if not math.isfinite(number):
        raise InputError(f"--set {text}: give a finite number.")
    return name, int(number) if number == int(number) and "." not in value and "e" not in value.lower() else number


def _constraint(model: CMDP, text: str) -> int:
    """A constraint by index or by name."""
    names = list(model.constraint_names or ())
    if text in names:
        return names.index(text)
    if text.removeprefix("-").isdigit():
        return int(text)
    hint = did_you_mean(text, names) if names else "give an index."
    raise InputError(f"constraint '{text}' is neither an index nor a name; {hint}")


def _png(path: Path) -> Path:
    if path.suffix.lower() != ".png":
        raise InputError(f"--out {path}: pictures are written as .png; give a name that ends so.")
    return path
