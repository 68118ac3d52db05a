"""Commands on simulators: train, evaluate, film, check-env."""

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.table import Table

from cmdpax.cli.terminal import Json, TrainingBar, deep, out
from cmdpax.learning import run_folder as stored
from cmdpax.learning.config import TrainConfig
from cmdpax.model.limits import parse_limit
from cmdpax.paper.settings import training_settings

Run = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]


def train(
    config: Annotated[TrainConfig, tyro.conf.arg(name="")],
    out_dir: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    resume: bool = False,
    preset: Literal["default", "paper"] = "default",
) -> int:
    """Train a policy on a simulator with limits on its costs; a run is a folder that can be killed
    and resumed.

    Args:
        config: the settings
        out_dir: run folder; default runs/ENVIRONMENT-METHOD-SEED
        resume: continue the run in that folder where its last checkpoint left it
        preset: paper: the paper's settings for whatever is not given (`--preset paper --help` shows
        them)
    """
    training = deep("cmdpax.learning.training")
    plain = config.environment.replace(":", "-").replace("/", "-")
    folder = out_dir or Path("runs") / f"{plain}-{config.method}-{config.seed}"
    with TrainingBar(config.resolved().samples) as bar:
        try:
            training.train(config, folder, resume, bar.row)
        except KeyboardInterrupt:
            begun = (folder / "config.json").exists()
            rest = (
                f"{stored.kept(folder)}; the same command with --resume goes on."
                if begun
                else "the run had not begun."
            )
            raise KeyboardInterrupt(f"interrupted; {rest}") from None
    out.print(f"trained; next: cmdpax evaluate {folder}")
    return 0


def train_as_the_paper(method: str) -> Callable[..., int]:
    """`train` with the paper's settings as defaults: before parsing, since later nobody knows what
    was given.
    """
    return partial(train, config=TrainConfig(tyro.MISSING, **training_settings(method)))


def evaluate(
    run_dir: Run,
    episodes: int = 10,
    seed: int = 12345,
    as_json: Json = False,
) -> int:
    """Measure a trained policy, acting at random as in training and deterministically: return,
    costs, tails, chance of violation.

    The numbers are kept in the run folder as evaluation.json.

    Args:
        run_dir: folder of `cmdpax train`
        episodes: how many, of each kind
        seed: of the environments
        as_json: print one JSON object
    """
    evaluation = deep("cmdpax.learning.evaluation")
    found = evaluation.evaluate(run_dir, episodes, seed)
    if as_json:
        print(evaluation.as_json(found))
        return 0
    limits = {limit.name: limit for limit in map(parse_limit, stored.read_config(run_dir)["limit"])}
    for kind, seen in found.items():
        table = Table(
            title=f"{kind}: {seen.episodes} episodes of {seen.length:.0f} steps",
            box=SIMPLE_HEAD,
            pad_edge=False,
        )
        table.add_column("", overflow="fold")
        for heading in ("mean", "std", "P90", "P95", "worst", "bound", "P(violation)"):
            table.add_column(heading, justify="right")
        table.add_row("return", *_numbers(seen.reward), "")
        for name, part in seen.costs.items():
            chance = (
                f"{seen.violation_probability[name]:.2f} (<= {seen.violation_bound[name]:.2f})"
                if name in limits
                else ""
            )
            table.add_row(str(limits.get(name, name)), *_numbers(part), chance)
        out.print(table)
    out.print(
        "bound: of the mean, 95% confidence; the chance of a violation with its own; no optimality"
        " gap is known"
    )
    return 0


def _numbers(part: Any) -> list[str]:
    return [f"{value:.4g}" for value in asdict(part).values()]


def film(
    run_dir: Run,
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
    out.print(f"wrote {deep('cmdpax.learning.film').film(run_dir, out_file, steps, seed)}")
    return 0


def check_env(
    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")],
    steps: int = 2000,
    seed: int = 0,
    as_json: Json = False,
) -> int:
    """Try a simulator with random actions, and tell whether it can be trained on: spaces, costs,
    ends of episodes.

    Args:
        environment: a velocity task, a Gymnasium id (also module:id), or module:function that makes
        one steps: how many random steps
        seed: of the environment and of the actions
        as_json: print one JSON object
    """
    gym_adapter = deep("cmdpax.learning.gym_simulator")
    report = gym_adapter.check_environment(environment, steps, seed)
    if as_json:
        print(json.dumps(asdict(report)))
        return 0
    costs = ", ".join(
        f"{name} {mean:.4g}" for name, mean in zip(report.cost_names, report.mean_costs)
    )
    out.print(
        f"{report.name}: {report.observation_size} observations, {report.actions} actions,"
        f" {report.episodes} episodes"
    )
    out.print(
        f"in {report.steps} random steps (at most {report.longest}), mean return"
        f" {report.mean_return:.4g}, mean costs: {costs}"
    )
    for complaint in report.complaints:
        out.print(f"warning: {complaint}.")
    whole = (
        f" --horizon {report.longest} --batch {2 * report.longest}"
        if report.longest > TrainConfig.horizon
        else ""
    )
    out.print(
        f"{'next' if report.complaints else 'ready'}: cmdpax train {report.name} --limit"
        f' "{report.cost_names[0]}<=25"{whole}'
    )
    return 0
