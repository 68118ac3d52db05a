"""Tables from records: what is missing is said, and the numbers are those of the records."""

import json

from cmdpax.experiments.results import write_lines
from cmdpax.paper.deep_records import write_record
from cmdpax.paper.deep_study import DeepStudy
from cmdpax.paper.deep_tables import write_other_tables, write_search_table, write_tables
from cmdpax.paper.settings import HELD_OUT_SWEEP, TASKS, TITLES, TWO_LIMITS_SWEEP


def table(folder, name):
    """The lines of a table, written anew from the records in a folder."""
    write_tables(DeepStudy(folder), folder, DeepStudy(folder / "paper-settings"))
    return (folder / f"{name}.md").read_text().splitlines()[2:]


def ran(folder):
    """Rows of the cells that were run; the others are there, and say that they were not."""
    rows = table(folder, "cells")
    absent = [row for row in rows if "| 0 of 5 | not run | - |" in row]
    assert len(rows) == len(TASKS) * len(TITLES)
    return [row for row in rows if row not in absent]


def test_ours_stand_beside_the_papers_and_the_missing_is_said(recorded):
    results = table(recorded, "results")
    assert len(results) == len(TASKS) * len(TITLES)
    (ours,) = [line for line in results if "Hopper | SPMA-ALM" in line]
    assert "| 2 | 1e+06 | 15.5 +- 6.4 | 2.0 +- 0.0 |" in ours and "1687 +- 8 | -6.1 +- 2.3" in ours
    assert sum("not run" in line for line in results) == 10
    tails = "Hopper | PPO-Lag | 2 | 2.0 | 2.0 | 2.0 | 2.0 | 2.0 | 5.0 |"
    assert tails in (recorded / "violations.md").read_text()
    assert "| 1 | nothing |" in (recorded / "training.md").read_text()
    assert "none complete" in (recorded / "comparison.md").read_text()
    cell = "| Hopper, SPMA-ALM | 2 of 5 | 16 at 27.0 (1,687 at 18.9) | - | 16 at 27.0 | not run |"
    never = "never | never | never | 0.5, 0% | 1.00 |"
    assert f"{cell} {never}" in (recorded / "cells.md").read_text()


def test_a_cell_says_when_its_first_and_its_last_seed_came_there(tmp_path, run_folder, rows):
    for seed in (0, 1):
        run = run_folder(tmp_path / "runs" / str(seed), "Hopper", "spma-alm", seed)
        last = 1_700 if seed else 1_650  # the paper's return is 1,687
        lines = "".join(json.dumps(row) + "\n" for row in rows(2_000, last))
        (run / "metrics.jsonl").write_text(lines)
        write_record(run, tmp_path / "out" / f"Hopper-spma-alm-{seed}")
    (row,) = ran(tmp_path / "out")
    assert "| 3.22e6 | 3.40e6 to never | 3.22e6 | 0.5, 0% | - |" in row


def test_records_made_with_other_settings_are_said_to_be(recorded):
    path = recorded / "Hopper-ppo-lag-0" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "learning_rate": 0.5}))
    labels = [line.split(" | ")[0] for line in ran(recorded)]
    assert labels == ["| Hopper, SPMA-ALM", "| Hopper, PPO-Lag *"]
    assert "learning_rate 0.5" in (recorded / "training.md").read_text()


def test_across_tasks_every_method_is_compared(tmp_path, run_folder):
    returns = {"spma-alm": 2.0, "ppo-lag": 1.0, "ppo-alm": 1.0, "cpo": 1.0}
    for task in TASKS:
        for name in TITLES:
            for seed in (0, 1, 2):
                if (task, name, seed) == ("Ant", "cpo", 0):
                    continue  # so that seed 0 is compared nowhere
                best = 9.0 if (name, seed) == ("ppo-lag", 0) else returns[name]
                folder = tmp_path / "runs" / f"{task}{name}{seed}"
                run = run_folder(folder, task, name, seed, returns=(best,), costs=(1.0,))
                write_record(run, tmp_path / "out" / f"{task}-{name}-{seed}")
    first, *others = table(tmp_path / "out", "comparison")
    assert first.startswith(f"| SPMA-ALM | {', '.join(TASKS)} | 2 |")
    assert "| 1.00 | [1.000, 1.000] |" in first
    assert len(others) == 3 and all("| 0.50 | [0.500, 0.500] |" in line for line in others)


def test_a_longer_evaluation_stands_beside_the_papers_ten_episodes(recorded):
    seen = {"returns": [5.0, 7.0], "totals": {"cost": [20.0, 23.0]}}
    evaluation = json.dumps({"stochastic": seen, "deterministic": seen})
    for name in ("Hopper-spma-alm-0", "Hopper-spma-alm-1", "Hopper-ppo-lag-0"):
        (recorded / name / "evaluation-100.json").write_text(evaluation)
    columns = [line.split(" | ")[3] for line in ran(recorded)]
    assert columns == ["6 at 21.5", "-"]  # one of PPO-Lag's is missing


def test_what_the_papers_settings_give_stands_beside_ours(recorded, tmp_path, run_folder):
    run = run_folder(tmp_path / "paper", "Hopper", "spma-alm", 0, returns=(7.0,), costs=(90.0,))
    write_record(run, recorded / "paper-settings" / "Hopper-spma-alm-0")
    lost = {"task": "Hopper", "method": "ppo-lag", "seed": 0, "failed": "not finite"}
    write_lines(recorded / "paper-settings" / "failed.jsonl", {"kind": "header"}, [lost])
    columns = [line.split(" | ")[5] for line in ran(recorded)]
    assert columns == ["7 at 90.0", "failed"]


def test_the_settings_that_made_the_records_are_said(recorded):
    path = recorded / "Hopper-ppo-lag-0" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "reserve": 0.2}))
    ours, lagrangian = table(recorded, "settings")
    assert ours.endswith("| SPMA-ALM | 2 | 1e+06 | 2.0 | ? | nothing |")
    assert "batch 20000, reserve 0.2; or batch 20000" in lagrangian.replace(
        "reserve 0.2, batch 20000", "batch 20000, reserve 0.2"
    )


def test_studies_that_the_paper_lacks_have_the_incumbents_beside_them(tmp_path, run_folder):
    run = run_folder(tmp_path / "run", "Walker2d", "spma-alm", 0, returns=(9.0,), costs=(20.0,))
    write_record(run, tmp_path / "out" / "Walker2d-spma-alm-0", cpu_seconds=7200.0)
    write_other_tables(DeepStudy(tmp_path / "out"), tmp_path / "out", HELD_OUT_SWEEP)
    first, *others = (tmp_path / "out" / "cells.md").read_text().splitlines()[2:]
    assert first.startswith("| Walker2d, SPMA-ALM | 1 | 1e+06 | 9 at 20.0 | - | 9 at 20.0 | - |")
    assert "(1e7 samples)" in first and first.endswith("| 2.00 |")
    assert len(others) == 8 and all("| not run |" in line for line in others)


def test_further_limits_are_of_a_hundred_episodes_or_not_there(tmp_path, run_folder):
    run, record = tmp_path / "run", tmp_path / "out" / "Hopper-cpo-0"
    run_folder(run, "Hopper", "cpo", 0)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "limits": ["cost<=25", "heat<=9"]}))
    seen = {"returns": [5.0, 7.0], "totals": {"cost": [20.0, 23.0], "heat": [8.0, 9.0]}}
    seen |= {"reward": {}, "costs": {}}
    (run / "evaluation.json").write_text(json.dumps({"stochastic": seen, "deterministic": seen}))
    write_record(run, record)
    for expected in ("| - | 6 at 21.5 | - |", "| 6 at 21.5 | 6 at 21.5 | 8.5 (heat<=9) |"):
        write_other_tables(DeepStudy(record.parent), record.parent, TWO_LIMITS_SWEEP)
        table = (record.parent / "cells.md").read_text()
        assert f"| Hopper, CPO | 1 | 1e+06 | 6 at 21.5 {expected}" in table
        (record / "evaluation-100.json").write_bytes((record / "evaluation.json").read_bytes())


def test_the_search_says_what_it_chose_and_what_failed(tmp_path):
    row = {"task": "Hopper", "method": "ppo-lag", "samples": 1_000_000, "seed": 0, "clip": 0.1}
    row |= {"minibatch": 64, "learning_rate": 3e-3, "dual_step": 1e-3, "penalty": 1, "spma_step": 1}
    rows = [{**row, "return": 5.0, "excess": -1.0}, {**row, "clip": 0.2, "failed": "not finite"}]
    own = {"minibatch": 64, "learning_rate": 3e-3, "dual_step": 1e-3, "clip": 0.1}
    write_search_table(rows, {"ppo-lag": own}, tmp_path)
    chosen, lost = (tmp_path / "paper-search.md").read_text().splitlines()[2:]
    assert chosen.startswith("| PPO-Lag * | Hopper |") and chosen.endswith("| 5 at 24.0 |")
    assert lost.startswith("| PPO-Lag | Hopper |") and lost.endswith("| not finite |")
