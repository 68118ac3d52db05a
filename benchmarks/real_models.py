"""Real models beside Storm: uneven, nearly acyclic, numbered as their builder likes.

    python benchmarks/real_models.py OUT.jsonl      (needs stormpy: pip install 'cmdpax[storm]')
    python benchmarks/real_models.py --table OUT.jsonl      the table of docs/benchmarks.md

Six models of stormpy's own examples and four protocols that are written below, each with discount
.99 and .999. A choice pays a fixed random number in [0, 1], nothing where a run has ended. Storm
gets the same chain with a leak: with probability 1 - gamma every step leads to a sink, and the
question is `R{"r"}max=? [F "sink"]`. Its default mode (value iteration, precision 1e-6) is timed
with its true error, its sound mode where that ends in time. Both sides find the components and
solve; reading and building are not timed. The plan answers what the default mode answers, a value
and no proof; `cmdpax.solve` adds a policy and its certificate. Both are asked for an error that is
not larger than that of the default mode. One thread, CPU seconds, the median of seven; Storm's
calls, in both modes, and ours take turns, each after an untimed one of the same kind: in calls of
a millisecond the processor's caches decide, and they are to be everybody's own.

Errors are measured against the value of the best policy, solved for by LU with residuals in
extended precision. An error below EXACT of the value is none, whoever makes it: products of gamma
and the chances are rounded in what Storm is given, and in ours while it computes, and 1/(1 - gamma)
steps of that are 1e-13 of the value by themselves.
"""

import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

import cmdpax
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import compiled

compiled.PATIENCE = 0.0  # seconds are those of machine code

KINDS = ("plan", "cmdpax")  # of our answers
DISCOUNTS, ROUNDS, SOUND_SECONDS = (0.99, 0.999), 7, 5.0
EXACT = 1e-11  # of the value: nobody is asked for less
EXAMPLES: dict[str, tuple[str, str]] = {  # file of stormpy's examples, constants
    "csma2": ("csma2-2.nm", ""),
    "leader4": ("leader4.nm", ""),
    "wlan0": ("wlan0_collide.nm", "COL=2,TRANS_TIME_MAX=10"),
    "coin2": ("coin2.nm", "K=40"),
    "firewire3": ("firewire.nm", "delay=3,fast=0.5"),
    "firewire36": ("firewire.nm", "delay=36,fast=0.5"),
}
Choices = list[dict[Any, float]]


def explored(start: Any, choices: Callable[[Any], Choices]) -> list[Choices]:
    """For every state that can be reached a list of choices `{next state's number: chance}`."""
    number, queue, rows = {start: 0}, [start], []
    while len(rows) < len(queue):
        own = []
        for choice in choices(queue[len(rows)]):
            for state in choice:
                if state not in number:
                    number[state] = len(queue)
                    queue.append(state)
            own.append({number[state]: chance for state, chance in choice.items()})
        rows.append(own)
    return rows


def added(*outcomes: tuple[Any, float]) -> dict[Any, float]:
    """Outcomes with their chances; equal ones are one."""
    choice: dict[Any, float] = {}
    for state, chance in outcomes:
        choice[state] = choice.get(state, 0.0) + chance
    return choice


def consensus(processes: int = 4, bound: int = 4) -> list[Choices]:
    """Aspnes and Herlihy's shared coin: toss, move the counter, look at it; decide at its ends."""
    most, ends = 2 * (bound + 1) * processes, (processes, 2 * (bound + 1) * processes - processes)

    def choices(state: tuple[Any, ...]) -> Choices:
        counter, *each = state
        options: Choices = []
        for i, (place, coin) in enumerate(each):

            def moved(place: int, coin: int, counter: int = counter, i: int = i) -> Any:
                others = list(each)
                others[i] = (place, coin)
                return (counter, *others)

            if place == 0:
                options.append(added((moved(1, 0), 0.5), (moved(1, 1), 0.5)))
            elif place == 1 and 0 < counter < most:
                options.append({moved(2, 0, counter + 2 * coin - 1): 1.0})
            elif place == 2:
                if counter <= ends[0]:
                    options.append({moved(3, 0): 1.0})
                elif counter >= ends[1]:
                    options.append({moved(3, 1): 1.0})
                else:
                    options.append({moved(0, 0): 1.0})
        return options or [{state: 1.0}]

    return explored((most // 2, *((0, 0),) * processes), choices)


def jobs(count: int = 8, phases: int = 2) -> list[Choices]:
    """Two machines work on two unfinished jobs at a time; each ends a phase with its own chance."""
    chances = np.linspace(0.2, 0.8, count)

    def choices(state: tuple[int, ...]) -> Choices:
        open_jobs = [i for i, left in enumerate(state) if left]
        options = []
        for pair in combinations(open_jobs, min(2, len(open_jobs))):
            outcomes = []
            for done in product((0, 1), repeat=len(pair)):
                after, chance = list(state), 1.0
                for i, is_done in zip(pair, done):
                    after[i] -= is_done
                    chance *= chances[i] if is_done else 1 - chances[i]
                outcomes.append((tuple(after), float(chance)))
            options.append(added(*outcomes))
        return options if open_jobs else [{state: 1.0}]

    return explored((phases,) * count, choices)


def gathering(deliveries: int = 300) -> list[Choices]:
    """Gold and gems are brought home from a grid of 5 x 5 cells, two of which are attacked."""

    def choices(state: tuple[int, ...]) -> Choices:
        x, y, gold, gem, left = state
        if left == 0:
            return [{state: 1.0}]
        options = []
        for dx, dy in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            u, v = x + dx, y + dy
            if not (0 <= u < 5 and 0 <= v < 5):
                continue
            carried = (gold or (u, v) == (1, 4), gem or (u, v) == (4, 3))
            if (u, v) == (2, 0):
                options.append({(2, 0, 0, 0, left - bool(gold or gem)): 1.0})
            elif (u, v) in ((2, 3), (2, 4)):
                spared = (u, v, int(carried[0]), int(carried[1]), left)
                options.append(added((spared, 0.9), ((2, 0, 0, 0, left), 0.1)))
            else:
                options.append({(u, v, int(carried[0]), int(carried[1]), left): 1.0})
        return options

    return explored((2, 0, 0, 0, deliveries), choices)


def philosophers(count: int = 6) -> list[Choices]:
    """Lehmann and Rabin's: think, toss for a side, take that fork, then the other, or give up."""

    def choices(state: tuple[int, ...]) -> Choices:
        def moved(i: int, place: int) -> tuple[int, ...]:
            return (*state[:i], place, *state[i + 1 :])

        def is_free(i: int, side: int) -> bool:
            neighbour = state[(i + (1 if side else -1)) % count]
            holds_left, holds_right = neighbour in (3, 5), neighbour in (4, 5)
            return not (holds_left if side else holds_right)

        options: Choices = []
        for i, place in enumerate(state):
            if place == 0:  # thinks: tosses for a side
                options.append(added((moved(i, 1), 0.5), (moved(i, 2), 0.5)))
            elif place in (1, 2):  # waits for the fork on that side
                free = is_free(i, place - 1)
                options.append({moved(i, place + 2 if free else place): 1.0})
            elif place in (3, 4):  # has one: takes the other, or gives it back
                options.append({moved(i, 5 if is_free(i, 4 - place) else 0): 1.0})
            else:  # eats, and puts both down
                options.append({moved(i, 0): 1.0})
        return options

    return explored((0,) * count, choices)


PROTOCOLS: Mapping[str, Callable[[], list[Choices]]] = {
    "consensus4": consensus,
    "jobs8": jobs,
    "gathering300": gathering,
    "philosophers6": philosophers,
}


def example(name: str) -> tuple[sp.csr_array, np.ndarray]:
    """Rows `[K, S]` of a model of stormpy's examples, and the first choice of every state."""
    import stormpy
    from stormpy.examples import files

    file, constants = EXAMPLES[name]
    program = stormpy.parse_prism_program(str(Path(files.testfile_dir, "mdp", file)))
    if constants:
        program = stormpy.instantiate_constants(program, constants)[0]
    model = stormpy.build_model(program)
    matrix = model.transition_matrix
    starts = [matrix.get_row_group_start(s) for s in range(model.nr_states)]
    rows = [[(e.column, e.value) for e in matrix.get_row(k)] for k in range(matrix.nr_rows)]
    lengths = np.append(0, np.cumsum([len(row) for row in rows]))
    columns, chances = (np.array([e[i] for row in rows for e in row]) for i in (0, 1))
    shape = matrix.nr_rows, model.nr_states
    return sp.csr_array((chances, columns, lengths), shape), np.append(starts, matrix.nr_rows)


def models() -> Iterator[tuple[str, Any, Any]]:
    """Name, transitions and first choices of every model."""
    for name in EXAMPLES:
        yield name, *example(name)
    for name, rows in PROTOCOLS.items():
        yield name, rows(), None


def with_rewards(rows: Any, first_choice: Any, discount: float) -> cmdpax.CMDP:
    """The model: every choice pays a random number in [0, 1], nothing where a run has ended."""
    none = {"constraints": [], "thresholds": [], "initial": 0, "discount": discount}
    count = rows.shape[0] if first_choice is not None else sum(map(len, rows))
    bare = cmdpax.CMDP(rows, np.zeros(count), first_choice=first_choice, **none)
    t = bare.transitions
    is_end = (np.diff(t.first_choice) == 1)[t.state_of]
    is_end &= np.diff(t.first_entry) == 1
    is_end &= t.successors[t.first_entry[:-1]] == t.state_of
    reward = np.random.default_rng(0).random(count)
    return bare.replace(reward=np.where(is_end, 0.0, reward))


def leaking(model: cmdpax.CMDP) -> Any:
    """The same as a model of Storm, with a sink that every step leads to with chance 1 - gamma."""
    import stormpy

    rows, S, K = model.transitions, model.states, model.choices
    head = "@type: MDP\n@value_type: double\n@parameters\n\n@reward_models\nr\n"
    lines = [f"{head}@nr_states\n{S + 1}\n@nr_choices\n{K + 1}\n@model\n"]
    leak, chances = 1 - model.discount, (model.discount * rows.probabilities).tolist()
    successors, first_entry = rows.successors.tolist(), rows.first_entry.tolist()
    first_choice, rewards = rows.first_choice.tolist(), model.reward.tolist()
    for s in range(S):
        lines.append(f"state {s} [0]{' init' if s == 0 else ''}\n")
        for k in range(first_choice[s], first_choice[s + 1]):
            lines.append(f"\taction {k - first_choice[s]} [{rewards[k]!r}]\n")
            own = range(first_entry[k], first_entry[k + 1])
            lines += [f"\t\t{successors[e]} : {chances[e]!r}\n" for e in own]
            lines.append(f"\t\t{S} : {leak!r}\n")
    lines.append(f"state {S} [0] sink\n\taction 0 [0]\n\t\t{S} : 1\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.drn")
        path.write_text("".join(lines))
        return stormpy.build_model_from_drn(str(path))


def storm(chain: Any, sound: bool) -> tuple[float, float]:
    """Storm's value at the initial state, and the seconds it takes."""
    import stormpy

    kinds = stormpy.environments
    environment = kinds.sound() if sound else kinds.default(chain)
    question = stormpy.parse_property('R{"r"}max=? [F "sink"]')
    started = time.process_time()
    result = stormpy.model_checking(chain, question, environment=environment)
    taken = time.process_time() - started
    return float(result.get_value(0)), taken


def in_time(chain: Any) -> float | None:
    """The value of Storm's sound mode, tried in another process: None if it throws, or is late."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(storm(chain, sound=True)[0]))
    child.start()
    theirs.close()
    try:
        answer = ours.recv() if ours.poll(SOUND_SECONDS) else None
    except EOFError:  # it threw
        answer = None
    child.kill()
    child.join()
    return answer


def exact_value(form: StandardForm, choices: np.ndarray) -> float:
    """The value of a policy: sparse LU, refined with residuals in extended precision."""
    chain = form.criterion.discount * form.transitions.matrix[choices]
    factors = splu(sp.csc_array(sp.eye_array(form.states) - chain))
    reward, wide = form.reward[choices].astype(np.longdouble), chain.astype(np.longdouble)
    values = np.zeros_like(reward)
    for _ in range(4):
        values += factors.solve((reward + wide @ values - values).astype(float))
    return float(form.initial @ values)


def compared(name: str, model: cmdpax.CMDP) -> dict[str, Any]:
    """A row of the record."""
    rows, form = model.transitions, StandardForm.of(model)
    truth = exact_value(form, form.criterion.plan(form, form.reward).choices)
    scale = form.reward_scale
    chain = leaking(model)
    error = abs(storm(chain, sound=False)[0] - truth)
    sound = in_time(chain)
    eps = min(1e-6, max(error / scale, 1e-11))
    tolerance = max(error, 1e-13 * scale)

    def ours(call: Callable[[cmdpax.CMDP], Any]) -> tuple[Any, float]:
        fresh = model.replace(transitions=rows.matrix, first_choice=rows.first_choice)
        started = time.process_time()
        answer = call(fresh)
        return answer, time.process_time() - started

    def planned(fresh: cmdpax.CMDP) -> Any:
        own = StandardForm.of(fresh)
        return own.criterion.plan(own, own.reward, tolerance=tolerance)

    calls: dict[str, Callable[[], tuple[Any, float]]] = {
        "storm": lambda: storm(chain, sound=False),
        "cmdpax": lambda: ours(lambda fresh: cmdpax.solve(fresh, eps=eps)),
        "plan": lambda: ours(planned),
    }
    if sound is not None:
        calls["sound"] = lambda: storm(chain, sound=True)
    seconds: dict[str, list[float]] = {side: [] for side in calls}
    answers: dict[str, Any] = {}
    for _ in range(ROUNDS):
        for side, call in calls.items():
            call()  # after it the caches of the processor are one's own
            answers[side], taken = call()
            seconds[side].append(taken)
    medians = {side: float(np.median(own)) for side, own in seconds.items()}
    result, best = answers["cmdpax"], answers["plan"]
    sizes, entries = np.diff(rows.order.starts), len(rows.successors)
    arrays = rows.first_choice, rows.first_entry, rows.successors, rows.probabilities, model.reward
    return {
        "model": name,
        "discount": model.discount,
        "states": model.states,
        "choices": model.choices,
        "entries": entries,
        "padding": model.states * model.actions * rows.longest / entries,
        "memory": sum(array.nbytes for array in arrays) / (12 * entries + 8 * model.choices),
        "components": len(sizes),
        "in_cycles": int(sizes[sizes > 1].sum()),
        "largest": int(sizes.max()),
        "value": truth,
        "storm_seconds": medians["storm"],
        "storm_error": error,
        "sound_seconds": medians.get("sound"),
        "sound_error": None if sound is None else abs(sound - truth),
        "cmdpax_seconds": medians["cmdpax"],
        "cmdpax_error": abs(result.reward - truth),
        "plan_seconds": medians["plan"],
        "plan_error": abs(best.value - truth),
        "eps": eps,
        "status": result.status,
    }


def main(out: Path) -> None:
    with out.open("w") as file:
        for name, rows, first_choice in models():
            for discount in DISCOUNTS:
                row = compared(name, with_rewards(rows, first_choice, discount))
                file.write(json.dumps(row) + "\n")
                file.flush()
                sides = ("storm", "plan", "cmdpax", "sound")
                seconds = [row[f"{side}_seconds"] or np.inf for side in sides]
                times = " ".join(f"{1e3 * one:9.2f}" for one in seconds)
                ratios = [seconds[0] / seconds[1], seconds[0] / seconds[2], seconds[3] / seconds[2]]
                errors = " ".join(f"{row[f'{side}_error']:.0e}" for side in sides[:3])
                quotients = " ".join(f"{ratio:6.2f}" for ratio in ratios)
                print(f"{name:14} {discount} {times} {quotients} {errors}", flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, a line a model with both discounts in a cell; the least gain comes first."""
    heads = ["model", "states", "padding", "memory", "components", "in cycles / largest"]
    heads += ["Storm, ms", "its error", "plan, ms", "its error", "sound, ms"]
    heads += ["`solve`, ms", "its error", "Storm / plan", "sound / `solve`", "Storm / `solve`"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    gains = {
        side: [row["storm_seconds"] / row[f"{side}_seconds"] for row in rows] for side in KINDS
    }
    sound = [row["sound_seconds"] for row in rows]
    gains["sound"] = [s / row["cmdpax_seconds"] if s else np.inf for s, row in zip(sound, rows)]

    def both(i: int, numbers: list[float], text: str) -> str:
        pair = numbers[i : i + len(DISCOUNTS)]
        return " / ".join("-" if one == np.inf else format(one, text) for one in pair)

    def column(name: str) -> list[float]:
        return [np.inf if row[name] is None else row[name] for row in rows]

    order = sorted(range(0, len(rows), len(DISCOUNTS)), key=lambda i: min(gains["plan"][i : i + 2]))
    for i in order:
        row = rows[i]
        cells = [row["model"], f"{row['states']:,}", f"{row['padding']:.1f}"]
        cells += [f"{row['memory']:.2f}", f"{row['components']:,}"]
        cells.append(f"{row['in_cycles']:,} / {row['largest']:,}")
        for side in ("storm", "plan", "sound", "cmdpax"):
            cells.append(both(i, [1e3 * one for one in column(f"{side}_seconds")], ".3g"))
            if side != "sound":
                cells.append(both(i, column(f"{side}_error"), ".0e"))
        cells += [both(i, gains[name], ".2g") for name in ("plan", "sound", "cmdpax")]
        lines.append(f"| {' | '.join(cells)} |")
    for name, own in gains.items():
        known = [one for one in own if one < np.inf]
        ahead = sum(one >= 1 for one in own)
        lines.append(
            f"\n{name}: {ahead} of {len(own)} at least as fast, median {np.median(known):.2g}"
        )
    for least in (EXACT, 0.0):
        worst = [max(row["storm_error"], least * abs(row["value"])) for row in rows]
        counts = {k: sum(r[f"{k}_error"] <= w for r, w in zip(rows, worst)) for k in KINDS}
        lines.append(f"\nerror not larger, or below {least:g} of the value: {counts}")
    shares = {k: max(row[f"{k}_error"] / abs(row["value"]) for row in rows) for k in KINDS}
    lines.append(f"\nlargest error as a share of the value: {shares}")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        print(table([json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]))
        sys.exit()
    cmdpax.solve(cmdpax.environments.garnet(300))  # compiles
    main(Path(sys.argv[1]))
