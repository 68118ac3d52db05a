"""Commands on finite models: solve, check, frontier, describe, show, export, list."""

import inspect
import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table

from cmdpax.checker import check as checker
from cmdpax.cli.terminal import EXIT, Json, StatusLine, complain, out
from cmdpax.environments import finite
from cmdpax.environments.by_name import AS_IT_IS, Reading, open_features, open_model
from cmdpax.errors import InputError, did_you_mean
from cmdpax.files.reading import Row
from cmdpax.files.written import writable_path
from cmdpax.learning.config import METHODS
from cmdpax.learning.portable import holds_policy, load_policy, save_policy
from cmdpax.model.archive import load_result, save_model, save_result
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers import frontier as frontiers
from cmdpax.solvers import solve as door
from cmdpax.solvers.description import describe as description_of
from cmdpax.solvers.table import methods
from cmdpax.utilities.ready import from_text

Model = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
Read = Annotated[Reading, tyro.conf.OmitArgPrefixes]
# parameters of `cmdpax.solve` that are options of the command, or none
NO_SETTINGS = (
    *("model", "method", "eps", "features"),
    *("time_limit", "memory_limit", "callback", "utility"),
)


def solve(
    model: Model,
    eps: float = 1e-6,
    method: str | None = None,
    set: tuple[str, ...] = (),
    features: str | None = None,
    utility: str | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    out_file: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    as_json: Json = False,
    read: Read = AS_IT_IS,
) -> int:
    """Solve a constrained MDP: one policy, its shadow prices, and a proof of how good it is.

    Args:
        model: a model file (.npz, .json, .csv, .parquet, .umb, .nm, .jani), or an environment, as
            in garnet:states=200,seed=3
        eps: accuracy of gap and violation, a share of what policies can change
        method: one of `cmdpax list methods`; without it there is nothing to choose
        set: settings of the method, as in --set step=0.1 inner=50
        features: tiles:60,4,3 (dimension, tilings, size) or a .npy or .npz file [S, A, d]
        utility: maximised instead of the reward: entropy, entropy:pairs, linear:NAME,
            fairness:NAME,NAME or max-min:NAME,NAME, with names of the model's functions
        time_limit: seconds; then the best policy so far is certified (Ctrl-C does the same)
        memory_limit: gigabytes that the process may use (corrective-alm only)
        out_file: write the result (policy and certificate) to this .npz file
        as_json: print one JSON object instead of a table
    """
    if out_file is not None:
        writable_path(out_file, ".npz")
        for name, source in (("model", model), ("file of features", features)):
            if source and out_file.exists() and Path(source).exists() and out_file.samefile(source):
                what = f"that is the {name} itself; give the result another name"
                raise InputError(f"--out {out_file}: {what}.")
    problem = _opened(model, read)
    table = None if features is None else open_features(features, problem)
    settings = dict(_setting(text) for text in set)
    for name in NO_SETTINGS:
        if name in settings:
            row = methods.get(method or "corrective-alm")
            hint = did_you_mean(name, row.settings if row else ())
            raise InputError(f"--set {name}: it is no setting of a method; {hint}")
    settings |= {"time_limit": time_limit, "memory_limit": memory_limit}
    settings["utility"] = None if utility is None else from_text(utility)
    with StatusLine() as status:
        result = door.solve(
            problem, method, eps=eps, features=table, callback=status.row, **settings
        )
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
    read: Read = AS_IT_IS,
) -> int:
    """Verify a saved result against a model, with code that the solvers do not share.

    Args:
        model: the model file or environment that was solved
        result: what `cmdpax solve --out` wrote
        as_json: print one JSON object
    """
    verified = checker.check(_opened(model, read), load_result(result))
    if as_json:
        errors = {"gap": verified.gap, "violation": verified.violation}
        print(json.dumps({"verified": True, "status": verified.status, **errors}))
    else:
        out.print(str(verified))
    return 0


def frontier(
    model: Model,
    constraint: str = "0",
    points: int | None = None,
    eps: float = 1e-6,
    out_file: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    as_json: Json = False,
    read: Read = AS_IT_IS,
) -> int:
    """Trade-off curve: best reward and shadow price against one budget, over its feasible range.

    Args:
        model: a model file or environment
        constraint: index or name of the constraint whose threshold is swept
        points: how many thresholds; without it all at which the price changes (25 of a large model)
        eps: accuracy of every point
        out_file: draw the curve to this .png file
        as_json: print one JSON object
    """
    if out_file is not None:
        writable_path(out_file, ".png")
    problem = _opened(model, read)
    is_number = constraint.removeprefix("-").isdecimal()
    is_index = is_number and constraint not in problem.constraint_names
    index = frontiers.find_constraint(problem, int(constraint) if is_index else constraint)
    asked = 0
    with StatusLine() as status:

        def callback(row: Row) -> None:
            nonlocal asked
            asked = row["points"]
            status.say(f"{row['done']} of {asked} points")

        curve = frontiers.frontier(problem, index, points=points, eps=eps, callback=callback)
    name, sense = problem.constraint_names[index], problem.senses[index]
    best = "least cost" if problem.minimise else "best reward"
    if out_file is not None:
        from cmdpax.experiments.pictures import frontier_picture, save

        low, high = problem.limits.bounds[index].tolist()
        current = low if math.isfinite(low) else high
        save(frontier_picture(curve, name, sense, best, current), out_file)
    if as_json:
        print(json.dumps({"constraint": name, "sense": sense, "points": [vars(p) for p in curve]}))
    else:
        table = Table(title=f"{best} against the threshold of '{name}' ({sense})")
        for heading in ("threshold", best, "shadow price", "certified gap", "status"):
            table.add_column(heading, justify="right")
        for p in curve:
            numbers = (f"{p.threshold:.6g}", f"{p.reward:.6g}", f"{p.multiplier:.4g}")
            table.add_row(*numbers, f"{p.gap:.1e}", p.status)
        out.print(table)
        if out_file is not None:
            out.print(f"wrote {out_file}")
    codes = [EXIT[point.status] for point in curve]
    return max([*codes, EXIT["limit"] if len(curve) < asked else 0])


def show(
    model: Model,
    result: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RESULT")] = None,
    out_file: Annotated[Path, tyro.conf.arg(name="out")] = Path("policy.png"),
    read: Read = AS_IT_IS,
) -> int:
    """Draw a policy and its occupancy: arrows on a grid, or bars per state.

    Args:
        model: a model file or environment
        result: what `cmdpax solve --out` wrote; without it the model is solved
        out_file: the picture
    """
    from cmdpax.experiments.pictures import save
    from cmdpax.experiments.policy_pictures import policy_picture

    writable_path(out_file, ".png")
    problem = _opened(model, read)
    if result is None:
        with StatusLine() as status:
            answer = door.solve(problem, callback=status.row)
    else:
        answer = load_result(result)
        checker.check(problem, answer)
    violation = f"violation {answer.certificate.violation:.2g} ({answer.status})"
    shares, tables = answer.policies
    policy, share = tables[shares.argmax()], float(shares.max())
    drawn = "" if len(shares) == 1 else f", the policy drawn with {share:.4g}"
    has_utility = answer.certificate.utility is not None
    what = f"utility {answer.utility.name}" if answer.utility else "reward"
    title = f"{model}: {what} {answer.reward:.6g}, {violation}{drawn}"
    picture = policy_picture(problem, policy, title, heat=has_utility)
    out.print(f"wrote {save(picture, out_file)}")
    return EXIT[answer.status]


def describe(model: Model, as_json: Json = False, read: Read = AS_IT_IS) -> int:
    """What a model holds: sizes, components, cycles, ranges of values, and what is odd about it.

    Args:
        model: a model file or environment
        as_json: print one JSON object
    """
    description = description_of(_opened(model, read))
    if as_json:
        print(json.dumps(description.as_json()))
    else:
        out.print(str(description))
    return 0


def export(
    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")],
    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    read: Read = AS_IT_IS,
) -> int:
    """Write a policy: .onnx, or .npz for NumPy; or a model: .npz, .json to edit by hand, .umb.

    Args:
        source: a run folder, a checkpoint or a result, whose policy is written; or a model file or
            environment
        path: where to
    """
    if holds_policy(Path(source)):
        save_policy(load_policy(source), path)
    elif path.suffix.lower() == ".onnx":
        remedy = f"cmdpax solve {source} --out result.npz makes one"
        raise InputError(f"{source} is neither a run nor a result, so it has no policy; {remedy}.")
    elif "/" in source and not Path(source).exists():
        raise InputError(f"{source}: there is no such run folder, and no such file.")
    else:
        writable_path(path, ".npz", ".json", ".umb", option="model file")
        save_model(_opened(source, read), path)
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
    parameters = {name: inspect.signature(make).parameters for name, make in finite.items()}
    environments = {
        name: {key: one.default for key, one in own.items()} for name, own in parameters.items()
    }
    if as_json:
        columns = ("title", "family", "source", "proven")
        parts = {
            "methods": {
                name: {key: getattr(row, key) for key in columns} for name, row in methods.items()
            },
            "deep methods": {name: {"title": name} for name in METHODS},
            "environments": environments,
        }
        chosen = {"all": list(parts), "methods": ["methods", "deep methods"]}.get(what, [what])
        print(json.dumps({key: parts[key] for key in chosen}))
        return 0
    if what != "environments":
        table = Table(title="methods for finite models (cmdpax solve)")
        for heading in ("name", "family", "last iterate", "settings", "source"):
            table.add_column(heading, no_wrap=heading == "name", overflow="fold")
        for row in methods.values():
            table.add_row(row.name, row.family, row.proven, ", ".join(row.settings), row.source)
        out.print(table)
        headings = ("name", "surrogate", "multipliers")
        table = Table(*headings, title="methods for simulators (cmdpax train)")
        for name, deep in METHODS.items():
            table.add_row(name, deep.surrogate, deep.dual)
        out.print(table)
    if what != "methods":
        table = Table(title="environments")
        table.add_column("name", no_wrap=True)
        table.add_column("settings with their defaults", overflow="fold")
        for name, defaults in environments.items():
            table.add_row(name, ", ".join(f"{key}={value}" for key, value in defaults.items()))
        out.print(table)
    return 0


def _opened(model: str, read: Reading) -> CMDP:
    """The model; how it was read is said on standard error."""
    problem = open_model(model, read)
    for note in problem.notes:
        complain(note)
    return problem


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
    is_whole = number == int(number) and not set(value.lower()) & {".", "e"}
    return name, int(number) if is_whole else number
