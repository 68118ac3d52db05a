"""How does a PRISM or JANI model with a property of several objectives become ours?

Storm reads the file, resolves constants and builds the states; the property is ours to read:

| in the property                  | here                                                      |
|----------------------------------|-----------------------------------------------------------|
| `R{"x"}min=? [F t]`, `Pmax=? ..` | the reward; `R [C]` counts for ever                       |
| `R{"x"}<=3 [F t]`, `P>=.9 [a U b]` | a constraint; a strict bound is read as the other       |
| `P>=.9 [G a]`                    | `P<=.1 [F !a]`                                            |
| `P>=1 [F t]`                     | the run must end in t, where nothing else is counted then |

A choice pays what its state and it pay together. A deadlock stays where it is and pays nothing. In
`multi(...)` a run may stay for ever where nothing is paid, as in Storm; a single `R [F t]` must
reach t.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError, needing
from cmdpax.files.reading import named, opened
from cmdpax.model.product import Graph, Objective, Product, numbered, product, row_fields

SUFFIXES = (".nm", ".pm", ".prism", ".mdp", ".jani")
LARGEST_PROGRAM = 64_000_000  # bytes
MOST_BITS = 8
SENSES = {"GEQ": ">=", "GREATER": ">=", "LEQ": "<=", "LESS": "<="}
TURNED = {"GEQ": "LEQ", "GREATER": "LESS", "LEQ": "GEQ", "LESS": "GREATER"}
Array = np.ndarray


@dataclass(frozen=True)
class Part:
    """One objective of a property."""

    name: str  # as in 'P [F "fast"]'
    count: Objective
    goes: str | None  # MAXIMIZE or MINIMIZE, of the one that is optimised
    bound: tuple[str, float] | None  # GEQ, 0.9
    is_sure: bool = False  # P>=1 [F t]


def prism_fields(
    path: str | os.PathLike[str],
    *,
    property: str,
    constants: str | Mapping[str, Any] = "",
    discount: float = 1.0,
) -> dict[str, Any]:
    """Arguments of `CMDP` for a PRISM or JANI model; see `CMDP.from_prism`."""
    with needing("storm"):
        import stormpy
    path = Path(path)
    with named(path):
        with opened(path, LARGEST_PROGRAM):
            pass  # a regular file, and not too large: Storm opens it itself
        with _silence(), _storms_word(stormpy):
            model, formula, is_multi = _built(stormpy, path, property, constants)
            graph, stuck = _graph(model)
            parts = [_part(stormpy, model, graph, stuck, one) for one in formula]
        made = _fields(model, graph, parts, is_multi, stuck)
        may_stay = made.pop("may_stay") and discount == 1
        return made | {"discount": discount, "may_stay": may_stay}


@contextmanager
def _silence() -> Iterator[None]:
    """Storm writes to standard output, where an answer may go; what matters it raises."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _storms_word(stormpy: Any) -> Iterator[None]:
    """What Storm raises, as one sentence."""
    try:
        yield
    except (RuntimeError, stormpy.exceptions.StormError) as error:
        words = " ".join(str(error).split())
        raise InputError(f"Storm refuses it ({words[:300]}); repair it.") from None


def _built(
    stormpy: Any, path: Path, text: str, constants: str | Mapping[str, Any]
) -> tuple[Any, list[Any], bool]:
    """Storm's sparse model, the objectives of the property, and whether it is a `multi`."""
    is_jani = path.suffix.lower() == ".jani"
    read = stormpy.parse_jani_model if is_jani else stormpy.parse_prism_program
    program = read(str(path))[0] if is_jani else read(str(path))
    asked = stormpy.parse_property(text, program)
    if constants:
        program, (asked,) = stormpy.instantiate_constants(program, constants, [asked])
    if program.has_undefined_constants:
        names = [one.name for one in program.constants if not one.defined]
        example = ",".join(f"{name}=..." for name in names)
        raise InputError(f"the constants {', '.join(names)} have no value; give '{example}'.")
    whole = asked.get_raw_formula()
    is_multi = whole.is_multi_objective_formula
    formula = list(whole.subformulas) if is_multi else [whole]
    options = stormpy.BuilderOptions([whole])
    for part in ("all_labels", "all_reward_models", "choice_labels", "state_valuations"):
        getattr(options, f"set_build_{part}")(True)
    model = stormpy.build_model(program, options=options)
    if model.model_type.name not in ("MDP", "DTMC"):
        kind = model.model_type.name
        raise InputError(f"it is a {kind}; only MDPs and DTMCs, in discrete time, are read.")
    if len(model.initial_states) != 1:
        raise InputError(f"it has {len(model.initial_states)} initial states; give it one.")
    return model, formula, is_multi


def _graph(model: Any) -> tuple[Graph, Array]:
    """Rows by choice, and deadlocks `[S]`, which Storm lets stay where they are."""
    matrix, S = model.transition_matrix, model.nr_states
    entries = np.fromiter(((e.column, e.value) for e in matrix), dtype="i8,f8")
    lengths = [len(matrix.get_row(k)) for k in range(matrix.nr_rows)]
    starts = [matrix.get_row_group_start(s) for s in range(S)]
    initial = np.zeros(S)
    initial[model.initial_states] = 1.0
    first_entry = np.append(0, np.cumsum(lengths))
    rows = np.append(starts, matrix.nr_rows), first_entry, entries["f0"], entries["f1"]
    return Graph.of(*rows, initial), _mask(S, model.labeling.get_states("deadlock"))


def _mask(S: int, states: Any) -> Array:
    mask = np.zeros(S, dtype=bool)
    mask[list(states)] = True
    return mask


def _part(stormpy: Any, model: Any, graph: Graph, stuck: Array, formula: Any) -> Part:
    """One objective, with what it counts on the choices of the model."""

    def holds(state_formula: Any) -> Array:
        checked = stormpy.model_checking(model, state_formula)
        return _mask(graph.states, checked.get_truth_values_vector())

    goes = formula.optimality_type.name if formula.has_optimality_type else None
    bound = None
    if formula.has_bound:
        bound = formula.comparison_type.name, float(threshold := Fraction(str(formula.threshold)))
    path, kind = formula.subformula, type(formula.subformula).__name__
    never = np.zeros(graph.states, dtype=bool)
    if formula.is_reward_operator_formula:
        reward = _reward_name(model, formula)
        name = f'R{{"{reward}"}} [{path}]'
        if kind != "EventuallyFormula" and str(path) != "C":
            raise InputError(f"{name} is not read; write [F ...] or [C].")
        closes = never if str(path) == "C" else holds(path.subformula)
        if str(path) != "C" and not closes.any():
            raise InputError(f"{name}: no reachable state is one of these; write [C], or another.")
        paid = _rewards(model.reward_models[reward], graph)
        paid = np.where(stuck[graph.choice_states], 0.0, paid)
        return Part(name, Objective(closes, paid), goes, bound)
    if not formula.is_probability_operator_formula:
        raise InputError(f"{formula} is not read; write R or P.")
    if kind == "EventuallyFormula":
        wins = closes = holds(path.subformula)
    elif kind == "UntilFormula":
        wins = holds(path.right_subformula)
        closes = wins | ~holds(path.left_subformula)
    elif kind == "GloballyFormula":
        wins = closes = ~holds(path.subformula)
        goes = goes and {"MAXIMIZE": "MINIMIZE", "MINIMIZE": "MAXIMIZE"}[goes]
        bound = bound and (TURNED[bound[0]], float(1 - threshold))
        path = f"F !({path.subformula})"
    else:
        raise InputError(f"P [{path}] is not read; write F, G or U without a bound on time.")
    if (closes & (graph.initial > 0)).any():
        chance = int((wins & (graph.initial > 0)).any())
        raise InputError(f"P [{path}] is {chance} from the start; leave it out of the property.")
    is_sure = kind == "EventuallyFormula" and bound == ("GEQ", 1.0)
    return Part(f"P [{path}]", Objective(closes, wins=wins), goes, bound, is_sure)


def _reward_name(model: Any, formula: Any) -> str:
    names = list(model.reward_models)
    own = formula.reward_name if formula.has_reward_model_name() else ""
    if own in names:
        return own
    if len(names) == 1 and not own:
        return names[0]
    known = ", ".join(sorted(names)) or "none"
    raise InputError(f'{formula} names no reward; write R{{"name"}} with one of: {known}.')


def _rewards(model: Any, graph: Graph) -> Array:
    """What every choice pays, `[K]`: its state, itself, and its transitions in the mean."""
    paid = np.zeros(len(graph.first_entry) - 1)
    if model.has_state_rewards:
        paid += np.array(model.state_rewards)[graph.choice_states]
    if model.has_state_action_rewards:
        paid += np.array(model.state_action_rewards)
    if model.has_transition_rewards:
        matrix = model.transition_rewards
        rewards = [{e.column: e.value for e in matrix.get_row(k)} for k in range(len(paid))]
        rows = np.repeat(np.arange(len(paid)), np.diff(graph.first_entry)).tolist()
        own = [rewards[k].get(to, 0.0) for k, to in zip(rows, graph.successors.tolist())]
        paid += graph.sums(graph.probabilities * np.array(own))
    return paid


def _fields(
    model: Any, graph: Graph, parts: Sequence[Part], is_multi: bool, stuck: Array
) -> dict[str, Any]:
    """The product of all objectives, its names, and what is asked of it."""
    optimised = [i for i, part in enumerate(parts) if part.bound is None]
    if len(optimised) != 1:
        what = f"{len(optimised)} objectives without a bound"
        raise InputError(f"the property has {what}; ask one for min=? or max=?, bound the others.")
    sets = {part.count.closes.tobytes() for part in parts if graph.is_left(part.count.closes)}
    if len(sets) > MOST_BITS:
        raise InputError(f"its {len(sets)} targets need as many bits; ask for {MOST_BITS} at most.")
    result = product(graph, [part.count for part in parts])
    (best,) = optimised
    sure = _sure(parts, result, best, is_multi)
    limits = [
        (i, part, part.bound)
        for i, part in enumerate(parts)
        if part.bound is not None and not (sure == i and part.is_sure)
    ]
    if sure is not None:
        result = product(graph, [part.count for part in parts], sure)
    notes = _notes(graph, result, parts, sure, is_multi, int(stuck.sum()))
    return row_fields(result) | {
        "reward": result.numbers[best],
        "constraints": result.numbers[[i for i, *_ in limits]],
        "thresholds": [bound[1] for *_, bound in limits],
        "senses": [SENSES[bound[0]] for *_, bound in limits],
        "constraint_names": numbered(part.name for _, part, _ in limits) or None,
        "minimise": parts[best].goes == "MINIMIZE",
        "may_stay": sure is None,
        "state_names": _state_names(model, result),
        "action_names": _action_names(model, result),
        "notes": notes,
    }


def _sure(parts: Sequence[Part], result: Product, best: int, is_multi: bool) -> int | None:
    """The objective whose end must be reached surely, and is the end of everything; or None."""
    own = parts[best].count
    if not is_multi and own.paid is not None and own.closes.any():
        return best
    ends = (i for i, part in enumerate(parts) if part.is_sure)
    return next((i for i in ends if result.goal[result.closed[i]].all()), None)


def _notes(
    graph: Graph,
    result: Product,
    parts: Sequence[Part],
    sure: int | None,
    is_multi: bool,
    stuck: int,
) -> list[str]:
    """What was done, one sentence each."""
    sizes = f"{graph.states:,} states and {result.graph.states:,} after it was cut at the goal"
    notes = [f"Storm built {sizes}, with {result.bits} bits for targets that can be left."]
    if sure is not None:
        notes.append(f"the end of {parts[sure].name} must be reached surely.")
    elif is_multi or parts[0].count.paid is None:
        notes.append("a run may stay for ever where nothing is paid, as Storm reads it.")
    if any(part.bound and part.bound[0] in ("LESS", "GREATER") for part in parts):
        notes.append("strict bounds < and > are read as <= and >=.")
    if any(part.name.startswith("P [F !(") for part in parts):
        notes.append("P [G a] is counted as P [F !a], one minus it.")
    if stuck:
        notes.append(f"{stuck} deadlocks stay where they are and pay nothing.")
    return notes


def _state_names(model: Any, result: Product) -> list[str]:
    """The values of variables, and the bits of a product."""
    valuations = model.state_valuations  # a copy, each time it is asked for
    texts = (valuations.to_string(s) for s in result.graph.state_origin.tolist())
    names = [text.strip("[]").replace("\t& ", ",") for text in texts]
    return numbered(names)


def _action_names(model: Any, result: Product) -> list[list[str]]:
    """For every state the labels of its choices; a goal has one, to stay."""
    labels = [""] * model.nr_choices
    if model.has_choice_labeling():
        labelling = model.choice_labeling
        for label in sorted(labelling.get_labels()):
            for k in labelling.get_choices(label):
                labels[k] += f"+{label}" if labels[k] else label
    first = result.graph.first_choice.tolist()
    names = [labels[k] or "step" for k in result.graph.choice_origin.tolist()]
    lists = [numbered(names[i:j]) for i, j in pairwise(first)]
    return [own or ["end"] for own in lists]
