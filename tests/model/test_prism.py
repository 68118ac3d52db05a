"""PRISM and JANI models say here what they say to Storm: single values, and those of `multi`."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from cmdpax import CMDP, InputError, check, solve
from cmdpax.model.prism import prism_fields

stormpy = pytest.importorskip("stormpy", reason="stormpy is not installed (extra 'storm')")
ROBOT = """
mdp
const double slip;
const int far = 3;
module robot
  place : [0..far] init 0;
  left : [0..12] init 12;
  [walk] left>0 & place<far ->
    1-slip : (place'=place+1)&(left'=left-1) + slip : (left'=left-1);
  [walk] left>0 & place>0 & place<far -> (place'=place-1)&(left'=left-1);
  [run] left>1 & place<far-1 ->
    1-slip : (place'=place+2)&(left'=left-1) + slip : (place'=place+1)&(left'=left-1);
endmodule
rewards "energy"
  [walk] true : 1;
  [run] true : 3;
endrewards
rewards "time"
  left>0 : 1;
endrewards
label "home" = place=far;
label "coffee" = place=1;
label "mail" = place=2;
label "over" = left=0 | place=far;
"""
# every step takes one of `left`, so that no run goes on for ever; rewards, and what can be left
SINGLE = [
    'R{"energy"}min=? [F "over"]',
    'R{"energy"}max=? [F "over"]',
    'R{"time"}min=? [F "over"]',
    'Pmax=? [F "home"]',
    'Pmin=? [F "coffee"]',
    'Pmax=? [!"coffee" U "mail"]',
    "Pmax=? [F place=1 & left<=9]",
    'Pmax=? [G !"coffee"]',
    'R{"time"}max=? [C]',
]
SEVERAL = [
    'multi(R{"time"}min=? [F "over"], P>=0.9 [F "coffee"], R{"energy"}<=6 [C])',
    'multi(R{"energy"}min=? [F "over"], P>=0.5 [F "home"], P>=0.7 [F "coffee"], P>=0.8 [F "mail"])',
    'multi(R{"energy"}min=? [F "over"], P>=0.5 [F "home"], P>=0.7 [!"mail" U "coffee"])',
    'multi(Pmax=? [F "coffee"], R{"energy"}<=5 [F "over"], P>=0.99 [F "home"])',
    'multi(Pmax=? [F "mail"], P>=0.4 [G !"coffee"], R{"energy"}<=8 [C])',
    'multi(R{"time"}max=? [F "mail"], P>=0.6 [F "home"])',
]


@pytest.fixture
def robot(tmp_path):
    path = tmp_path / "robot.nm"
    path.write_text(ROBOT)
    return path


def fields_of(path, text):
    return prism_fields(path, property=text, constants="slip=0.25")


def storm_says(path, text):
    program = stormpy.parse_prism_program(str(path))
    asked = stormpy.parse_property(text, program)
    program, (asked,) = stormpy.instantiate_constants(program, "slip=0.25", [asked])
    options = stormpy.BuilderOptions([asked.get_raw_formula()])
    model = stormpy.build_model(program, options=options)
    environment = stormpy.Environment()
    environment.modelchecker().multi().precision = stormpy.Rational("1e-8")
    return stormpy.model_checking(model, asked, environment=environment).get_value(0)


def best(fields) -> float:
    """The best total reward within the limits: a linear program over expected visits.

    Where every run ends, visits of choices are `nu >= 0` with outflow = start + inflow.
    """
    pointers, rows = fields["first_choice"], fields["transitions"]
    S, K = len(pointers) - 1, len(rows.first_entry) - 1
    chances = sp.csr_array((rows.probabilities, rows.successors, rows.first_entry), shape=(K, S))
    states = np.repeat(np.arange(S), np.diff(pointers))
    leaves = sp.csr_array((np.ones(K), states, np.arange(K + 1)), shape=(K, S))
    live = ~fields["goal"]
    signs = [-1.0 if sense == ">=" else 1.0 for sense in fields["senses"]]
    sign = 1.0 if fields["minimise"] else -1.0
    limits = {}
    if signs:
        limits["A_ub"] = np.array(signs)[:, None] * fields["constraints"]
        limits["b_ub"] = np.array(signs) * fields["thresholds"]
    flow = (leaves - chances).T.tocsr()[np.flatnonzero(live)]
    answer = linprog(sign * fields["reward"], A_eq=flow, b_eq=fields["initial"][live], **limits)
    assert answer.status == 0
    return float(sign * answer.fun)


@pytest.mark.parametrize("text", SINGLE + SEVERAL)
def test_values_are_those_of_storm(robot, text):
    fields = fields_of(robot, text)
    value = best(fields)
    value = 1 - value if "max=? [G" in text else value
    assert value == pytest.approx(storm_says(robot, text), abs=2e-6)


def values(fields) -> float:
    """The largest total reward by sweeps from 0, which is right where every step pays, or no
    run earns without end."""
    pointers, rows = fields["first_choice"], fields["transitions"]
    S, K = len(pointers) - 1, len(rows.first_entry) - 1
    chances = sp.csr_array((rows.probabilities, rows.successors, rows.first_entry), shape=(K, S))
    live = np.flatnonzero(np.diff(pointers))
    choose = np.minimum if fields["minimise"] else np.maximum
    value = np.zeros(S)
    for _ in range(20_000):
        before = value.copy()
        value[live] = choose.reduceat(fields["reward"] + chances @ value, pointers[live])
        if np.abs(value - before).max() < 1e-12:
            break
    return float(fields["initial"] @ value)


COIN = [
    'R{"steps"}min=? [F "finished"]',
    'R{"steps"}max=? [F "finished"]',
    'Pmax=? [F "finished" & "all_coins_equal_1"]',
    'Pmin=? [F "finished" & "all_coins_equal_1"]',
]


@pytest.mark.parametrize("text", COIN)
def test_an_example_of_storm_with_cycles(text):
    from stormpy.examples import files

    path = files.prism_mdp_coin_2_2
    program = stormpy.parse_prism_program(path)
    model = stormpy.build_model(program)
    asked = stormpy.parse_property(text, program)
    sound = stormpy.model_checking(model, asked, environment=stormpy.environments.sound())
    value = values(prism_fields(path, property=text))
    assert value == pytest.approx(sound.get_value(model.initial_states[0]), rel=1e-5)


def test_names_notes_and_what_may_be_left_out(robot):
    fields = fields_of(robot, SEVERAL[1])
    assert fields["constraint_names"] == ['P [F "home"]', 'P [F "coffee"]', 'P [F "mail"]']
    assert (fields["thresholds"], fields["senses"]) == ([0.5, 0.7, 0.8], [">=", ">=", ">="])
    assert fields["may_stay"] is True and fields["minimise"] is True and fields["discount"] == 1
    assert fields["state_names"][0] == "place=0,left=12"
    assert fields["action_names"][0] == ["walk", "run"]
    assert ["walk", "walk#2", "run"] in fields["action_names"]
    assert any("with 2 bits for targets that can be left" in note for note in fields["notes"])
    assert any("may stay for ever where nothing is paid" in note for note in fields["notes"])
    assert any("14 deadlocks stay where they are" in note for note in fields["notes"])


def test_a_single_reward_and_a_sure_end_must_be_reached(robot):
    assert fields_of(robot, SINGLE[0])["may_stay"] is False
    sure = fields_of(
        robot, 'multi(R{"energy"}min=? [F "over"], P>=1 [F "over"], P>=0.5 [F "home"])'
    )
    assert sure["may_stay"] is False and sure["constraint_names"] == ['P [F "home"]']
    assert any('the end of P [F "over"] must be reached surely' in one for one in sure["notes"])
    # beyond coffee energy is still counted: it stays a constraint
    free = fields_of(robot, 'multi(R{"energy"}min=? [F "over"], P>=1 [F "coffee"])')
    assert free["may_stay"] is True and free["constraint_names"] == ['P [F "coffee"]']


def test_the_goal_of_a_sure_end_is_that_end_alone(robot):
    """A run that is stuck without having reached the end has not reached the goal."""
    fields = fields_of(robot, 'R{"energy"}min=? [F "home"]')
    names = np.array(fields["state_names"])
    assert all(name.startswith("place=3") for name in names[fields["goal"]])
    counts = np.diff(fields["first_choice"])
    assert (counts[~fields["goal"]] > 0).all()


@pytest.mark.parametrize("discount", [0.99, 1.0])
def test_it_is_solved_with_and_without_a_discount(robot, discount):
    model = CMDP.from_prism(robot, property=SEVERAL[0], constants={"slip": 0.25}, discount=discount)
    assert model.minimise and model.constraint_count == 2 and len(model.notes) == 3
    result = solve(model)
    assert result.status == "certified"
    check(model, result)
    np.testing.assert_array_less(-1e-6, result.margins)


def test_a_chain_and_a_jani_model_are_read():
    from stormpy.examples import files

    for path in (files.prism_dtmc_die, files.jani_dtmc_die):
        fields = prism_fields(path, property="P=? [F s=7 & d=2]")
        assert values(fields) == pytest.approx(1 / 6, abs=1e-9)
        assert fields["action_names"][0] == ["step"] or path.endswith("jani")


def test_strict_bounds_are_closed_and_said(robot):
    fields = fields_of(robot, 'multi(R{"time"}min=? [F "over"], P>0.25 [F "mail"])')
    assert fields["senses"] == [">="] and fields["thresholds"] == [0.25]
    assert any("strict bounds" in note for note in fields["notes"])


def test_a_deadlock_pays_nothing(robot):
    """`left=0` ends the model: Storm lets it stay, and its state would pay for ever."""
    robot.write_text(ROBOT.replace("left>0 : 1", "true : 1"))
    fields = fields_of(robot, 'R{"time"}max=? [C]')
    assert values(fields) == pytest.approx(12)
    assert fields["goal"].any()


BAD = {
    "constants": ('Pmax=? [F "home"]', "", r"the constants slip have no value; give 'slip=\.\.\.'"),
    "label": ('Pmax=? [F "hom"]', "slip=0.1", r"Storm refuses it \(.*hom"),
    "syntax": ("Pmax=? [F", "slip=0.1", r"Storm refuses it \(.*Parsing error"),
    "reward": ('R{"fuel"}min=? [F "home"]', "slip=0.1", r"Storm refuses it|names no reward"),
    "no name": ('Rmin=? [F "home"]', "slip=0.1", r"Storm refuses it|names no reward"),
    "two": ('multi(Pmax=? [F "home"], Pmax=? [F "mail"])', "slip=0.1", "2 objectives without a b"),
    "none": ('multi(P>=0.1 [F "home"], P>=0.1 [F "mail"])', "slip=0.1", "0 objectives without"),
    "time": ('Pmax=? [F<=3 "home"]', "slip=0.1", r"P \[.*\] is not read; write F, G or U"),
    "horizon": ('R{"time"}max=? [C<=3]', "slip=0.1", r"R.* is not read; write \[F \.\.\.\] or \[C"),
    "never": ('R{"time"}min=? [F left>12]', "slip=0.1", r"no reachable state is one of these"),
    "start": ("Pmax=? [F place=0]", "slip=0.1", r"P \[.*\] is 1 from the start; leave it out"),
}


@pytest.mark.parametrize(("text", "constants", "sentence"), BAD.values(), ids=BAD)
def test_refusals_are_one_sentence_and_storm_is_silent(robot, text, constants, sentence, capfd):
    with pytest.raises(InputError, match=rf"robot\.nm: .*{sentence}") as caught:
        prism_fields(robot, property=text, constants=constants)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().out == ""


def test_what_is_no_program_is_refused(tmp_path):
    from stormpy.examples import files

    (tmp_path / "bad.nm").write_text("mdp\nmodule\n")
    with pytest.raises(InputError, match=r"bad\.nm: Storm refuses it"):
        prism_fields(tmp_path / "bad.nm", property="Pmax=? [F x=1]")
    with pytest.raises(InputError, match=r"gone\.nm: there is no such file"):
        prism_fields(tmp_path / "gone.nm", property="Pmax=? [F x=1]")
    with pytest.raises(InputError, match=r"it is a MA; only MDPs and DTMCs"):
        prism_fields(files.prism_ma_simple, property="Pmax=? [F s=1]")


def test_without_stormpy_the_extra_is_named(robot, monkeypatch):
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(InputError, match=r"needs the package 'stormpy'; install cmdpax\[storm\]"):
        fields_of(robot, SINGLE[0])


def test_a_target_where_the_run_starts_ends_the_count_at_once(robot):
    fields = fields_of(robot, 'multi(R{"time"}max=? [F place=0], P>=0.1 [F "home"])')
    assert not fields["reward"].any() and fields["constraints"].any()
