"""How is the state of a training saved, and how does another take it up?

A checkpoint has the whole state, leaf by leaf: networks, optimisers, multipliers, statistics of
observations and counter. Another run may begin from its policy, normaliser and critics alone.
"""

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from cmdpax.errors import InputError
from cmdpax.learning import compilation
from cmdpax.learning.config import ResolvedConfig
from cmdpax.learning.formulas import encoder_of
from cmdpax.learning.learner import Learner
from cmdpax.learning.policy import NetworkPolicy, refuse_other_spaces, spaces_of
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.simulator import Copies, Simulator
from cmdpax.model.limits import Limits

FIELDS_IN_FILES = {"observed": "seen"}  # what 0.1 called it


def policy_of(learner: Learner, simulator: Copies) -> NetworkPolicy:
    """The current policy."""
    spaces = simulator.action_space, simulator.observation_shape
    encoder = encoder_of(learner.policy)
    return NetworkPolicy.of(acting_leaves(learner), *spaces, int(learner.update), encoder)


def save(learner: Learner, simulator: Copies, run_folder: RunFolder) -> None:
    """Write a checkpoint of the whole state, with what its policy needs of the environment.

    Compiled code is kept along with it.
    """
    spaces = spaces_of(policy_of(learner, simulator))
    run_folder.save(int(learner.update), leaves_by_path(learner), spaces)
    compilation.keep()


def restore(template: Learner, run_folder: RunFolder, simulator: Simulator) -> Learner:
    """The state of the newest intact checkpoint; `template`, of its shape, if there is none yet."""
    if not run_folder.checkpoints():
        return template
    arrays, notes = run_folder.newest()
    refuse_other_spaces(notes, simulator)
    leaves = leaves_by_path(template)
    if jax.tree.map(np.shape, arrays) != jax.tree.map(np.shape, leaves):
        where = f"the checkpoint in {run_folder.path}"
        raise InputError(f"{where} has other arrays than this config needs.")
    return with_leaves(template, arrays)


def begin_from(
    run_folder: RunFolder, learner: Learner, simulator: Simulator, config: ResolvedConfig
) -> Learner:
    """A new state with policy, normaliser and critics of another run; the rest is `learner`'s.

    Of a published run, which has none, no critics are taken.
    """
    before, now = (_row_names(one) for one in (run_folder.config["limits"], config.limits))
    arrays, notes = run_folder.policy()
    refuse_other_spaces(notes, simulator)
    leaves = leaves_by_path(learner)
    sources = {name: name for name in leaves if name.startswith(("policy/", "seen/"))}
    if "scales/centre" in arrays:
        centre, square = learner.scales.centre.copy(), learner.scales.square.copy()
        for row, predicted in enumerate(now):
            if predicted in before:
                other = before.index(predicted)
                own = [leaf for leaf in leaves if leaf.startswith(f"critics/{row}/")]
                sources |= {leaf: leaf.replace(f"/{row}/", f"/{other}/", 1) for leaf in own}
                centre[row], square[row] = (
                    arrays[f"scales/{part}"][other] for part in ("centre", "square")
                )
        leaves |= {"scales/centre": centre, "scales/square": square}
    for name, source in sources.items():
        if source not in arrays or arrays[source].shape != leaves[name].shape:
            where = f"the policy of {run_folder.path} has other layers"
            ours = {"hidden": [*config.hidden], "network": config.network}
            was = {name: run_folder.config.get(name) for name in ours}
            differing = [name for name in ours if ours[name] != was[name]]
            pairs = (f"{name} {was[name]}, here {ours[name]}" for name in differing)
            raise InputError(f"{where} ({'; '.join(pairs)}); give the same.")
    return with_leaves(learner, leaves | {name: arrays[source] for name, source in sources.items()})


def _row_names(limits: Sequence[str]) -> list[tuple[str, float]]:
    """What each critic predicts: the reward, then the cost and orientation of each row."""
    parsed = Limits.parse(limits)
    rows = zip([parsed.names[i] for i in parsed.rows], parsed.signs.tolist())
    return [("", 1.0), *rows]


def leaves_by_path(learner: Learner) -> dict[str, np.ndarray]:
    """Leaves of the state by their path, as in `policy/layers/0/weight`, in the tree's order."""
    leaves = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(learner)[0]:
        text = jax.tree_util.keystr(path, simple=True, separator="/")
        field, slash, rest = text.partition("/")
        leaves[FIELDS_IN_FILES.get(field, field) + slash + rest] = np.asarray(leaf)
    return leaves


def with_leaves(learner: Learner, arrays: Mapping[str, np.ndarray]) -> Learner:
    """The same state with some of its leaves replaced."""
    leaves = [arrays.get(name, leaf) for name, leaf in leaves_by_path(learner).items()]
    return jax.tree.unflatten(jax.tree.structure(learner), leaves)


def acting_leaves(learner: Learner) -> dict[str, np.ndarray]:
    """The leaves that a policy is made of."""
    names, leaves = ("policy/", "seen/", "update"), leaves_by_path(learner)
    return {name: leaf for name, leaf in leaves.items() if name.startswith(names)}
