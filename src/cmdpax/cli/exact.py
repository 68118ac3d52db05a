"""Commands on finite models: solve, check, frontier, show, export, list."""

import inspect
import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table

from cmdpax import checker
from cmdpax.cli.terminal import EXIT, Json, Progress, out
from cmdpax.environments import finite
from cmdpax.environments.by_name import open_features, open_model
from cmdpax.errors import InputError, did_you_mean
from cmdpax.files import target
from cmdpax.model.archive import load_result, save_model, save_result
from cmdpax.model.cmdp import CMDP
from cmdpax.paper.settings import GRIDS
from cmdpax.solvers.certified import within
from cmdpax.solvers.frontier import frontier as trace_frontier
from cmdpax.solvers.table import methods, run

Model = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]


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
    """Solve a constrained MDP: one stationary policy, its shadow prices, and a proof of how good it
    is.

    Args:
        model: a model file (.npz, .json) or an environment, with settings if need be:
        garnet:states=200,seed=3 eps: accuracy of gap and violation, on the scale of possible values
        method: one of `cmdpax list methods`
        set: settings of the method, for example --set step=0.1 inner=50 (augmented-Lagrangian
        methods then run a fixed budget) features: log-linear policies on these features:
        tiles:60,4,3 (dimension, tilings, size) or a .npy or .npz file [S, A, d] time_limit: seconds
        after which the best policy so far is certified and returned (Ctrl-C does the same)
        memory_limit: gigabytes that the process may use (corrective-alm only) out_file: write the
        result (policy and certificate) to this .npz file as_json: print one JSON object instead of
        a table
    """
    if out_file is not None:
        target(out_file, ".npz")
        for name, source in (("model", model), ("file of features", features)):
            if (
                source is not None
                and out_file.exists()
                and Path(source).exists()
                and out_file.samefile(source)
            ):
                raise InputError(
                    f"--out {out_file}: that is the {name} itself; give the result another name."
                )
    problem = open_model(model)
    table = None if features is None else open_features(features, problem)
    settings: dict[str, Any] = dict(_setting(text) for text in set)
    known = methods[method].settings() if method in methods else {}
    for name in ("model", "name", "eps", "features"):
        if name in settings:
            raise InputError(
                f"--set {name}: it is no setting of a method; {did_you_mean(name, known)}"
            )
    if time_limit is not None:
        settings["time_limit"] = time_limit
    if memory_limit is not None:
        within("--memory-limit", memory_limit, math.inf, zero=True)
        settings["memory_limit"] = 1e9 * memory_limit
    with Progress() as progress:
        if "report" in known and not set and table is None:
            settings["report"] = progress.row
        result = run(problem, method, eps, table, **settings)
    if as_json:
        print(json.dumps(result.summary()))
    else:
        out.print(str(result))
    if out_file is not None:
        save_result(result, out_file)
    return EXIT[result.status]


def check(
    model: Model,
    result: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RESULT")],
    as_json: Json = False,
) -> int:
    """Verify a saved result against a model, with code that the solvers do not share.

    Args:
        model: the model file or environment that was solved
        result: what `cmdpax solve --out` wrote
        as_json: print one JSON object
    """
    verified = checker.check(open_model(model), load_result(result))
    if as_json:
        print(
            json.dumps(
                {
                    "verified": True,
                    "status": verified.status,
                    "gap": verified.gap,
                    "violation": verified.violation,
                }
            )
        )
    else:
        out.print(str(verified))
    return 0


def frontier(
    model: Model,
    constraint: str = "0",
    points: int = 25,
    eps: float = 1e-6,
    out_file: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    as_json: Json = False,
) -> int:
    """Trade-off curve: best reward and shadow price against one budget, over its whole feasible
    range.

    Args:
        model: a model file or environment
        constraint: index or name of the constraint whose threshold is swept
        points: how many thresholds
        eps: accuracy of every point
        out_file: draw the curve to this .png file
        as_json: print one JSON object
    """
    if out_file is not None:
        target(out_file, ".png")
    problem = open_model(model)
    index = _constraint(problem, constraint)
    with Progress() as progress:
        curve = trace_frontier(
            problem,
            index,
            points,
            eps,
            lambda done, total: progress.say(f"{done} of {total} points"),
        )
    name, sense = (
        problem.constraint_names[index] if problem.constraint_names else f"c{index}",
        problem.senses[index],
    )
    if out_file is not None:
        from cmdpax.experiments.pictures import frontier_picture, save

        current = (1.0 if sense == ">=" else -1.0) * float(problem.thresholds[index])
        save(frontier_picture(curve, name, sense, current), out_file)
    if as_json:
        print(
            json.dumps(
                {"constraint": name, "sense": sense, "points": [point.__dict__ for point in curve]}
            )
        )
    else:
        table = Table(title=f"best reward against the threshold of '{name}' ({sense})")
        for heading in ("threshold", "reward", "shadow price", "certified gap", "status"):
            table.add_column(heading, justify="right")
        for p in curve:
            table.add_row(
                f"{p.threshold:.6g}",
                f"{p.reward:.6g}",
                f"{p.multiplier:.4g}",
                f"{p.gap:.1e}",
                p.status,
            )
        out.print(table)
        if out_file is not None:
            out.print(f"wrote {out_file}")
    return max(
        EXIT["limit"] if len(curve) < points else 0, *(EXIT[point.status] for point in curve)
    )


def show(
    model: Model,
    result: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RESULT")] = None,
    out_file: Annotated[Path, tyro.conf.arg(name="out")] = Path("policy.png"),
) -> int:
    """Draw a policy and its occupancy: arrows on a grid, or bars per state. Solves the model if no
    result is given.

    Args:
        model: a model file or environment
        result: what `cmdpax solve --out` wrote
        out_file: the picture
    """
    from cmdpax.experiments.pictures import policy_picture, save

    target(out_file, ".png")
    problem = open_model(model)
    if result is None:
        with Progress() as progress:
            answer = run(problem, "corrective-alm", report=progress.row)
    else:
        answer = load_result(result)
        checker.check(problem, answer)
    title = (
        f"{model}: reward {answer.reward:.6g}, violation {answer.certificate.violation:.2g}"
        f" ({answer.status})"
    )
    out.print(f"wrote {save(policy_picture(problem, answer.policy, title), out_file)}")
    return EXIT[answer.status]


def export(
    model: Model, path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
) -> int:
    """Write a model to a file: .npz for any size, .json to read and edit by hand.

    Args:
        model: a model file or environment
        path: where to
    """
    target(path, ".npz", ".json", option="model file")
    save_model(open_model(model), path)
    out.print(f"wrote {path}")
    return 0


def list_(
    what: Annotated[Literal["methods", "environments", "all"], tyro.conf.Positional] = "all",
    as_json: Json = False,
) -> int:
    """What there is: methods and environments with their settings.

    Args:
        what: methods, environments or all
        as_json: print one JSON object
    """
    environments = {
        name: {
            key: parameter.default
            for key, parameter in inspect.signature(builder).parameters.items()
        }
        for name, builder in finite.items()
    }
    if as_json:
        columns = ("title", "family", "citation", "rate")
        rows = {
            name: {column: getattr(row, column) for column in columns}
            | {"grid": GRIDS.get(name, {})}
            for name, row in methods.items()
        }
        both = {"methods": rows, "environments": environments}
        print(json.dumps({name: part for name, part in both.items() if what in (name, "all")}))
        return 0
    if what != "environments":
        table = Table(title="methods")
        for heading in ("name", "family", "last iterate", "settings", "paper grid", "source"):
            table.add_column(heading, no_wrap=heading == "name", overflow="fold")
        for row in methods.values():
            shown = ", ".join(key for key in row.settings() if key != "report")
            grid = "; ".join(
                f"{key} {', '.join(f'{value:g}' for value in values)}"
                for key, values in GRIDS.get(row.name, {}).items()
            )
            table.add_row(row.name, row.family, row.rate, shown, grid, row.citation)
        out.print(table)
    if what != "methods":
        table = Table(title="environments")
        table.add_column("name", no_wrap=True)
        table.add_column("settings with their defaults", overflow="fold")
        for name, defaults in environments.items():
            table.add_row(name, ", ".join(f"{key}={value}" for key, value in defaults.items()))
        out.print(table)
    return 0


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
    return name, (
        int(number)
        if number == int(number) and "." not in value and "e" not in value.lower()
        else number
    )


def _constraint(model: CMDP, text: str) -> int:
    """A constraint by index or by name."""
    names = list(model.constraint_names or ())
    if text in names:
        return names.index(text)
    if text.removeprefix("-").isdecimal():
        return int(text)
    hint = did_you_mean(text, names) if names else "give an index."
    raise InputError(f"constraint '{text}' is neither an index nor a name; {hint}")
