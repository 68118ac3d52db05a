"""Commands on simulators: train, evaluate, film, check-env."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.table import Table

from cmdpax.commands.terminal import Json, TrainingBar, deep, out
from cmdpax.deep.config import PAPER, TrainConfig, incumbents_batches

Run = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]


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
        preset: paper: the paper's settings for whatever is not given (`--preset paper --help` shows them)
    """
    training = deep("cmdpax.deep.train")
    if preset == "paper":
        config = incumbents_batches(config)
    plain = config.environment.replace(":", "-").replace("/", "-")
    folder = out_dir or Path("runs") / f"{plain}-{config.method}-{config.seed}"
    with TrainingBar(config.resolved().samples) as bar:
        try:
            training.train(config, folder, resume, bar.row)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command with --resume goes on from the last checkpoint.") from None
    out.print(f"trained; next: cmdpax evaluate {folder}", markup=False)
    return 0


# tyro must know the defaults before it parses, or what is given could not be told from what is not
train_as_the_paper = partial(train, config=TrainConfig(tyro.MISSING, **PAPER))


def evaluate(
    run_dir: Run,
    episodes: int = 10,
    seed: int = 12345,
    as_json: Json = False,
) -> int:
    """Measure a trained policy, acting at random as in training and deterministically: return, costs, tails, chance of violation.

    The numbers are kept in the run folder as evaluation.json.

    Args:
        run_dir: folder of `cmdpax train`
        episodes: how many, of each kind
        seed: of the environments
        as_json: print one JSON object
    """
    evaluation = deep("cmdpax.deep.evaluate")
    found = evaluation.evaluate(run_dir, episodes, seed)
    if as_json:
        print(evaluation.as_json(found))
        return 0
    for kind, seen in found.items():
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
    out.print(f"wrote {deep('cmdpax.deep.film').film(run_dir, out_file, steps, seed)}", markup=False)
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
    gym_adapter = deep("cmdpax.environments.gym_adapter")
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
