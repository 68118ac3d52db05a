"""A training watched on Weights & Biases, by the callback: one row of metrics an update.

`pip install wandb`, and `wandb login` or `WANDB_MODE=offline`.
"""

import tempfile

import wandb

import cmdpax

SETTINGS = {"limits": ["cost<=25"], "samples": 4_000, "evaluate_every": 1, "evaluate_episodes": 2}


def flat(row):
    """`{"cost": {"heat": 3}}` as `{"cost/heat": 3}`."""
    pairs = ((name, one if isinstance(one, dict) else {"": one}) for name, one in row.items())
    return {f"{name}/{part}".rstrip("/"): x for name, one in pairs for part, x in one.items()}


with tempfile.TemporaryDirectory() as folder, wandb.init(project="cmdpax", config=SETTINGS) as run:
    training = cmdpax.train(
        "SafetyHopperVelocity-v1",
        folder=f"{folder}/hopper",
        callback=lambda row: run.log(flat(row), step=row["samples"]),
        **SETTINGS,
    )
    run.summary["verdict"] = str(training.verdict)
