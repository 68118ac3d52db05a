"""How fast is training beside OmniSafe 0.5.0, in environment steps per CPU-second on one core?

    python benchmarks/vs_omnisafe.py --omnisafe-python PATH [--epochs 5] [--record FILE]

Equal settings: 20,000 steps an epoch, 10 passes, minibatch 64, 64x64 networks, no early stop, one
thread. OmniSafe lives in its own virtual environment (Python 3.10: `pip install omnisafe==0.5.0`
and 'numpy<2'; Python 3.11: torch==2.13.0 gymnasium==0.28.1
gymnasium-robotics==1.2.2 mujoco==2.3.3 'pygame>=2.1.3' 'numpy<2' pandas==2.0.3, then
safety-gymnasium and omnisafe with --no-deps and what they import); without it only ours is timed.
Imports are not counted. Ours is given with and without compilation, which a run pays once; the
ratio is without. `--record` keeps the numbers as JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cmdpax.experiments.executors import ONE_THREAD

EPOCH, PASSES, MINIBATCH = 20_000, 10, 64
METHODS = {"PPOLag": "ppo-lag", "CPO": "cpo"}
OMNISAFE = """
import json, sys, time, omnisafe
name, task, steps, epoch, passes, minibatch = *sys.argv[1:3], *map(int, sys.argv[3:])
settings = {
    "train_cfgs": {"total_steps": steps, "vector_env_nums": 1, "torch_threads": 1, "device": "cpu"},
    "algo_cfgs": {"steps_per_epoch": epoch, "update_iters": passes, "batch_size": minibatch},
    "logger_cfgs": {"use_wandb": False, "use_tensorboard": False, "save_model_freq": 1000},
}
if name == "PPOLag":
    settings["algo_cfgs"]["kl_early_stop"] = False
agent = omnisafe.Agent(name, task, custom_cfgs=settings)
started = time.process_time()
agent.learn()
print("SECONDS", json.dumps([time.process_time() - started]))
"""


def seconds_of(command: list[str], folder: str | None = None) -> list[float]:
    """The CPU seconds that a program prints at last, run on one thread, in a folder or here."""
    alone = {**os.environ, **ONE_THREAD}
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=alone)
    lines = [line for line in run.stdout.splitlines() if line.startswith("SECONDS ")]
    if not lines:
        sys.exit(f"{command[0]} failed:\n{run.stderr[-2000:]}")
    return json.loads(lines[-1].removeprefix("SECONDS "))


def omnisafe(python: str, name: str, task: str, epochs: int) -> float:
    """CPU seconds of OmniSafe's learning."""
    numbers = [str(number) for number in (epochs * EPOCH, EPOCH, PASSES, MINIBATCH)]
    with tempfile.TemporaryDirectory() as folder:
        return seconds_of([python, "-c", OMNISAFE, name, task, *numbers], folder)[-1]


def omnisafe_versions(python: str) -> dict[str, str]:
    """Versions of what OmniSafe computes with."""
    names = ("omnisafe", "safety-gymnasium", "gymnasium", "mujoco", "numpy", "torch")
    words = f"import json, importlib.metadata as m; print(json.dumps([*map(m.version, {names})]))"
    said = subprocess.run([python, "-c", words], capture_output=True, text=True, check=True)
    return dict(zip(names, json.loads(said.stdout)))


def ours(name: str, task: str, epochs: int) -> tuple[float, float]:
    """CPU seconds of our training: of all, and without the first epoch, scaled to all."""
    script = [sys.executable, __file__, "--ours", METHODS[name]]
    seconds = seconds_of([*script, "--task", task, "--epochs", str(epochs)])
    return seconds[-1], (seconds[-1] - seconds[0]) * epochs / (epochs - 1)


def train_ours(method: str, task: str, epochs: int) -> None:
    """Train in this process and print the CPU seconds after every epoch."""
    from cmdpax.learning.training import train

    started, seconds = time.process_time(), []
    with tempfile.TemporaryDirectory() as folder:
        train(
            task,
            method,
            folder=Path(folder) / "run",
            callback=lambda row: seconds.append(time.process_time() - started),
            samples=epochs * EPOCH,
            batch=EPOCH,
            passes=PASSES,
            minibatch=MINIBATCH,
            kl_stop=0.0,
        )
    print("SECONDS", json.dumps(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--omnisafe-python", help="the interpreter of its virtual environment")
    parser.add_argument("--task", default="SafetyHalfCheetahVelocity-v1")
    parser.add_argument("--epochs", type=int, default=5, help="at least 2")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--ours", help=argparse.SUPPRESS)
    options = parser.parse_args()
    task, epochs, steps = options.task, options.epochs, options.epochs * EPOCH
    if options.ours:
        train_ours(options.ours, task, epochs)
        return
    print(f"{task}, {epochs} epochs of {EPOCH} steps; steps per CPU-second")
    rows = []
    for name in METHODS:
        whole, warm = ours(name, task, epochs)
        row = {"method": name, "ours": steps / warm, "ours_with_compilation": steps / whole}
        line = f"{name:8} ours {steps / warm:8.0f} (with compilation {steps / whole:.0f})"
        if options.omnisafe_python:
            theirs = omnisafe(options.omnisafe_python, name, task, epochs)
            row |= {"omnisafe": steps / theirs, "ratio": theirs / warm}
            line += f"   OmniSafe {steps / theirs:8.0f}   ratio {theirs / warm:.1f}"
        rows.append(row)
        print(line, flush=True)
    if options.record:
        settings = {"epoch": EPOCH, "passes": PASSES, "minibatch": MINIBATCH}
        header = {"task": task, "epochs": epochs, **settings, "unit": "steps per CPU-second"}
        options.record.write_text(json.dumps({**header, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
