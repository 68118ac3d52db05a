"""The three velocity tasks of Safety-Gymnasium on raw MuJoCo: run, but not faster than a threshold.

Each is the Gymnasium v4 locomotion task plus `cost = float(velocity > threshold)`:

|              | Ant               | HalfCheetah | Hopper                                 |
|--------------|-------------------|-------------|----------------------------------------|
| velocity     | sqrt(vx^2 + vy^2) | vx          | vx                                     |
| threshold    | 2.6222            | 3.2096      | 0.7402                                 |
| frames       | 5                 | 5           | 4                                      |
| control cost | .5 |a|^2          | .1 |a|^2    | .001 |a|^2                             |
| alive bonus  | 1                 | 0           | 1                                      |
| ends when    | z outside [.2, 1] | never       | z <= .7, |angle| >= .2, |state| >= 100 |

Kept exactly, because they change results: the control cost sees the action before MuJoCo clamps it;
Ant's velocity comes from the torso's `xpos`, which after a Runge-Kutta step belongs to its last
stage and not to `qpos`; Hopper's observation clips velocities to +-10; the alive bonus is paid on
the terminating step too. Episodes are cut after 1000 steps.

`VelocitySimulator` keeps N simulations alive and steps them in one loop; all but the physics is
compiled: NumPy would need twenty calls a step, for a few numbers each, which with two simulations
cost as much as the physics. Ten or more are shared among threads: 20 of them step 1.3 to 1.7 times
as fast on two as on one (`benchmarks/physics.py`).
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cmdpax.errors import InputError, did_you_mean
from cmdpax.learning.policy import NetworkPolicy, fastest_forward
from cmdpax.learning.simulator import ActionSpace, Record, Transition
from cmdpax.loops.compiled import call_at, compiled, memory_at, shared_threads, thread_count

EPISODE_STEPS = 1000
SHARED_FROM = 10  # simulations that are worth sharing among threads
FIRST_REFUSED = (3, 5)  # MuJoCo versions from here on move Ant and Hopper differently
TORSO = 1  # body of Ant
LIBRARY = re.compile(r"(lib)?mujoco([.\d]*\.dylib|\.so[.\d]*|\.dll)")


@dataclass(frozen=True)
class Task:
    """What distinguishes one velocity task from another."""

    body: str
    model_file: str
    threshold: float
    frame_skip: int
    control_cost: float
    alive_bonus: float
    hidden_positions: int  # leading coordinates that the observation leaves out
    velocity_clip: float  # of the observation
    reset_noise: float
    normal_velocity_noise: bool  # reset noise of velocities: normal, else uniform
    planar: bool  # velocity in the plane from the torso's xpos, else along x from qpos


_TASKS = (
    Task("Ant", "ant.xml", 2.6222, 5, 0.5, 1.0, 2, np.inf, 0.1, True, True),
    Task("HalfCheetah", "half_cheetah.xml", 3.2096, 5, 0.1, 0.0, 1, np.inf, 0.1, True, False),
    Task("Hopper", "hopper.xml", 0.7402, 4, 1e-3, 1.0, 1, 10.0, 5e-3, False, False),
)
TASKS = MappingProxyType({f"Safety{task.body}Velocity-v1": task for task in _TASKS})


def refuse_new_mujoco(version: str) -> None:
    """MuJoCo 3.5 and later change the contacts of Ant and Hopper, and with them every number."""
    if tuple(int(part) for part in version.split(".")[:2]) >= FIRST_REFUSED:
        raise InputError(
            f"MuJoCo {version} changes the contacts of Ant and Hopper, so results would not be"
            " those of the benchmark; install 'mujoco<3.5' (2.3.3 is the benchmark's own)."
        )


def load_model(task: Task) -> Any:
    """The compiled `MjModel` of a task, from the model files that the gymnasium package carries."""
    import gymnasium
    import mujoco

    refuse_new_mujoco(mujoco.__version__)
    assets = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    return mujoco.MjModel.from_xml_path(str(assets / task.model_file))


class VelocitySimulator:
    """`count` persistent simulations of one task; a `Simulator`."""

    cost_names: tuple[str, ...] = ("cost",)
    episode_limit: int | None = EPISODE_STEPS

    def __init__(self, name: str, count: int = 1) -> None:
        if name not in TASKS:
            raise InputError(f"velocity task '{name}' is not known; {did_you_mean(name, TASKS)}")
        import mujoco  # chooses its GL library now: a film sets MUJOCO_GL before

        self.task, self.count, self._any_ended = (task := TASKS[name]), count, False
        self.model = load_model(task)
        self.data = [mujoco.MjData(self.model) for _ in range(count)]
        self.observation_size = self.model.nq + self.model.nv - self.task.hidden_positions
        self.observation_shape: tuple[int, ...] = (self.observation_size,)
        low, high = self.model.actuator_ctrlrange.T.copy()
        # MuJoCo clamps actions; the control cost must see them
        self.action_space = ActionSpace(low, high, clip=False)
        self.seconds = self.model.opt.timestep * self.task.frame_skip
        self._reset_data, self._forward = mujoco.mj_resetData, mujoco.mj_forward
        self._physics = mujoco.mj_step
        numbers = task.control_cost, task.alive_bonus, task.threshold, task.velocity_clip
        self._rules = self.model.nq, task.planar, self.seconds, *numbers, EPISODE_STEPS
        # views into MuJoCo's memory, made once: making them costs a third of a Hopper step
        self._states = [part for data in self.data for part in (data.qpos, data.qvel)]
        self._places = [
            data.xpos[TORSO, :2] if task.planar else data.qpos[:1] for data in self.data
        ]
        self._controls = [data.ctrl for data in self.data]
        self._calls = c_functions(["mj_step"] * task.frame_skip)
        self.shared = shared_threads() if count >= SHARED_FROM else None
        share = -(-count // thread_count())
        self.parts = [slice(first, first + share) for first in range(0, count, share)]
        self._start = self.data[0].qpos.copy()
        self._elapsed = np.zeros(count, dtype=np.int64)
        self._random = np.random.default_rng(0)

    def reset(self, seed: int) -> np.ndarray:
        """Start all simulations anew, `[N, d]`."""
        self._random = np.random.default_rng(seed)
        self.restart(range(self.count), self._random)
        return self.observe()

    def restart(self, which: Sequence[int] | np.ndarray, random: np.random.Generator) -> None:
        """Start some simulations anew from the noisy initial state."""
        noise = self.task.reset_noise
        for index in which:
            positions = self._start + random.uniform(-noise, noise, self.model.nq)
            if self.task.planar:  # the noise has spoilt the torso's quaternion
                positions[3:7] /= np.linalg.norm(positions[3:7])
            if self.task.normal_velocity_noise:
                velocities = noise * random.standard_normal(self.model.nv)
            else:
                velocities = random.uniform(-noise, noise, self.model.nv)
            self.set_state(index, positions, velocities)

    def set_state(self, index: int, positions: np.ndarray, velocities: np.ndarray) -> None:
        """Begin an episode of one simulation at `positions [nq]` and `velocities [nv]`.

        What follows depends on the state alone: memory is wiped, and the second `mj_forward`
        warm-starts the contact solver from the state's own acceleration. Contacts are chaotic:
        another warm start differs by 1e-5 within 50 steps.
        """
        data = self.data[index]
        self._reset_data(self.model, data)
        data.qpos[:], data.qvel[:] = positions, velocities
        self._forward(self.model, data)
        self._forward(self.model, data)
        self._elapsed[index] = 0

    def observe(self) -> np.ndarray:
        """What the policy sees, `[N, d]`."""
        state, clip = self._state(), self.task.velocity_clip
        state[:, self.model.nq :].clip(-clip, clip, out=state[:, self.model.nq :])
        return state[:, self.task.hidden_positions :]

    def step(self, action: np.ndarray) -> Transition:
        """Advance every simulation by `action [N, a]`; finished ones start anew."""
        step = self.advance(action)
        if self._any_ended:
            self.restart(np.flatnonzero(step.terminated | step.truncated), self._random)
            step = step._replace(observation=self.observe())
        return step

    def advance(self, action: np.ndarray) -> Transition:
        """Advance every simulation by `action [N, a]`, with no new start."""
        model, physics, frames, count = self.model, self._physics, self.task.frame_skip, self.count
        action = np.ascontiguousarray(action, dtype=np.float64)
        before = np.concatenate(self._places).reshape(count, -1)

        def run(part: slice) -> None:
            for data, control, chosen in zip(self.data[part], self._controls[part], action[part]):
                control[:] = chosen
                physics(model, data, frames)

        if self.shared is None:
            run(slice(None))
        else:
            # MuJoCo releases Python's lock; without a part for this thread too nothing is gained
            others = [self.shared.submit(run, part) for part in self.parts[1:]]
            run(self.parts[0])
            for other in others:
                other.result()
        after = np.concatenate(self._places).reshape(count, -1)
        observation, flags = np.empty((count, self.observation_size)), np.empty((2, count), bool)
        filled = observation, np.empty(count), np.empty((count, 1)), flags[0], flags[1]
        arrays = before, after, self._state(), action, self._elapsed
        self._any_ended = measure(*arrays, self._rules, filled)
        return Transition(observation, *filled)

    @property
    def is_alone(self) -> bool:
        """Whether `run` may be used: on one thread, and MuJoCo's C functions were seen."""
        return self.shared is None and self._calls is not None

    def run(self, policy: NetworkPolicy, noise: np.ndarray, record: Record) -> None:
        """As `rollout.run`, with one compiled call for all steps until an episode ends."""
        widths = [len(part) for part in self._states[: len(self._states) // self.count]]
        memory = [
            np.array([part.ctypes.data for part in parts]).reshape(self.count, -1)
            for parts in (self._states, self._places, self._controls)
        ]
        robots = np.array([data._address for data in self.data])
        physics = self._calls, self.model._address, robots, *memory, np.array(widths)
        fixed = physics, self.action_space.box, policy.network, self._elapsed, self._rules
        step = 0
        while step < len(noise):
            step, any_ended = steps_until_an_end(*fixed, noise, record, step)
            if any_ended:
                ended = record.terminated[step - 1] | record.truncated[step - 1]
                self.restart(np.flatnonzero(ended), self._random)
                if step < len(noise):
                    record.observation[step] = self.observe()

    def _state(self) -> np.ndarray:
        """Positions and velocities side by side, `[N, nq + nv]`; thrice as fast as np.stack."""
        return np.concatenate(self._states).reshape(self.count, -1)


def c_functions(names: Sequence[str]) -> np.ndarray | None:
    """Addresses of MuJoCo's C functions `void f(mjModel *, mjData *)`; None if there is no library.

    Called by them, a step of HalfCheetah saves 1.7 of 25 microseconds, and Python between steps.
    """
    import ctypes

    import mujoco

    files = Path(mujoco.__file__).parent.glob("*mujoco*")
    for file in sorted(path for path in files if LIBRARY.fullmatch(path.name)):
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL(str(file))
            functions = [getattr(library, name) for name in names]
            return np.array([ctypes.cast(one, ctypes.c_void_p).value for one in functions])
    return None


@compiled
def healthy(state, planar, alive_bonus):  # type: ignore[no-untyped-def]
    """Whether an episode goes on, from positions and velocities side by side, `state [nq + nv]`."""
    if planar:  # Ant
        return np.isfinite(state).all() and 0.2 <= state[2] <= 1.0
    if alive_bonus:  # Hopper
        return (np.abs(state[2:]) < 100).all() and state[1] > 0.7 and abs(state[2]) < 0.2
    return True  # HalfCheetah


@compiled
def measure(before, after, state, action, elapsed, rules, filled):  # type: ignore[no-untyped-def]
    """Fill in one step of all simulations; whether any episode ended.

    before, after: where the bodies were and are, `[N, 1]` or, planar, `[N, 2]`. state: positions
    and velocities, `[N, nq + nv]`. action: `[N, a]`. elapsed: steps so far, `[N]`, counted on here.
    rules: nq, whether planar, seconds of a step, control cost, alive bonus, threshold, velocity
    clip, steps of an episode. filled: observation `[N, d]`, reward `[N]`, cost `[N, 1]`, terminated
    and truncated `[N]`.
    """
    positions, planar, seconds, control_cost, alive_bonus, threshold, velocity_clip, limit = rules
    observation, reward, cost, terminated, truncated = filled
    any_ended = False
    hidden = state.shape[1] - observation.shape[1]
    for n in range(len(state)):
        forward = (after[n, 0] - before[n, 0]) / seconds
        speed = forward
        if planar:
            speed = np.sqrt(forward**2 + ((after[n, 1] - before[n, 1]) / seconds) ** 2)
        effort = 0.0
        for a in range(action.shape[1]):
            effort += action[n, a] ** 2
        reward[n] = forward + alive_bonus - control_cost * effort
        cost[n, 0] = 1.0 if speed > threshold else 0.0
        elapsed[n] += 1
        terminated[n] = not healthy(state[n], planar, alive_bonus)
        truncated[n] = elapsed[n] >= limit and not terminated[n]
        any_ended |= terminated[n] or truncated[n]
        for i in range(hidden, state.shape[1]):
            value = state[n, i]
            if i >= positions and abs(value) > velocity_clip:
                value = np.copysign(velocity_clip, value)
            observation[n, i - hidden] = value
    return any_ended


act = fastest_forward()


@compiled
def steps_until_an_end(physics, box, network, elapsed, rules, noise, record, first):  # type: ignore[no-untyped-def]
    """Fill in a record from step `first` on; the step after the last one, and whether any ended.

    physics: addresses of the C functions that make one step, in turn; of the model; of simulations
    `[N]`; of what their states consist of `[N, parts]`, their places and their controls `[N, 1]`;
    and the widths of the parts `[parts]`. box: middle and half of actions `[a]`. The others as for
    `forward` and `measure`.
    """
    calls, model, robots, parts, places, controls, widths = physics
    middle, half = box
    count, size = len(robots), len(middle)
    action, state = np.empty((count, size)), np.empty((count, widths.sum()))
    before, after = np.empty((count, 2)), np.empty((count, 2))
    for t in range(first, len(noise)):
        act(network, record.observation[t], noise[t], record.normalised[t], record.output[t])
        for n in range(count):
            place, control = memory_at(places[n, 0], 2), memory_at(controls[n, 0], size)
            before[n, 0], before[n, 1] = place[0], place[1]
            for k in range(size):
                action[n, k] = record.output[t, n, k] * half[k] + middle[k]
                control[k] = action[n, k]
            for function in calls:
                call_at(function, model, robots[n])
            after[n, 0], after[n, 1] = place[0], place[1]
            start = 0
            for part in range(len(widths)):
                numbers = memory_at(parts[n, part], widths[part])
                for k in range(len(numbers)):
                    state[n, start + k] = numbers[k]
                start += widths[part]
        filled = record.next_observation[t], record.reward[t], record.cost[t]
        ends = record.terminated[t], record.truncated[t]
        any_ended = measure(before, after, state, action, elapsed, rules, (*filled, *ends))
        if t + 1 < len(noise):
            for n in range(count):
                for k in range(record.observation.shape[2]):
                    record.observation[t + 1, n, k] = record.next_observation[t, n, k]
        if any_ended:
            return t + 1, True
    return len(noise), False
