"""Messages are answered whatever befalls the workers, which end with their driver."""

import io
import os
import subprocess
import sys
import time

import pytest

from cmdpax import InputError, processes
from cmdpax.processes import LocalCrew, ask, framed

ECHO = """
import os, sys, time
from cmdpax.processes import serve

def answer(message):
    word, _, rest = message.partition(b" ")
    print("chatter")
    if word == b"die" and not os.path.exists(rest):
        open(rest, "w").close()
        os._exit(3)
    if word == b"always":
        os._exit(4)
    if word == b"sleep" and not os.path.exists(rest):
        open(rest, "w").close()
        time.sleep(3600)
    return message[::-1]

serve(answer)
"""


@pytest.fixture
def echo(tmp_path, monkeypatch):
    """The command of workers that say backwards what they hear."""
    (tmp_path / "echo.py").write_text(ECHO)
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    return ["echo"]


def test_answers_are_those_of_their_messages_also_long_ones(echo):
    messages = [bytes([number]) * 300_000 for number in range(7)] + [b"", b"end"]
    with LocalCrew[int](echo, subprocess.DEVNULL) as crew:
        for _ in range(2):
            assert ask(crew, messages, 2) == [message[::-1] for message in messages]
        assert 1 <= len(crew.idle) <= 2 and not crew.tasks
        ended = crew.idle
    assert all(worker.returncode is not None for worker in ended)


def test_a_message_whose_worker_died_is_answered_by_another(echo, tmp_path):
    messages = [b"die " + str(tmp_path / name).encode() for name in "ab"]
    with LocalCrew[int](echo, subprocess.DEVNULL) as crew:
        assert ask(crew, messages, 2) == [message[::-1] for message in messages]


def test_a_message_that_kills_all_is_given_up(echo):
    sentence = "3 workers died in a row over the same work, the last with: exit code 4"
    with (
        LocalCrew[int](echo, subprocess.DEVNULL) as crew,
        pytest.raises(InputError, match=sentence),
    ):
        ask(crew, [b"fine", b"always"], 2)


def test_one_that_hangs_is_ended_and_its_message_answered_by_another(echo, tmp_path):
    message = b"sleep " + str(tmp_path / "asleep").encode()
    with LocalCrew[int](echo, subprocess.DEVNULL, limit=8) as crew:
        assert ask(crew, [message], 1) == [message[::-1]]


def test_a_worker_that_stands_still_does_not_stop_the_one_who_speaks(echo):
    """A message longer than a pipe holds is written as it is read."""
    with LocalCrew[int](echo, subprocess.DEVNULL, limit=60) as crew:
        assert ask(crew, [b"a"], 1) == [b"a"]
        (worker,) = crew.idle
        os.kill(worker.pid, 19)
        before = time.monotonic()
        crew.tell(1, b"x" * 10_000_000)
        assert crew.unsaid[worker] and time.monotonic() - before < 60
        os.kill(worker.pid, 18)
        replies = []
        while not replies:
            replies = [*crew.listen()]
    assert replies == [(1, b"x" * 10_000_000)]


def test_a_worker_ends_when_its_driver_is_gone(echo):
    with subprocess.Popen(
        [sys.executable, "-m", *echo], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as worker:
        worker.stdin.write(framed(b"sleep here-and-there")[:9])
        worker.stdin.close()
        assert worker.wait() == 0


def test_the_words_of_a_frame():
    assert framed(b"abc") == b"\x03\0\0\0\0\0\0\0abc"
    heard = io.BytesIO(framed(b"x" * 300))
    assert heard.read(processes.LENGTH) == (300).to_bytes(8, "little")
