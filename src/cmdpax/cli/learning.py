"""Commands on simulators: train, evaluate, film, publish, check-env."""

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.table import Table

from cmdpax.cli.terminal import Json, TrainingBar, deep, err, out
from cmdpax.errors import InputError
from cmdpax.files.reading import Row
from cmdpax.learning.config import ROLLOUT_STEPS, WORKER_LIMIT, TrainConfig
from cmdpax.learning.encoders import CONVOLUTIONAL
from cmdpax.learning.run_folder import RunFolder
from cmdpax.model.limits import Limits
from cmdpax.paper.settings import training_settings

Run = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Environment = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")]
Workers = Annotated[str | None, tyro.conf.arg(metavar="N|ray|HOST:PORT")]
Other = Annotated[str | None, tyro.conf.arg(metavar="ENVIRONMENT")]


@dataclass(frozen=True, kw_only=True)
class Options(TrainConfig):
    """The settings as options: limits are given as `--limit`."""

    limits: Annotated[tuple[str, ...], tyro.conf.arg(name="limit")] = TrainConfig.limits


def train(
    environment: Environment,
    config: Annotated[Options, tyro.conf.arg(name="")],
    out_dir: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    resume: bool = False,
    start: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None,
    workers: Workers = None,
    worker_limit: float = WORKER_LIMIT,
    preset: Literal["default", "paper"] = "default",
) -> int:
    """Train a policy on a simulator with limits on its costs; a run is a folder that can be killed
    and resumed.

    Args:
        environment: a velocity task, a Gymnasium id (also module:id), or module:function that makes
            one
        config: the settings
        out_dir: run folder; default runs/ENVIRONMENT-METHOD-SEED
        resume: continue the run in that folder where its last checkpoint left it; with more
            --samples also a finished one
        start: begin with the policy, the normaliser and the critics of this run folder
        workers: processes that step the environment, a number; or ray, or HOST:PORT of a Ray
            cluster; no number of the run depends on it (default: this process)
        worker_limit: seconds after which a worker that has not answered is ended; its part of the
            batch is repeated
        preset: paper: the paper's settings for whatever is not given (`--preset paper --help` shows
            them)
    """
    training, settings = deep("cmdpax.learning.training"), asdict(config)
    folder = out_dir or training.default_folder(environment, config.method, config.seed)
    place = folder.absolute()  # also if the environment leaves the current folder
    with TrainingBar(config.resolved().samples) as bar:

        def callback(row: Row) -> None:
            if bar.first is None:
                err.print(_shape(RunFolder(place).config, workers))
            bar.row(row)

        try:
            run = training.train(
                environment,
                folder=place,
                resume=resume,
                start=start,
                workers=workers,
                worker_limit=worker_limit,
                callback=callback,
                **settings,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {_rest(place)}") from None
        except OSError as error:
            why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            raise InputError(f"{why}; {_rest(place)}") from None
        except InputError as error:
            if bar.first is None:  # nothing was done yet
                raise
            raise InputError(f"{str(error).rstrip('.')}; {_rest(place)}") from None
    takes_import = deep("cmdpax.learning.environment_names").names_module(environment)
    typed = f" --environment {environment}" if takes_import else ""
    if run.kept:
        out.print(run.kept)
    if run.verdict is not None:
        fresh = RunFolder(place).kept() is not None
        out.print(f"{run.verdict}{'' if fresh else ' of training'}")
        for sentence in run.out_of_reach:
            out.print(sentence)
    out.print(f"trained; next: cmdpax evaluate {folder}{typed}")
    return 0


def _shape(config: Row, workers: str | None) -> str:
    """How the samples of a run are divided."""
    batch, steps, samples = (config[name] for name in ("batch", "rollout_steps", "samples"))
    updates, copies = samples // batch, batch // steps
    shape = f"{updates} updates of {batch} steps, {steps} in each of {copies} simulators"
    if config.get("network") == CONVOLUTIONAL:
        shape += "; observations are images: a convolutional network sees them"
    if config.get("start") is not None:
        shape += f"; it begins as the policy of {config['start']}"
    if workers is None or not workers.isdecimal() or int(workers) <= copies:
        return shape
    return f"{shape}; only {copies} of {workers} workers are used (fewer --rollout-steps use more)"


def _rest(folder: Path) -> str:
    """What is left of a training that was stopped, and how to go on."""
    if not (folder / "config.json").exists():
        return "the run had not begun."
    kept = RunFolder(folder).last_checkpoint_sentence()
    return f"{kept}; the same command with --resume goes on."


def train_as_the_paper(method: str) -> Callable[..., int]:
    """`train` with the paper's settings as defaults, chosen before parsing: what is given stays."""
    return partial(train, config=Options(**training_settings(method)))


def evaluate(
    run_dir: Run,
    environment: Other = None,
    trust: bool = False,
    episodes: int = 10,
    seed: int = 12345,
    as_json: Json = False,
) -> int:
    """Measure a trained policy, acting at random as in training and deterministically: return,
    costs, tails, chance of violation.

    The numbers are kept in the run folder as evaluation.json, unless the run is published.

    Args:
        run_dir: folder of `cmdpax train`
        environment: to measure it in (default: the one that the folder names)
        trust: import the module that the folder names, as in module:function
        episodes: how many, of each kind
        seed: of the environments
        as_json: print one JSON object
    """
    evaluation = deep("cmdpax.learning.evaluation")
    with redirect_stdout(sys.stderr):  # what the environment prints is not the answer
        measured = evaluation.evaluate(
            run_dir, environment=environment, trust=trust, episodes=episodes, seed=seed
        )
    if as_json:
        print(json.dumps(evaluation.as_numbers(measured)))
        return 0
    limits = Limits.parse(RunFolder(run_dir).config["limits"])
    texts = dict(zip(limits.names, limits.texts))
    for kind, seen in measured.items():
        title = f"{kind}: {seen.episodes} episodes of {seen.length:.0f} steps"
        table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
        table.add_column("", overflow="fold")
        for heading in ("mean", "std", "P90", "P95", "worst", "bound", "violated"):
            table.add_column(heading, justify="right")
        table.add_row("return", *_numbers(seen.reward), "")
        for name, part in seen.costs.items():
            chance, bound = seen.violation_probability.get(name), seen.violation_bound.get(name)
            violation = "" if chance is None else f"{chance:.0%} (<= {bound:.0%})"
            table.add_row(texts.get(name, name), *_numbers(part), violation)
        out.print(table)
        if seen.verdict is not None:
            out.print(str(seen.verdict))
    out.print(evaluation.effect_of_acting_deterministically(measured))
    if (card := RunFolder(run_dir).card) is not None:
        out.print(f"published: {card.get('summary')}")
    out.print(
        "bound: of the mean, 95% confidence; violated: the share of episodes, with its own; no"
        " optimality gap is known"
    )
    return 0


def _numbers(part: Any) -> list[str]:
    return [f"{value:.4g}" for value in asdict(part).values()]


def film(
    run_dir: Run,
    out_file: Annotated[Path, tyro.conf.arg(name="out")] = Path("policy.mp4"),
    environment: Other = None,
    trust: bool = False,
    steps: int = 500,
    seed: int = 12345,
) -> int:
    """Film a trained policy, without a display; return, costs and limits stand in the picture.

    Args:
        run_dir: folder of `cmdpax train`
        out_file: .mp4 or .gif
        environment: to film it in (default: the one that the folder names)
        trust: import the module that the folder names, as in module:function
        steps: at most so many steps of one episode
        seed: of the environment
    """
    video, settings = deep("cmdpax.learning.video").video, {"steps": steps, "seed": seed}
    written = video(run_dir, out_file, environment=environment, trust=trust, **settings)
    out.print(f"wrote {written}")
    return 0


def publish(
    run_dir: Run,
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")],
    environment: Other = None,
    trust: bool = False,
    episodes: int = 100,
    seed: int = 12345,
) -> int:
    """Publish the policy of a run in a folder that nobody writes to any more: the policy alone, and
    a card that says what made it and what it does. `evaluate` and `film` check it from there.

    Args:
        run_dir: folder of `cmdpax train`, or of a finished run in a store
        folder: a new folder, or one with a record of this run
        environment: to measure the policy in (default: the one that the folder names)
        trust: import the module that the folder names, as in module:function
        episodes: how many, of each kind
        seed: of the environments
    """
    card = deep("cmdpax.experiments.publishing").publish(
        run_dir, folder, environment=environment, trust=trust, episodes=episodes, seed=seed
    )
    out.print(f"published {folder}: {card['summary']}")
    return 0


def check_env(
    environment: Environment,
    steps: int = 2000,
    seed: int = 0,
    as_json: Json = False,
) -> int:
    """Try a simulator with random actions, and tell whether it can be trained on: spaces, costs,
    ends of episodes.

    Args:
        environment: a velocity task, a Gymnasium id (also module:id), or module:function that makes
            one
        steps: how many random steps
        seed: of the environment and of the actions
        as_json: print one JSON object
    """
    check = deep("cmdpax.learning.environment_check").check_environment
    with redirect_stdout(sys.stderr):  # what the environment prints is not the answer
        report = check(environment, steps, seed)
    if as_json:
        print(json.dumps(asdict(report)))
        return 0
    costs = ", ".join(
        f"{name} {mean:.4g} ({low:.4g} to {high:.4g})"
        for name, mean, (low, high) in zip(report.cost_names, report.mean_costs, report.cost_ranges)
    )
    out.print(
        f"{report.name}: {report.observation_size} observations, {report.actions},"
        f" {report.episodes} episodes"
    )
    out.print(
        f"in {report.steps} random steps (at most {report.longest}), mean return"
        f" {report.mean_return:.4g}, mean costs: {costs}"
    )
    for complaint in report.complaints:
        out.print(f"warning: {complaint}.")
    whole, longest = "", report.longest
    if longest > ROLLOUT_STEPS:
        whole = f" --rollout-steps {longest} --batch {2 * longest}"
    ready = "next" if report.complaints else "ready"
    limits = " ".join(f'"{limit}"' for limit in report.suggested_limits)
    out.print(f"{ready}: cmdpax train {report.name} --limit {limits}{whole}")
    out.print("limits: half of what random actions cost in a whole episode; set your own")
    return 0
