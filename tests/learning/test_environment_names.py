import sys
import textwrap

import gymnasium
import pytest

import probes
from cmdpax import InputError
from cmdpax.learning.environment_check import check_environment
from cmdpax.learning.environment_names import beside, environment_factory, names_module
from cmdpax.learning.gym_simulator import GymSimulator, make_simulator


def test_unknown_names():
    with pytest.raises(InputError, match="did you mean 'SafetyHopperVelocity-v1'"):
        make_simulator("SafetyHoperVelocity-v1", 1)
    with pytest.raises(InputError, match=r"cannot be imported .*; install it, or go to the folder"):
        make_simulator("no_such_module:thing", 1)
    with pytest.raises(InputError, match=r"leave out \.py, as in probes:Bandit"):
        make_simulator("probes.py:Bandit", 1)
    with pytest.raises(InputError, match="has no function 'mass'; write one there"):
        make_simulator("keyword:mass", 1)
    with pytest.raises(InputError, match="reports no cost"):
        make_simulator("CartPole-v1", 1)
    assert make_simulator("probes:Corridor", 2).observation_size == 5


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


@pytest.mark.parametrize("name", ["evil", "evil-v0", "evil/make-v0", "evil.make", "cmdpax/evil"])
def test_a_plain_name_imports_nothing(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit")
    assert not names_module(name)
    with pytest.raises(InputError, match="is not known"):
        make_simulator(name, 1)
    assert "evil" not in sys.modules


BESIDE = """
    import sys, beside_helper, probes

    sys.path.append("elsewhere")
    path = list(sys.path)

    def make():
        import beside_late
        assert sys.path[-1] == path[-2] and "elsewhere" in sys.path
        return probes.Bandit()
"""


def test_the_current_folder_is_last_on_the_path_while_a_module_is_imported_and_made(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = [entry for entry in sys.path if entry not in ("", str(tmp_path))]
    monkeypatch.setattr(sys, "path", list(before))
    names = ("beside_main", "beside_helper", "beside_late")
    for name in names:
        text = BESIDE if name == "beside_main" else "number = 1"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    make = environment_factory("beside_main:make")
    assert sys.modules["beside_main"].path == [*before, str(tmp_path), "elsewhere"]
    assert sys.path == [*before, "elsewhere"]  # what the module itself adds stays
    make()
    assert sys.path == [*before, "elsewhere"]
    for name in names:
        del sys.modules[name]


def test_at_no_other_time_is_the_current_folder_looked_into(tmp_path, monkeypatch):
    (tmp_path / "beside_step.py").write_text("raise SystemExit")

    class Late(probes.Bandit):
        def step(self, action):
            import beside_step  # noqa: F401

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    with pytest.raises(InputError, match=r"its step raised ModuleNotFoundError: .*'beside_step'"):
        GymSimulator(Late)


def test_an_equal_entry_of_the_path_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = list(sys.path)
    assert beside(lambda: len(sys.path)) == len(before) + 1
    with pytest.raises(ZeroDivisionError):
        beside(lambda: 1 / 0)
    assert sys.path == before


def test_pictures_are_asked_for_where_they_can_be(theirs):
    assert environment_factory("theirs:drawing", pictures=True)().render_mode == "rgb_array"
    assert environment_factory("theirs:drawing")().render_mode is None
    assert (
        GymSimulator(environment_factory("probes:Bandit", pictures=True))
        .environments[0]
        .render_mode
        is None
    )


def test_velocity_tasks_can_be_drawn_by_their_plain_names(monkeypatch):
    name = "SafetyHopperVelocity-v1"
    monkeypatch.delitem(gymnasium.registry, name, raising=False)
    assert environment_factory(name, pictures=True)().render_mode == "rgb_array"
