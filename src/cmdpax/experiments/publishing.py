"""The final policy of a run, and what it does, for others to check in a minute without training.

A published run is a run folder that nobody writes to any more. Its one checkpoint has the policy
alone, some tens of kB; `card.json` says what made it and what it does.
"""

from pathlib import Path
from typing import Any

from cmdpax.errors import InputError
from cmdpax.experiments.store import versions
from cmdpax.files.reading import Row, read_json
from cmdpax.files.written import plain, write_json
from cmdpax.learning.evaluation import as_numbers, measure, trained_in
from cmdpax.learning.policy import spaces_of
from cmdpax.learning.portable import read_network
from cmdpax.learning.run_folder import RunFolder

PARTS = ("policy/", "seen/")  # of a checkpoint's arrays, what acts
DIGITS = 6  # of the numbers of single episodes
STATISTICS = ("mean", "std", "p90", "worst", "bound")


def publish(
    run: str | Path,
    folder: str | Path,
    *,
    environment: Any = None,
    trust: bool = False,
    episodes: int = 100,
    seed: int = 12345,
) -> Row:
    """Publish the policy of a run folder in `folder`, and return its card.

    The folder is new, or holds a record of the same run, which stays, or what a publication that
    was killed left there. environment, trust, episodes and seed are as for `evaluate`.
    """
    source, target = RunFolder(run), RunFolder(folder)
    config = source.config
    if target.card is not None:
        raise InputError(f"{target.path} is published already; give another folder.")
    is_training = target.checkpoints() and not all(map(_acts, target.newest()[0]))
    if is_training or (target.path.exists() and target.config != config):
        raise InputError(f"{target.path} holds another run; give another folder.")
    arrays, _ = source.policy()
    policy = read_network(source.path, trust)
    chosen = environment or trained_in(source, trust)
    measured = as_numbers(measure(policy, chosen, config, episodes, seed))
    if not target.path.exists():
        target.path.mkdir(parents=True)
        write_json(target.path / "config.json", config)
    acting = {name: array for name, array in arrays.items() if _acts(name)}
    target.save(policy.updates, acting, spaces_of(policy))
    if episodes >= 100:  # what the tables of tails are made of
        write_json(target.path / f"evaluation-{episodes}.json", plain(measured, DIGITS))
    card = _card(config, policy.updates, episodes, seed, measured)
    card["trained with"] = read_json(source.path / "result.json").get("versions")
    write_json(target.path / "card.json", card)  # last: with it, the run is published
    return card


def _acts(name: str) -> bool:
    """Whether an array of a checkpoint is a part of the policy."""
    return name.startswith(PARTS)


def _card(config: Row, updates: int, episodes: int, seed: int, measured: Row) -> Row:
    """Task, method, seed, settings, versions, return and costs, in this order."""
    kinds = {
        kind: {
            "return": {part: seen["reward"][part] for part in STATISTICS},
            **{
                name: {part: cost[part] for part in STATISTICS}
                for name, cost in seen["costs"].items()
            },
            "verdict": seen["verdict"] and seen["verdict"]["word"],
        }
        for kind, seen in measured.items()
    }
    means = {name: part["mean"] for name, part in kinds["stochastic"].items() if name != "verdict"}
    numbers = ", ".join(f"{name} {mean:.6g}" for name, mean in means.items())
    heads = ("environment", "method", "seed", "limits")
    others = {name: value for name, value in config.items() if name not in heads}
    return {
        "summary": f"{numbers} over {episodes} episodes from seed {seed}",
        **{name: config[name] for name in heads},
        "updates": updates,
        "samples": updates * config["batch"],
        "episodes": episodes,
        "episode seed": seed,
        **kinds,
        "settings": others,
        "measured with": versions(),
    }
