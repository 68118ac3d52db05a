"""Total reward with one constraint beside Storm and a linear program: one optimum, three times.

    python benchmarks/storm_queries.py OUT.jsonl [NAME ...]   (needs stormpy: 'cmdpax[storm]')
    python benchmarks/storm_queries.py --table OUT.jsonl

Models of stormpy's examples with a query `multi(...)` in Storm's own language, which both sides
read from the file, and protocols of `real_models.py`, where a choice pays two random numbers.
Storm's multi-objective engine works at precision 1e-6 and gives a value and no policy; HiGHS solves
the occupancy program (interior point); we solve at eps 1e-6, with a policy and its certificate.
Building counts for nobody. CPU seconds of one thread, the median of three where one takes less than
ten; who takes longer than `SECONDS` is stopped. Limits are chosen by hand so that they bind. Our
answer is evaluated once more by a sparse LU of its own chain, which shares no code with it.
"""

import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from real_models import PROTOCOLS
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import splu

import cmdpax
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import compiled
from cmdpax.solvers.programs import solve_program

compiled.PATIENCE = 0.0  # seconds are those of machine code

SECONDS, EPS = 60.0, 1e-6
SHORT, TIMES = 10.0, 3  # seconds of a work that is repeated, and how often
QUERIES: dict[str, tuple[str, str, str]] = {  # file of stormpy's examples, constants, query
    "csma2": (
        "csma2-2.nm",
        "",
        'multi(R{"time"}max=? [F "all_delivered"], R{"time"}<=36 [F "one_delivered"])',
    ),
    "coin10": (
        "coin2.nm",
        "K=10",
        'multi(R{"steps"}min=? [F "finished"], P>=0.505 [F "finished" & "all_coins_equal_1"])',
    ),
    "coin40": (
        "coin2.nm",
        "K=40",
        'multi(R{"steps"}min=? [F "finished"], P>=0.5025 [F "finished" & "all_coins_equal_1"])',
    ),
    "wlan0": (
        "wlan0_collide.nm",
        "COL=2,TRANS_TIME_MAX=10",
        'multi(Pmax=? [F "twoCollisions"], P>=0.9 [F s1=12 & s2=12 & col<2])',
    ),
    "firewire3": (
        "firewire.nm",
        "delay=3,fast=0.5",
        'multi(R{"time"}max=? [F "elected"], R{"time_sending"}<=5 [F "elected"])',
    ),
    "firewire36": (
        "firewire.nm",
        "delay=36,fast=0.5",
        'multi(R{"time"}max=? [F "elected"], R{"time_sending"}<=60 [F "elected"])',
    ),
}
LIMITS = {"jobs8": 5.0, "consensus4": 50.0, "gathering300": 1000.0}  # of the second random number
Asked = tuple[cmdpax.CMDP, Any, Any]  # our model, Storm's, and its query


def of_storm(name: str) -> Asked:
    """A model of stormpy's examples."""
    import stormpy
    from stormpy.examples import files

    file, constants, query = QUERIES[name]
    path = Path(files.testfile_dir, "mdp", file)
    program = stormpy.parse_prism_program(str(path))
    asked = stormpy.parse_properties(query, program)
    if constants:
        program, asked = stormpy.instantiate_constants(program, constants, asked)
    theirs = stormpy.build_model(program, asked)
    ours = cmdpax.CMDP.from_prism(path, property=query, constants=constants)
    return ours, theirs, asked[0]


def of_protocol(name: str) -> Asked:
    """A protocol of `real_models.py`: a run ends where one choice stays."""
    import stormpy

    rows, rng = PROTOCOLS[name](), np.random.default_rng(0)
    ends = [own == [{s: 1.0}] for s, own in enumerate(rows)]
    pays = [np.zeros((1, 2)) if end else rng.random((len(own), 2)) for own, end in zip(rows, ends)]
    paid = np.concatenate(pays)
    more = {"thresholds": [LIMITS[name]], "senses": ["<="], "minimise": True, "initial": 0}
    goal = {"discount": 1.0, "goal": np.array(ends)}
    ours = cmdpax.CMDP(rows, paid[:, 0], [paid[:, 1]], **more, **goal)
    head = "@type: MDP\n@value_type: double\n@parameters\n\n@reward_models\nr c\n"
    lines = [f"{head}@nr_states\n{len(rows)}\n@nr_choices\n{len(paid)}\n@model\n"]
    for s, own in enumerate(rows):
        marks = (" init" if s == 0 else "") + (" end" if ends[s] else "")
        lines.append(f"state {s} [0, 0]{marks}\n")
        for a, choice in enumerate(own):
            lines.append(f"\taction {a} [{float(pays[s][a, 0])!r}, {float(pays[s][a, 1])!r}]\n")
            lines += [f"\t\t{t} : {p!r}\n" for t, p in choice.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.drn")
        path.write_text("".join(lines))
        theirs = stormpy.build_model_from_drn(str(path))
    query = f'multi(R{{"r"}}min=? [F "end"], R{{"c"}}<={LIMITS[name]} [F "end"])'
    return ours, theirs, stormpy.parse_properties(query)[0]


def storm(theirs: Any, query: Any) -> float:
    """The value of Storm's multi-objective engine."""
    import stormpy

    environment = stormpy.Environment()
    environment.modelchecker().multi().precision = stormpy.Rational("1e-6")
    answer = stormpy.model_checking(theirs, query, environment=environment)
    return float(answer.get_value(theirs.initial_states[0]))


def program(ours: cmdpax.CMDP) -> float:
    """The value of the occupancy program."""
    return (-1 if ours.minimise else 1) * solve_program(StandardForm.of(ours), "ipm")[2]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What a work gives, and its CPU seconds, the median of three where it is short."""
    seconds: list[float] = []
    while not seconds or (seconds[0] < SHORT and len(seconds) < TIMES):
        started = time.process_time()
        value = work()
        seconds.append(time.process_time() - started)
    return value, float(np.median(seconds))


def in_time(work: Callable[[], float]) -> tuple[float | None, float | None]:
    """The value of some work in a process of its own, and its CPU seconds; None: not in time."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))
        there.send(timed(work))

    process = context.Process(target=child)
    process.start()
    there.close()
    try:
        answer = here.recv()
    except EOFError:  # it threw, or its time was up
        answer = (None, None)
    process.kill()
    process.join()
    return answer


def evaluated(ours: cmdpax.CMDP, result: cmdpax.Result) -> np.ndarray:
    """Reward and constraints of an answer `[1 + m]`: where nothing is paid any more, all is 0."""
    rows, pays = ours.transitions, np.stack([ours.reward, *ours.constraints])
    tables = [(1.0, result.policy)]
    if result.policy is None:
        tables = [(share, np.eye(ours.actions)[own]) for share, own in result.mixture]
    total = np.zeros(len(pays))
    for share, table in tables:
        policy = ours.by_choice(table)
        mix = sp.csr_array((policy, (rows.state_of, np.arange(ours.choices))))
        chain, paid = sp.csr_array(mix @ rows.matrix), pays @ mix.T
        chain.eliminate_zeros()
        size = ours.states  # one more state, from which all that pay are reached backwards
        links = sp.lil_array((size + 1, size + 1))
        links[:size, :size] = chain.T
        links[size, np.flatnonzero(np.abs(paid).any(0))] = 1.0
        live = breadth_first_order(links.tocsr(), size, return_predecessors=False)
        live = np.sort(live[live < size])
        inner = sp.csc_array(sp.eye_array(len(live)) - chain[live][:, live])
        values = splu(inner).solve(paid[:, live].T) if len(live) else np.zeros((0, len(pays)))
        total += share * (ours.initial[live] @ values)
    return total


def compared(name: str) -> dict[str, Any]:
    """A row of the record."""
    ours, theirs, query = (of_storm if name in QUERIES else of_protocol)(name)
    result, seconds = timed(lambda: cmdpax.solve(ours, eps=EPS))
    cmdpax.check(ours, result)
    value, *constraints = evaluated(ours, result).tolist()
    low, high = result.certificate.ranges[1]
    row = {
        "model": name,
        "query": str(query.get_raw_formula()),
        "states": theirs.nr_states,
        "ours": ours.states,
    }
    row |= {"status": result.status, "policies": 1 if result.policy is not None else 0}
    row["policies"] = row["policies"] or len(result.mixture or ())
    row |= {"value": value, "reward": result.reward, "cmdpax_seconds": seconds}
    row |= {"constraint": constraints[0], "limit": float(ours.thresholds[0])}
    row |= {"range": [float(low), float(high)], "price": float(result.multipliers[0])}
    row["storm"], row["storm_seconds"] = in_time(lambda: storm(theirs, query))
    row["lp"], row["lp_seconds"] = in_time(lambda: program(ours))
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The record as Markdown; differences are shares of the larger of the optimum and 1."""
    head = (
        "model | states | ours | query | optimum | value of the limit | ours, s | Storm, s | LP, s"
    )
    lines = [f"| {head} | Storm differs by | LP differs by |", "|" + "---|" * 11]
    for row in rows:
        cells = [row["model"], f"{row['states']:,}", f"{row['ours']:,}", f"`{row['query']}`"]
        cells += [f"{row['reward']:.9g}", f"{row['constraint']:.9g}"]
        for name in ("cmdpax", "storm", "lp"):
            seconds = row[f"{name}_seconds"]
            cells.append("stopped" if seconds is None else f"{seconds:.3g}")
        for name in ("storm", "lp"):
            other, unit = row[name], max(abs(row["reward"]), 1.0)
            cells.append("-" if other is None else f"{abs(other - row['reward']) / unit:.0e}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(out: Path, names: list[str]) -> None:
    with out.open("w") as file:
        for name in names or [*QUERIES, *LIMITS]:
            row = compared(name)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        print(table([json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]))
    else:
        cmdpax.solve(cmdpax.environments.garnet(300))  # compiles
        main(Path(sys.argv[1]), sys.argv[2:])
