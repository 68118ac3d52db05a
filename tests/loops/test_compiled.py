import os
import subprocess
import sys

import pytest

CODE = """
import os, signal
import cmdpax
from cmdpax import kernels, threads
model = cmdpax.environments.garnet(states=300)
kernels.BLOCK = 64
values = kernels.expected(model.successors, model.probabilities, model.reward[:, 0])
child = os.fork()
if child == 0:
    signal.alarm(60)
    again = kernels.expected(model.successors, model.probabilities, model.reward[:, 0])
    os._exit(0 if (again == values).all() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert threads.shared() is not None
"""


def run(code: str, count: int) -> int:
    environment = {**os.environ, "NUMBA_NUM_THREADS": str(count)}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, check=False
    ).returncode


@pytest.mark.parametrize("count", [1, 3])
def test_there_are_as_many_as_numba_may_use(count):
    assert run(f"from cmdpax import threads; assert threads.count() == {count}", count) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_they_work_in_a_forked_process():
    assert run(CODE, 2) == 0
