import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core.caching import CompileResultCacheImpl

from cmdpax.environments import cliff_world, garnet, queue
from cmdpax.loops import compiled as house
from cmdpax.loops.compiled import at_once, compiled, contracted, frozen, readable, unsigned
from cmdpax.solvers.solve import solve

IN_A_FORK = """
import os, signal
import cmdpax
from cmdpax.loops import bellman, compiled
model = cmdpax.environments.garnet(states=300)
compiled.BLOCK = 64
values = bellman.expected(model.transitions, model.initial)
child = os.fork()
if child == 0:
    signal.alarm(60)
    again = bellman.expected(model.transitions, model.initial)
    os._exit(0 if (again == values).all() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert compiled.shared_threads() is not None
"""


def run(code: str, count: int) -> int:
    environment = {**os.environ, "NUMBA_NUM_THREADS": str(count)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, env=environment, check=False).returncode


@pytest.mark.parametrize("count", [1, 3])
def test_there_are_as_many_threads_as_numba_may_use(count):
    code = f"from cmdpax.loops.compiled import thread_count; assert thread_count() == {count}"
    assert run(code, count) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_threads_work_in_a_forked_process():
    assert run(IN_A_FORK, 2) == 0


def halve(x):
    return x / 2


@pytest.mark.parametrize("decorator", [compiled, at_once, contracted])
def test_without_a_folder_for_the_cache_loops_are_compiled_all_the_same(decorator, monkeypatch):
    assert decorator(halve)._cache.cache_path is not None
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    loop = decorator(halve)
    assert loop._cache.cache_path is None and loop(3.0) == 1.5


@compiled
def doubled(numbers):
    total = 0.0
    for number in frozen(numbers):
        total += 2 * number
    return total


@compiled
def doubled_twice(numbers):
    return doubled(numbers) + doubled(numbers)


def test_loops_are_compiled_once_that_pays_and_what_they_call_by_itself(monkeypatch):
    monkeypatch.setattr(house, "_is_cached", lambda loop: False)
    monkeypatch.setattr(house, "PATIENCE", np.inf)
    assert doubled_twice(np.ones(3)) == 12.0
    assert not doubled.signatures and not doubled_twice.signatures
    many = np.ones(house.LARGE + 1)
    assert doubled(many) == 2 * len(many) and len(doubled.signatures) == 1
    assert doubled_twice(np.ones(3)) == 12.0 and not doubled_twice.signatures
    monkeypatch.setattr(house, "PATIENCE", 0.0)
    assert doubled_twice(np.ones(3)) == 12.0 and len(doubled_twice.signatures) == 1


PLAINLY = """
import numpy as np
import cmdpax
from cmdpax.loops import compiled
compiled.PATIENCE = np.inf
for name, kind in {kinds}:
    result = cmdpax.solve(getattr(cmdpax.environments, name)(**kind))
    proof = result.certificate
    for part in result.policy, proof.reward_bounds, proof.dual_bound, proof.value_potentials:
        print(np.asarray(part).tobytes().hex())
"""


def test_first_answers_need_no_machine_code_and_are_the_same_to_the_last_bit(tmp_path):
    """On a new machine, without patience's end: nothing is compiled, and no number differs."""
    kinds = [("cliff_world", {}), ("garnet", {"states": 20}), ("queue", {"capacity": 450})]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", PLAINLY.format(kinds=kinds)]
    ran = subprocess.run(command, env=environment, check=True, capture_output=True)
    assert not list(tmp_path.rglob("*.nb?"))
    own = []
    for builder, (_, kind) in zip((cliff_world, garnet, queue), kinds, strict=True):
        result = solve(builder(**kind))
        proof = result.certificate
        for part in result.policy, proof.reward_bounds, proof.dual_bound, proof.value_potentials:
            own.append(np.asarray(part).tobytes().hex())
    assert ran.stdout.decode().split() == own


BUILD = """
import cmdpax
from cmdpax.loops import compiled
compiled.PATIENCE = 0.0
print(float(cmdpax.environments.garnet(states=30).thresholds[0]).hex())
"""


def damage(path, way):
    """Make a file empty, half, nonsense, or a folder, which can be neither read nor written."""
    whole = path.read_bytes()
    path.unlink()
    if way == 3:
        path.mkdir()
    else:
        path.write_bytes((b"", whole[: len(whole) // 2], b"\x80\x04" + whole[::-1])[way])


def test_damaged_files_of_the_cache_are_compiled_again(tmp_path):
    """First the machine code that others left in a cache of their own is damaged, then its index;
    the next one gives the same number, whatever it finds.
    """
    environment, answers = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, []
    for suffix in ("nbc", "nbi", None):
        command = [sys.executable, "-c", BUILD]
        built = subprocess.run(command, env=environment, check=True, capture_output=True)
        answers.append(built.stdout)
        if suffix:
            files = sorted(path for path in tmp_path.rglob(f"*.{suffix}") if path.is_file())
            assert len(files) >= 4
            for number, path in enumerate(files):
                damage(path, number % 4)
    assert len(set(answers)) == 1


LOOP = """
from cmdpax.loops.compiled import at_once, inlined
from other import SHIFT, double, piece_of_it, wrapped
inlined(wrapped, double)
@at_once
def loop(x):
    return wrapped(x) + piece_of_it(x) + SHIFT
print(loop(1.0), len(loop.stats.cache_hits))
"""
OTHER = """
from cmdpax.loops.compiled import piece
SHIFT, FACTOR = 0, 1
def double(x):
    return 2 * x
def wrapped(x):
    raise NotImplementedError
@piece
def piece_of_it(x):
    return FACTOR * x
"""


def test_a_change_of_what_a_loop_calls_is_seen(tmp_path):
    """Numba looks at the loop's own file alone; here that stays as it is."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "loop.py").write_text(LOOP)
    changes = {"": "", "2 * x": "7 * x", "FACTOR * x": "FACTOR + x", "0, 1": "10, 100"}
    other, answers = OTHER, []
    for before, after in changes.items():
        other = other.replace(before, after, 1)
        (tmp_path / "other.py").write_text(other)
        for _ in range(2):
            command = [sys.executable, str(tmp_path / "loop.py")]
            ran = subprocess.run(command, env=environment, check=True, capture_output=True)
            answers.append(ran.stdout.decode().split())
    expected = [["3.0", "8.0", "9.0", "118.0"][index // 2] for index in range(8)]
    assert [value for value, _ in answers] == expected
    assert [hits for _, hits in answers] == ["0", "1"] * 4


def test_readable_arrays_are_contiguous_and_not_to_be_written_to():
    own = np.arange(6.0).reshape(2, 3).T
    view = readable(own)
    assert view.flags.c_contiguous and not view.flags.writeable and own.flags.writeable
    np.testing.assert_array_equal(view, own)
    indices = unsigned(np.array([0, 2**31 - 1], dtype=np.int32))
    assert indices.dtype == np.uint32 and not indices.flags.writeable
    assert indices.tolist() == [0, 2**31 - 1]
