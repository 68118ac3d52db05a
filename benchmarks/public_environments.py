"""Ten public Gymnasium environments, each with a cost, trained for a short run.

    cd benchmarks
    cmdpax train public_environments:cart_pole --limit "beside<=25" --samples 1e5
    python public_environments.py                       # all ten, and the table of docs/deep.md

`runs/public` keeps the runs; those that are there are not repeated. LunarLander needs
`pip install 'gymnasium[box2d]'`.
"""

import subprocess
import sys
from pathlib import Path

import gymnasium

import cmdpax
from cmdpax.learning.run_folder import RunFolder

FOLDER = Path("runs/public")


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


def row(make, name, kind, limit, samples):
    """Train by the command, evaluate a hundred episodes; a row of the table."""
    source, folder = f"public_environments:{make.__name__}", FOLDER / make.__name__
    if not (folder / "config.json").exists():
        words = ["train", source, "--limit", limit, "--samples", samples, "--out", str(folder)]
        subprocess.run([sys.executable, "-m", "cmdpax", *words], check=True)
    run = cmdpax.evaluate(folder, environment=source, episodes=100)
    seen, best = run["stochastic"], run["deterministic"]
    rows = RunFolder(folder).rows()
    cost = limit.partition("<=")[0]
    numbers = (
        f"{rows[0]['return']:.3g} -> {seen.reward.mean:.3g}",
        f"{rows[0]['cost'][cost]:.3g} -> {seen.costs[cost].mean:.3g}",
        seen.verdict.word,
        f"{best.reward.mean:.3g}, {best.costs[cost].mean:.3g}",
    )
    return f"| `{name}` | {kind} | `{limit}` | {float(samples):,.0f} | {' | '.join(numbers)} |"


def main():
    heads = ("environment", "kind", "limit", "samples", "return", "cost", "limit is")
    print("|", " | ".join((*heads, "deterministic: return, cost")), "|")
    print("|" + "---|" * 8)
    for task in TASKS:
        print(row(*task), flush=True)


if __name__ == "__main__":
    main()
