"""How close does training come to optima that are known, and does it keep the limits?

    python benchmarks/known_optima.py --tasks tuning --methods spma-alm,ppo-alm --seeds 3 \
        --out FILE.jsonl --workers 2 [--set name=value ...] [--incumbents]
    python benchmarks/known_optima.py --table FILE.jsonl ...
    python benchmarks/known_optima.py --choices FILE.jsonl ...
    python benchmarks/known_optima.py --aims FILE.jsonl ...
    python benchmarks/known_optima.py --exact [--tasks ...]

The tasks and their exact answers are in `known_optima_tasks.py`. Half of them, `tuning`, may be
used to choose constants; the other half, `untouched`, is run once at the end. Each run is a process
of one thread and one line of FILE.jsonl; what is there already is not run again. Settings are the
defaults but for those of `--set`; `--incumbents` scales advantages and multipliers as incumbents
do. The policy that a run leaves is evaluated exactly where the model is finite, else
by 200 episodes. Of several seeds the table gives the median, then each. `--exact` computes the
answers anew. `--choices` has the last policy of each run beside the one that was kept. `--aims` has
the regret of the best policy that meets the aims of a run's last update, on finite models.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from known_optima_tasks import (
    TASKS,
    TUNING,
    UNTOUCHED,
    Answer,
    Finite,
    Task,
    keep,
    kept_answers,
    outcome,
    regret,
    scores,
)

Row = dict[str, Any]
# advantages standardised one by one and added, the sum divided by 1 + weights, Adam on multipliers
INCUMBENTS = {
    "standardise": "separate",
    "rescale": True,
    "dual_optimiser": "adam",
    "dual_step": 0.035,
    "units": "reward",
    "critics": "plain",
    "cost_gae": 0.95,
}


def run(job: Row) -> Row:
    """Train one job in this process, and judge its policy."""
    import cmdpax

    task, answer = TASKS[job["task"]], kept_answers()[job["task"]]
    settings = {"samples": task.samples, **task.settings, **job["settings"], "seed": job["seed"]}
    started, rows = time.process_time(), list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        try:
            training = cmdpax.train(
                task.problem.environment(),
                job["method"],
                limits=list(task.limits),
                folder=path,
                callback=rows.append,
                **settings,
            )
        except cmdpax.CmdpaxError as error:
            if not rows:  # nothing has run: the job is wrong, not the method
                raise
            training, judged = None, {"error": str(error)}
        seconds = round(time.process_time() - started, 1)
        if training:
            judged = outcome(task, answer, training.policy.core)
            judged |= {"verdict": str(training.verdict), **choice(task, answer, path)}
    last = {name: rows[-1][name] for name in ("samples", "multiplier", "aim")}
    return {**job, **last, "seconds": seconds, **judged, "digest": task.digest}


def choice(task: Task, answer: Answer, folder: Path) -> Row:
    """What judging took, in samples, and what the last policy is worth, if another was kept."""
    import cmdpax
    from cmdpax.learning.run_folder import RunFolder

    run_folder = RunFolder(folder)
    kept, newest = run_folder.kept(), run_folder.checkpoints()[0]
    if kept is None:
        return {"judging": 0}
    row = {"judging": kept[1]["batches"] * run_folder.config["batch"]}
    if kept[1]["checkpoint"] == kept[1]["updates"]:
        return row
    return row | {"last": outcome(task, answer, cmdpax.load_policy(newest).core)}


def key(row: Row) -> str:
    """What makes two lines the same run."""
    names = ("task", "method", "seed", "settings", "variant")
    return json.dumps([row.get(name) for name in names])


def execute(jobs: list[Row], out: Path, workers: int, script: str = __file__) -> None:
    """`script --job JOB` in a process for every job; its line is appended when it is finished."""
    from cmdpax.experiments.executors import ONE_THREAD

    done = {key(row) for row in read(out)} if out.exists() else set()
    out.parent.mkdir(parents=True, exist_ok=True)

    def one(job: Row) -> None:
        command = [sys.executable, script, "--job", json.dumps(job)]
        environment = {**os.environ, **ONE_THREAD}
        child = subprocess.run(command, env=environment, capture_output=True, text=True)
        lines = child.stdout.splitlines()
        if child.returncode or not lines:
            reason = (child.stderr.strip().splitlines() or ["no output"])[-1]
            print(f"{job['task']} {job['method']} {job['seed']} failed: {reason}", flush=True)
            return
        with out.open("a") as file:  # one write of one line: two threads do not mix
            file.write(lines[-1] + "\n")
        print(sentence(json.loads(lines[-1])), flush=True)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, [job for job in jobs if key(job) not in done]))


def read(path: Path) -> list[Row]:
    """The lines of a file."""
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def sentence(row: Row) -> str:
    """One run in one line."""
    which = f"{row['task']:20} {row.get('variant', row['method']):9} seed {row['seed']}"
    if "error" in row:
        return f"{which}: failed, {row['error']}"
    beyond = " ".join(f"{share:+.1f}%" for share in row["violation"].values())
    return f"{which}: violation {beyond}, regret {row['regret']:.1f}%, {row['seconds']:.0f} CPU-s"


def table(rows: list[Row]) -> str:
    """Markdown: a row for each task, method and settings, of all seeds; then the criteria."""
    answers, groups = kept_answers(), dict[tuple[str, int], list[Row]]()
    old = sorted({row["task"] for row in rows if TASKS[row["task"]].digest != row["digest"]})
    order = list(TASKS)
    for row in sorted(rows, key=lambda row: row["seed"]):
        groups.setdefault((variant(row), order.index(row["task"])), []).append(row)
    lines = [f"Of another version of the task: {', '.join(old)}.\n"] if old else []
    lines += [
        "| method | task | half | limits | optimum | violation in % | regret in % | samples |"
        " CPU-s | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (method, place), group in sorted(groups.items()):
        name = order[place]
        task, half = TASKS[name], "tuning" if name in TUNING else "untouched"
        beyond = [
            seeds([row["violation"][cost] if "violation" in row else np.inf for row in group], "+")
            for cost in task.parsed.names
        ]
        lost = seeds([row.get("regret", np.inf) for row in group])
        said = " ".join(sorted({str(row.get("verdict") or "-") for row in group}))
        seconds = np.median([row["seconds"] for row in group])
        optimum = f"{answers[name].optimum:.4g}" if name in answers else "?"
        lines.append(
            f"| {method} | {name} | {half} | {', '.join(task.limits)} | {optimum} |"
            f" {', '.join(beyond)} | {lost} | {group[0]['samples']:,} | {seconds:.0f} | {said} |"
        )
    return "\n".join([*lines, "", *criteria(rows)])


def choices(rows: list[Row]) -> str:
    """Markdown: runs that kept an earlier policy, then all of them with either policy.

    A limit that cannot be met has no part in the second, as in the criteria.
    """
    answers, rows = kept_answers(), [row for row in rows if "judging" in row]
    lines = [
        "| method | task | seed | violation in %: last, kept | regret in %: last, kept |",
        "|---|---|---|---|---|",
    ]
    for row in (row for row in rows if "last" in row):
        worst = [max(one["violation"].values()) for one in (row["last"], row)]
        lost = [one["regret"] for one in (row["last"], row)]
        lines.append(
            f"| {variant(row)} | {row['task']} | {row['seed']} | {worst[0]:+.1f}, {worst[1]:+.1f} |"
            f" {lost[0]:.1f}, {lost[1]:.1f} |"
        )
    lines += [
        "",
        "| method | policy | runs | violation <= 5% | largest | median regret | regret <= 20% |"
        " judging, in % of the samples: median, largest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for method in sorted({variant(row) for row in rows}):
        group = [
            row for row in rows if variant(row) == method and answers[row["task"]].least is None
        ]
        share = [100 * row["judging"] / row["samples"] for row in group] or [0.0]
        for policy in ("last", "kept"):
            outcomes = [row.get("last", row) if policy == "last" else row for row in group]
            within, largest, median, small = scores(outcomes)
            lines.append(
                f"| {method} | {policy} | {len(group)} | {within:.0%} | {largest:+.1f}% |"
                f" {median:.1f}% | {small:.0%} | {np.median(share):.0f}, {max(share):.0f} |"
            )
    return "\n".join(lines)


def aims(rows: list[Row]) -> str:
    """Markdown: what the aim of a run costs, and what the run lost, in per cent of the range."""
    lines = [
        "| task | limits | aim | regret of the aim | regret of the run |",
        "|---|---|---|---|---|",
    ]
    for row in (row for row in rows if "aim" in row):
        lost, said = price_of_aim(row), " ".join(f"{one:.4g}" for one in row["aim"].values())
        if lost is not None:
            cells = [row["task"], ", ".join(TASKS[row["task"]].limits), said, f"{lost:.1f}"]
            lines.append(f"| {' | '.join(cells)} | {row['regret']:.1f} |")
    return "\n".join(lines)


def price_of_aim(row: Row) -> float | None:
    """Regret of the best policy that meets the aims; infinite if none does; None if unknown."""
    import cmdpax

    task, answer = TASKS[row["task"]], kept_answers()[row["task"]]
    if answer.least is not None or not isinstance(task.problem, Finite):
        return None
    texts = [
        f"{name}<={aim!r}" if np.isfinite(high) else f"{name}>={aim!r}"
        for (name, aim), high in zip(row["aim"].items(), task.parsed.bounds[:, 1])
    ]
    result = cmdpax.solve(task.problem.model(cmdpax.Limits.parse(texts), task.discount))
    return regret(answer, result.reward) if result.status == "certified" else np.inf


def seeds(numbers: list[float], sign: str = "") -> str:
    """The median, and the numbers of all seeds; `inf` where a run failed."""
    each = " ".join(f"{number:{sign}.1f}" for number in numbers)
    return each if len(numbers) == 1 else f"{np.median(numbers):{sign}.1f} ({each})"


def variant(row: Row) -> str:
    """Method and settings, as the table calls them."""
    settings = dict(row["settings"])
    if settings.items() >= INCUMBENTS.items():
        settings = {name: one for name, one in settings.items() if name not in INCUMBENTS}
        settings["scaling"] = "incumbents'"
    said = " ".join(f"{name}={value}" for name, value in settings.items())
    return f"{row['method']} {said}".strip()


def criteria(rows: list[Row]) -> list[str]:
    """What must hold over all pairs of task and seed, for each method and half.

    A limit that cannot be met is judged by the verdict, and has no part in this.
    """
    answers = kept_answers()
    lines = [
        "| method | half | pairs | violation <= 5% (>= 90% of pairs) | largest (<= 15%) |"
        " median regret (<= 10%) | regret <= 20% (>= 90% of pairs) | kept? |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for method in sorted({variant(row) for row in rows}):
        for half, names in (("tuning", TUNING), ("untouched", UNTOUCHED)):
            judged = [
                row
                for row in rows
                if variant(row) == method and row["task"] in names and row["task"] in answers
                if answers[row["task"]].least is None
            ]
            if not judged:
                continue
            within, largest, median, small = scores(judged)
            is_kept = within >= 0.9 and largest <= 15 and small >= 0.9 and median <= 10
            lines.append(
                f"| {method} | {half} | {len(judged)} | {within:.0%} | {largest:+.1f}% |"
                f" {median:.1f}% | {small:.0%} | {'yes' if is_kept else 'no'} |"
            )
    return lines


def selected(words: str) -> list[str]:
    """Names of tasks: `tuning`, `untouched`, `all`, or names with commas."""
    halves = {"tuning": TUNING, "untouched": UNTOUCHED, "all": tuple(TASKS)}
    names = list(halves.get(words, words.split(",")))
    for name in names:
        if name not in TASKS:
            sys.exit(f"no task '{name}'; there are {', '.join(TASKS)}.")
    return names


def setting(text: str) -> tuple[str, Any]:
    """`name=value`, the value as JSON or as a word."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def options_of_runs(description: str, out: Path) -> argparse.ArgumentParser:
    """Options of a script whose runs are processes of their own (`execute`), one line in `out`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="for a trial")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    return parser


def main() -> None:
    parser = options_of_runs(__doc__, Path("known_optima.jsonl"))
    parser.add_argument("--tasks", default="tuning")
    parser.add_argument("--methods", default="spma-alm,ppo-alm")
    parser.add_argument("--incumbents", action="store_true")
    parser.add_argument("--table", nargs="+", type=Path)
    parser.add_argument("--choices", nargs="+", type=Path)
    parser.add_argument("--aims", nargs="+", type=Path)
    parser.add_argument("--exact", action="store_true")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(run(json.loads(options.job))))
        return
    if options.table:
        print(table([row for path in options.table for row in read(path)]))
        return
    if options.choices:
        print(choices([row for path in options.choices for row in read(path)]))
        return
    if options.aims:
        print(aims([row for path in options.aims for row in read(path)]))
        return
    names = selected(options.tasks)
    answers = kept_answers()
    if options.exact:
        for name in names:
            answers[name] = TASKS[name].solve()
            print(name, *TASKS[name].limits, answers[name], flush=True)
        keep({name: answers[name] for name in TASKS if name in answers})
        return
    if missing := [name for name in names if name not in answers]:
        sys.exit(f"no answer for {', '.join(missing)}; run --exact --tasks {','.join(missing)}.")
    settings = {**(INCUMBENTS if options.incumbents else {}), **dict(map(setting, options.set))}
    jobs = [
        {"task": name, "method": method, "seed": seed, "settings": settings}
        for seed in range(options.seeds)
        for method in options.methods.split(",")
        for name in names
    ]
    execute(jobs, options.out, options.workers)


if __name__ == "__main__":
    main()
