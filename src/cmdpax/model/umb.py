"""How is a UMB file read and written, the unified Markov binary format of model checkers?"""

import bz2
import gzip
import lzma
import os
import tarfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from reprlib import repr as brief
from typing import Any, BinaryIO

import numpy as np

from cmdpax.errors import InputError, check_known, needing
from cmdpax.files.reading import named, opened, parse_json
from cmdpax.model.limits import Limits
from cmdpax.model.product import numbered
from cmdpax.model.reading import RowLists, pointers_of
from cmdpax.model.tables import start_of

LARGEST_UMB = 1_000_000_000  # bytes, unpacked
PACKED: Mapping[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
Array = np.ndarray


def umb_fields(path: str | os.PathLike[str], **said: Any) -> dict[str, Any]:
    """Of a file in the unified Markov binary format; see `CMDP.from_umb`.

    A step pays what its state, its choice and (in the mean) its branch pay together.
    """
    with needing("umb"):
        from umbi.umb import umb_to_tar
    if said.get("discount") is None:
        raise InputError("discount: nothing says it; give discount=, for example 0.95.")
    with named(path):
        with opened(Path(path), LARGEST_UMB) as file:
            decoder = umb_to_tar.UmbDecoder()
            decoder.update(_members(file))
        try:
            umb = decoder.decode()
        except Exception as error:  # whatever a damaged file makes of a parser
            raise InputError(f"it is not a UMB file, or a damaged one ({brief(error)}).") from None
        return _umb_fields(umb, said)


def _members(file: BinaryIO) -> dict[str, bytes]:
    """The files in an archive, packed or not, if they are as large as they say and not larger."""
    start = file.read(6)
    file.seek(0)
    unpack = next((one for magic, one in PACKED.items() if start.startswith(magic)), None)
    try:
        content = (unpack(file) if unpack else file).read(LARGEST_UMB + 1)
        if len(content) > LARGEST_UMB:
            raise InputError(f"it unpacks to more than {LARGEST_UMB:,} bytes, which is too many.")
        with tarfile.open(fileobj=BytesIO(content), mode="r:") as archive:
            parts = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
            members = {name: part.read() for name, part in parts.items() if part is not None}
    except (OSError, EOFError, ValueError, lzma.LZMAError, tarfile.TarError, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"it is not a UMB file, or a damaged one ({error}).") from None
    index = parse_json(members.get("index.json", b"{}"))
    sizes = index.get("transition-system") if isinstance(index, dict) else None
    for name, count in (sizes if isinstance(sizes, dict) else {}).items():
        if isinstance(count, int) and count > 8 * len(content):  # a bit each, at least
            raise InputError(f"it claims {brief(count)} {name[1:41]}, more than it can hold.")
    return members


def _umb_fields(umb: Any, said: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `CMDP`, of what umbi read."""
    system = umb.index.transition_system
    if system.time != "discrete" or system.num_players > 1 or system.num_observations:
        kind = f"{system.time} time, {system.num_players} players"
        raise InputError(f"it has {kind}; only MDPs and DTMCs in discrete time are read.")
    S, K, e = system.num_states, system.num_choices, system.num_branches
    own = umb.state_to_choices if umb.state_to_choices is not None else range(S + 1)
    first_choice = pointers_of("state-to-choices", list(own), S, K)
    own = umb.choice_to_branches if umb.choice_to_branches is not None else range(K + 1)
    first_entry = pointers_of("choice-to-branches", list(own), K, e)
    chances = _umb_numbers("branch-to-probability", umb.branch_to_probability or [1.0] * e, e)
    targets = np.array(umb.branch_to_target or [], dtype=np.uint64)
    for k in np.flatnonzero(np.diff(first_entry) == 0)[:1].tolist():
        raise InputError(f"choice {k} has no branches; give each at least one.")
    states = np.repeat(np.arange(S), np.diff(first_choice))
    rewards = (umb.annotations or {}).get("rewards", {})
    limits = Limits.parse(said.get("limits") or [])
    name = said.get("reward") or next(iter(rewards), "")
    numbers = []
    for one in (name, *limits.names):
        parts, paid = rewards[check_known("reward", one, rewards)], np.zeros(K)
        if "states" in parts:
            paid += _umb_numbers(f"reward '{one}'", parts["states"], S)[states]
        if "choices" in parts:
            paid += _umb_numbers(f"reward '{one}'", parts["choices"], K)
        if "branches" in parts:
            paid_there = chances * _umb_numbers(f"reward '{one}'", parts["branches"], e)
            paid += np.add.reduceat(paid_there, first_entry[:-1])
        numbers.append(paid)
    labels = (umb.annotations or {}).get("aps", {})
    fields = {
        "transitions": RowLists(first_entry, targets, chances),
        "first_choice": first_choice,
        "reward": numbers[0],
        "constraints": np.array(numbers[1:]).reshape(-1, K),
        "thresholds": limits.entries,
        "senses": limits.senses,
        "constraint_names": limits.names or None,
        "initial": _umb_start(umb, S, said.get("initial")),
        "action_names": _umb_actions(umb, first_choice),
        "minimise": bool(said.get("minimise")),
        "discount": said["discount"],
    }
    goal = said.get("goal")
    if goal is None:
        return fields
    mask = np.zeros(S, dtype=bool)
    for label in [goal] if isinstance(goal, str) else goal:
        here = labels[check_known("goal: label", label, labels)].get("states", [])
        mask |= _umb_numbers(f"label '{label}'", here, S) > 0
    return fields | {"goal": mask}


def _umb_numbers(what: str, numbers: Any, count: int) -> Array:
    """So many numbers as float64; fractions are rounded, intervals refused."""
    try:
        array = np.array([float(number) for number in numbers])
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what}: it must hold numbers, not intervals.") from None
    if len(array) != count:
        raise InputError(f"{what}: {len(array)} numbers, expected {count}; write the file again.")
    return array


def _umb_start(umb: Any, S: int, initial: Any) -> Array:
    """As it is said, or as the file says; if there are several, they are equally likely."""
    if initial is not None:
        return start_of(initial, {str(s): s for s in range(S)})
    mask = _umb_numbers("state-is-initial", umb.state_is_initial, S)
    if not mask.any():
        raise InputError("it has no initial state; give initial=.")
    return mask / mask.sum()


def _umb_actions(umb: Any, first_choice: Array) -> list[list[str]] | None:
    """For every state the names of its choices; the second of two equal ones is `name#2`."""
    names, own = umb.choice_action_to_string, umb.choice_to_choice_action
    if names is None or own is None:
        return None
    if len(own) != first_choice[-1] or any(not 0 <= a < len(names) for a in own):
        raise InputError("actions: some choice has none; write the file again.")
    ends = pairwise(first_choice.tolist())
    return [numbered(names[a] for a in own[i:j]) for i, j in ends]


def umb_bytes(model: Any) -> bytes:
    """A `CMDP` as a UMB file: rows, first states, actions, and what choices pay.

    It has no place for a discount, limits and names of states.
    """
    with needing("umb"):
        import umbi
        from umbi.binary import SizedType
        from umbi.datatypes import NumericPrimitiveType
        from umbi.umb import ExplicitUmb, umb_to_tar
        from umbi.umb.index import AnnotationDescription, TransitionSystem, UmbIndex
    double = SizedType.for_type(NumericPrimitiveType.DOUBLE)
    rows, first = model.transitions, model.initial > 0
    if np.ptp(model.initial[first]) > 0:
        raise InputError("initial: UMB knows first states that are equally likely alone.")
    names = [model.action_labels[a] for a in rows.action_of.tolist()]
    if model.action_names and not isinstance(model.action_names[0], str):
        names = [name for own in model.action_names for name in own]
    actions = {name: a for a, name in enumerate(dict.fromkeys(names))}
    paid = dict(zip(("reward", *model.constraint_names), (model.reward, *model.constraints)))
    system = TransitionSystem(
        num_players=1,
        num_states=rows.states,
        num_initial_states=int(first.sum()),
        num_choices=rows.choices,
        num_choice_actions=len(actions),
        num_branches=len(rows.successors),
        branch_probability_type=double,
    )
    kind = AnnotationDescription(applies_to=["choices"], type=double)
    umb = ExplicitUmb(
        UmbIndex(
            umbi.__format_version__,
            umbi.__format_revision__,
            transition_system=system,
            annotations={"rewards": dict.fromkeys(paid, kind)},
        ),
        state_is_initial=first.tolist(),
        state_to_choices=rows.first_choice.tolist(),
        choice_to_branches=rows.first_entry.tolist(),
        branch_to_target=rows.successors.tolist(),
        branch_to_probability=rows.probabilities.tolist(),
        choice_to_choice_action=[actions[name] for name in names],
        choice_action_to_string=list(actions),
        annotations={"rewards": {name: {"choices": x.tolist()} for name, x in paid.items()}},
    )
    encoder, buffer = umb_to_tar.UmbEncoder(), BytesIO()
    encoder.encode(umb)
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in encoder.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, BytesIO(content))
    return buffer.getvalue()
