"""End-to-end training speed, ours against OmniSafe 0.5.0: environment steps per CPU-second on one
core, equal settings.

    python benchmarks/vs_omnisafe.py --omnisafe-python PATH [--epochs 5] [--task
    SafetyHalfCheetahVelocity-v1] [--record FILE]

Both sides: 20,000 steps an epoch, 10 passes, minibatch 64, 64x64 networks, no early stop, one
thread. OmniSafe lives in its own virtual environment (Python 3.11: torch==2.13.0 gymnasium==0.28.1
gymnasium-robotics==1.2.2 mujoco==2.3.3 'pygame>=2.1.3' 'numpy<2' pandas==2.0.3, then
safety-gymnasium and omnisafe with --no-deps and what they import). Imports are not counted. Ours is
given with and without compilation, which a run pays once; the ratio is without. `--record` keeps
the numbers as JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EPOCH = 20_000
MINIBATCH = 64
METHODS = {"PPOLag": "ppo-lag", "CPO": "cpo"}
ONE_CORE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}

OMNISAFE = """
import json, sys, time, omnisafe
name, task, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
settings = {
    "train_cfgs": {"total_steps": steps, "vector_env_nums": 1, "torch_threads": 1, "device": "cpu"},
    "algo_cfgs": {"steps_per_epoch": 20000, "update_iters": 10, "batch_size": 64},
    "logger_cfgs": {"use_wandb": False, "use_tensorboard": False, "save_model_freq": 1000},
}
if name == "PPOLag":
    settings["algo_cfgs"]["kl_early_stop"] = False
agent = omnisafe.Agent(name, task, custom_cfgs=settings)
started = time.process_time()
agent.learn()
print("SECONDS", time.process_time() - started)
"""


def omnisafe(python: str, name: str, task: str, epochs: int) -> float:
    """CPU-seconds of OmniSafe's learning."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-c", OMNISAFE, name, task, str(epochs * EPOCH)]
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, **ONE_CORE},
            check=False,
        )
    lines = [line for line in answer.stdout.splitlines() if line.startswith("SECONDS")]
    if not lines:
        sys.exit(f"OmniSafe failed:\n{answer.stderr[-2000:]}")
    return float(lines[0].split()[1])


def ours(name: str, task: str, epochs: int) -> tuple[float, float]:
    """CPU-seconds of our training: everything, and without the first epoch (which compiles), scaled
    to all epochs.
    """
    command = [
        sys.executable,
        __file__,
        "--ours",
        METHODS[name],
        "--task",
        task,
        "--epochs",
        str(epochs),
    ]
    answer = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **ONE_CORE}, check=True
    )
    seconds = json.loads(answer.stdout.splitlines()[-1])
    return seconds[-1], (seconds[-1] - seconds[0]) * epochs / (epochs - 1)


def run_ours(method: str, task: str, epochs: int) -> None:
    from cmdpax import train

    started, seconds = time.process_time(), []
    with tempfile.TemporaryDirectory() as folder:
        train(
            task,
            method,
            samples=epochs * EPOCH,
            batch=EPOCH,
            minibatch=MINIBATCH,
            kl_stop=0.0,
            folder=Path(folder) / "run",
            callback=lambda row: seconds.append(time.process_time() - started),
        )
    print(json.dumps(seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--omnisafe-python")
    parser.add_argument("--task", default="SafetyHalfCheetahVelocity-v1")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--ours", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours:
        run_ours(options.ours, options.task, options.epochs)
        sys.exit()
    steps = options.epochs * EPOCH
    print(f"{options.task}, {options.epochs} epochs of {EPOCH} steps; steps per CPU-second")
    rows = []
    for name in METHODS:
        whole, warm = ours(name, options.task, options.epochs)
        row = {"method": name, "ours": steps / warm, "ours_with_compilation": steps / whole}
        line = f"{name:8} ours {steps / warm:8.0f} (with compilation {steps / whole:.0f})"
        if options.omnisafe_python:
            theirs = omnisafe(options.omnisafe_python, name, options.task, options.epochs)
            row |= {"omnisafe": steps / theirs, "ratio": theirs / warm}
            line += f"   OmniSafe {steps / theirs:8.0f}   ratio {theirs / warm:.1f}"
        rows.append(row)
        print(line, flush=True)
    if options.record:
        settings = {
            "task": options.task,
            "epochs": options.epochs,
            "epoch": EPOCH,
            "passes": 10,
            "minibatch": MINIBATCH,
        }
        options.record.write_text(
            json.dumps({**settings, "unit": "steps per CPU-second", "rows": rows}, indent=1) + "\n"
        )
