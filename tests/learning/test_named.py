"""Environments by name, and what is said when somebody's code fails."""

import sys
import textwrap

import pytest

from cmdpax import InputError
from cmdpax.learning.gym_simulator import GymBatch, check_environment
from cmdpax.learning.named import factory

THEIRS = """
    import probes

    class Crash(probes.Bandit):
        def step(self, action):
            raise ZeroDivisionError("no heat")

    class Stuck(probes.Bandit):
        def reset(self, *, seed=None, options=None):
            return {}["key"]

    class Leave(probes.Bandit):
        def step(self, action):
            raise SystemExit("two\\nlines")

    def boom():
        raise RuntimeError("the server is away")

    def nothing():
        return None

    def drawing(render_mode=None):
        made = probes.Bandit()
        made.render_mode = render_mode
        return made

    number = 3
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in (
        ("theirs", THEIRS),
        ("unreadable", "def make(:"),
        ("raising", "raise ValueError('not today')"),
    ):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    yield
    for name in ("theirs", "unreadable", "raising"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "theirs:boom",
            r"making it raised RuntimeError: the server is away \(theirs.py, line 17\)",
        ),
        ("theirs:Leave", r"its step raised SystemExit: two lines \(theirs.py, line 14\)"),
        ("theirs:nothing", "None was made, which is no environment"),
        ("theirs:Crash", r"its step raised ZeroDivisionError: no heat \(theirs.py, line 6\)"),
        ("theirs:Stuck", r"its reset raised KeyError: 'key' \(theirs.py, line 10\)"),
        ("theirs:drawin", "module 'theirs' has no function 'drawin'; did you mean 'drawing'"),
        ("theirs:number", "module 'theirs' has no function 'number'"),
        (
            "unreadable:make",
            r"importing 'unreadable' raised SyntaxError: .* \(unreadable.py, line 1\)",
        ),
        (
            "raising:make",
            r"importing 'raising' raised ValueError: not today \(raising.py, line 1\)",
        ),
        ("theirs:", "write module:function"),
        (":make", "write module:function"),
        (
            "nothing-like-it",
            "is not known; give SafetyAntVelocity-v1, .* a Gymnasium id, or module:function",
        ),
    ],
)
def test_one_sentence_says_where(theirs, name, sentence):
    with pytest.raises(InputError, match=sentence):
        check_environment(name, steps=2)


def test_pictures_are_asked_for_where_they_can_be(theirs):
    assert factory("theirs:drawing", pictures=True)().render_mode == "rgb_array"
    assert factory("theirs:drawing")().render_mode is None
    assert GymBatch(factory("probes:Bandit", pictures=True)).environments[0].render_mode is None


def test_numbers_that_cannot_be():
    with pytest.raises(InputError, match="at least one step"):
        check_environment("probes:Bandit", steps=0)
    with pytest.raises(InputError, match="not negative"):
        check_environment("probes:Bandit", seed=-1)
