"""Ten public Gymnasium environments, each with a cost, trained for a short run.

    cd benchmarks
    cmdpax train public_environments:cart_pole --limit "beside<=25" --samples 1e5
    python public_environments.py                       # all ten, and the table of docs/deep.md
    python public_environments.py --table               # the table alone, from the records

A line of `results/public_environments/tasks.jsonl` has what happened, with settings and versions;
tasks that are there are not repeated: remove the file to measure a changed learner. LunarLander
needs `pip install -c constraints.txt '.[deep,box2d]'`.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import gymnasium

import cmdpax
from cmdpax.experiments.store import installed, versions
from cmdpax.files.reading import read_rows
from cmdpax.files.written import write_rows
from cmdpax.learning.run_folder import RunFolder

HERE = Path(__file__).resolve().parent
RECORDS = HERE.parent / "results" / "public_environments" / "tasks.jsonl"
EPISODES = 100
PACKAGES = ("box2d",)  # beside those of every record, what environments run on


class WithCost(gymnasium.Wrapper):
    """`info["cost"] = {name: cost(environment, observation, action, reward, ended, info)}`."""

    def __init__(self, env, **costs):
        super().__init__(env)
        self.costs = costs

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        seen = (self.env.unwrapped, observation, action, reward, terminated, info)
        cost = {name: float(cost(*seen)) for name, cost in self.costs.items()}
        return observation, reward, terminated, truncated, {**info, "cost": cost}


def frozen_lake():
    """Holes: how many episodes end in one."""

    def holes(env, observation, action, reward, ended, info):
        return ended and reward == 0

    return WithCost(gymnasium.make("FrozenLake-v1"), holes=holes)


def taxi():
    """Fuel: moves, each of them. Its masks forbid walls, and passengers who are not there."""

    def fuel(env, observation, action, reward, ended, info):
        return action < 4

    return WithCost(gymnasium.make("Taxi-v4"), fuel=fuel)


def cliff_walking():
    """Falls off the cliff, after which the walk begins anew."""

    def falls(env, observation, action, reward, ended, info):
        return reward == -100

    return WithCost(gymnasium.make("CliffWalking-v1", max_episode_steps=100), falls=falls)


def blackjack():
    """Busts: how many games are lost by taking too many cards."""

    def busts(env, observation, action, reward, ended, info):
        return ended and observation[0] > 21

    return WithCost(gymnasium.make("Blackjack-v1", max_episode_steps=20), busts=busts)


def cart_pole():
    """Steps with the cart more than a fifth of a unit beside the middle."""

    def beside(env, observation, action, reward, ended, info):
        return abs(observation[0]) > 0.2

    return WithCost(gymnasium.make("CartPole-v1"), beside=beside)


def mountain_car():
    """Steps faster than 0.045 (the car can do 0.07)."""

    def speeding(env, observation, action, reward, ended, info):
        return abs(observation[1]) > 0.045

    return WithCost(gymnasium.make("MountainCarContinuous-v0"), speeding=speeding)


def acrobot():
    """Steps with a torque."""

    def torque(env, observation, action, reward, ended, info):
        return action != 1

    return WithCost(gymnasium.make("Acrobot-v1"), torque=torque)


def pendulum():
    """Torque, in all."""

    def torque(env, observation, action, reward, ended, info):
        return abs(action[0])

    return WithCost(gymnasium.make("Pendulum-v1"), torque=torque)


def lunar_lander():
    """Steps with the main engine on."""

    def fuel(env, observation, action, reward, ended, info):
        return action == 2

    return WithCost(gymnasium.make("LunarLander-v3"), fuel=fuel)


def hopper():
    """Steps faster than one metre a second."""

    def speeding(env, observation, action, reward, ended, info):
        return info["x_velocity"] > 1

    return WithCost(gymnasium.make("Hopper-v5"), speeding=speeding)


# function, Gymnasium's name, kind, limit, samples
TASKS = (
    (frozen_lake, "FrozenLake-v1", "toy text", "holes<=0.2", "1e5"),
    (taxi, "Taxi-v4", "toy text, masks", "fuel<=100", "1e5"),
    (cliff_walking, "CliffWalking-v1", "toy text", "falls<=0.1", "1e5"),
    (blackjack, "Blackjack-v1", "toy text", "busts<=0.1", "5e4"),
    (cart_pole, "CartPole-v1", "classic control", "beside<=25", "1e5"),
    (mountain_car, "MountainCarContinuous-v0", "classic control", "speeding<=20", "1e5"),
    (acrobot, "Acrobot-v1", "classic control", "torque<=80", "1e5"),
    (pendulum, "Pendulum-v1", "classic control", "torque<=100", "1e5"),
    (lunar_lander, "LunarLander-v3", "Box2D", "fuel<=60", "2e5"),
    (hopper, "Hopper-v5", "MuJoCo v5", "speeding<=50", "2e5"),
)


def measured(make, name, kind, limit, samples):
    """Train by the command, evaluate a hundred episodes: what happened, as a record."""
    source, cost = f"public_environments:{make.__name__}", limit.partition("<=")[0]
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place) / "run")
        words = ["train", source, "--limit", limit, "--samples", samples, "--out", folder.path]
        subprocess.run([sys.executable, "-P", "-m", "cmdpax", *words], cwd=HERE, check=True)
        run = cmdpax.evaluate(folder.path, environment=source, episodes=EPISODES)
        rows, settings = folder.rows(), folder.config
    kinds = {
        acting: {"return": seen.reward.mean, "cost": seen.costs[cost].mean}
        for acting, seen in run.items()
    }
    return {
        "task": make.__name__,
        "environment": name,
        "kind": kind,
        "limit": limit,
        "samples": rows[-1]["samples"],
        "first batch": {"return": rows[0]["return"], "cost": rows[0]["cost"][cost]},
        **kinds,
        "episodes": EPISODES,
        "verdict": run["stochastic"].verdict.word,
        "settings": settings,
        "versions": {**versions(), **installed(PACKAGES)},
    }


def table(rows):
    """The records in Markdown, as docs/deep.md has them."""
    heads = ("environment", "kind", "limit", "samples", "return", "cost", "limit is")
    yield "| " + " | ".join((*heads, "deterministic: return, cost")) + " |"
    yield "|" + "---|" * 8
    for row in rows:
        first, last, best = (row[k] for k in ("first batch", "stochastic", "deterministic"))
        cells = (
            f"`{row['environment']}`",
            row["kind"],
            f"`{row['limit']}`",
            f"{row['samples']:,}",
            f"{first['return']:.3g} -> {last['return']:.3g}",
            f"{first['cost']:.3g} -> {last['cost']:.3g}",
            row["verdict"],
            f"{best['return']:.3g}, {best['cost']:.3g}",
        )
        yield "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [task[0].__name__ for task in TASKS]
    parser.add_argument("--tasks", nargs="*", choices=names, default=names, metavar="TASK")
    parser.add_argument("--samples", help="of every run (default: its own)")
    parser.add_argument("--record", type=Path, default=RECORDS, help="JSON lines, one a task")
    parser.add_argument("--table", action="store_true", help="print the records, train nothing")
    options = parser.parse_args()
    for task in () if options.table else TASKS:
        name, samples = task[0].__name__, options.samples or task[-1]
        rows = read_rows(options.record)[0] if options.record.exists() else []
        if name not in options.tasks or any(row["task"] == name for row in rows):
            continue
        options.record.parent.mkdir(parents=True, exist_ok=True)
        rows.append(measured(*task[:-1], samples))
        write_rows(options.record, sorted(rows, key=lambda row: names.index(row["task"])))
    print(*table(read_rows(options.record)[0]), sep="\n")


if __name__ == "__main__":
    main()
