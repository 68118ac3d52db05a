"""The velocity tasks of Safety-Gymnasium on raw MuJoCo: run, but not faster than a threshold.

A step costs 1 if it is too fast (`cost`), and the mean square of its action (`energy`: 1 at full
power), which nothing limits unless a limit names it. `robots` says what distinguishes the tasks.

Kept exactly, because they change results: the control cost sees the action before MuJoCo clamps it;
the torso's place (Ant) and the centre of mass (Humanoid) belong, after a Runge-Kutta step, to its
last stage and not to `qpos`; Humanoid's contact forces are those after the step, and zero at the
start; Hopper's and Walker2d's observations clip velocities to +-10; the alive bonus is paid on the
terminating step too. Episodes are cut after 1000 steps.

`VelocitySimulator` keeps N simulations alive and steps them in one loop; all but the physics is
compiled: NumPy would need twenty calls a step, for a few numbers each, which with two simulations
cost as much as the physics. Ten or more are shared among threads; how much faster that is depends
on what else the machine does (`benchmarks/physics.py`).
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError, did_you_mean
from cmdpax.learning.forward import forward, inline_parts
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.robots import EPISODE_STEPS, TASKS, Task, load_model
from cmdpax.learning.simulator import ActionSpace, Record, Transition
from cmdpax.loops.compiled import (
    at_once,
    call_at,
    memory_at,
    piece,
    shared_threads,
    thread_count,
)

SHARED_FROM = 10  # simulations that are worth sharing among threads
TORSO = 1  # body of every robot
LIBRARY = re.compile(r"(lib)?mujoco([.\d]*\.dylib|\.so[.\d]*|\.dll)")


class VelocitySimulator:
    """`count` persistent simulations of one task; a `Simulator`."""

    cost_names: tuple[str, ...] = ("cost", "energy")
    episode_limit: int | None = EPISODE_STEPS

    def __init__(self, name: str, count: int = 1) -> None:
        if name not in TASKS:
            raise InputError(f"velocity task '{name}' is not known; {did_you_mean(name, TASKS)}")
        import mujoco

        self.task, self.count, self._any_ended = (task := TASKS[name]), count, False
        self.model = load_model(task)
        self.data = [mujoco.MjData(self.model) for _ in range(count)]
        # views into MuJoCo's memory, made once: making them costs a third of a Hopper step
        seen = ("qpos", "qvel", *task.sensed)
        self._states = [getattr(data, name).reshape(-1) for data in self.data for name in seen]
        self._places = [_place(data, task) for data in self.data]
        self._controls = [data.ctrl for data in self.data]
        self.observation_size = self._state().shape[1] - task.hidden_positions
        self.observation_shape: tuple[int, ...] = (self.observation_size,)
        low, high = self.model.actuator_ctrlrange.T.copy()
        # MuJoCo clamps actions; the control cost must see them
        self.action_space = ActionSpace(low, high, clip=False)
        self.seconds = self.model.opt.timestep * self.task.frame_skip
        self._reset_data, self._forward = mujoco.mj_resetData, mujoco.mj_forward
        self._physics = mujoco.mj_step
        # MuJoCo leaves contact forces alone unless asked
        self._forces = mujoco.mj_rnePostConstraint if "cfrc_ext" in task.sensed else None
        numbers = task.progress, task.control_cost, task.alive_bonus, task.threshold
        bounds = task.height, task.low, task.high, task.tilt, task.size
        cuts = task.velocity_clip, EPISODE_STEPS
        self._rules = self.model.nq, task.planar, self.seconds, *numbers, *cuts, bounds
        after_steps = [] if self._forces is None else ["mj_rnePostConstraint"]
        self._calls = c_functions(["mj_step"] * task.frame_skip + after_steps)
        self.shared = shared_threads() if count >= SHARED_FROM else None
        share = -(-count // thread_count())
        self.parts = [slice(first, first + share) for first in range(0, count, share)]
        self._start = self.data[0].qpos.copy()
        self._elapsed = np.zeros(count, dtype=np.int64)
        self.speed = np.zeros(count)  # of the last step, which the threshold is on
        self.random = [np.random.default_rng(0)] * count

    def reset(self, seed: int, first: int = 0) -> np.ndarray:
        """Start all simulations anew, `[N, d]`; each has a generator of its own."""
        numbers = range(first, first + self.count)
        self.random = [np.random.default_rng((seed, number)) for number in numbers]
        self.restart(range(self.count))
        return self.observe()

    def restart(self, which: Sequence[int] | np.ndarray) -> None:
        """Start some simulations anew from the noisy initial state."""
        noise = self.task.reset_noise
        for index in which:
            random = self.random[index]
            positions = self._start + random.uniform(-noise, noise, self.model.nq)
            if self.model.nq > self.model.nv:  # the noise has spoilt the torso's quaternion
                positions[3:7] /= np.linalg.norm(positions[3:7])
            if self.task.normal_velocity_noise:
                velocities = noise * random.standard_normal(self.model.nv)
            else:
                velocities = random.uniform(-noise, noise, self.model.nv)
            self.set_state(index, positions, velocities)

    def set_state(self, index: int, positions: np.ndarray, velocities: np.ndarray) -> None:
        """Begin an episode of one simulation at `positions [nq]` and `velocities [nv]`.

        What follows depends on the state alone: memory is wiped, and the contact solver starts
        from the state's own acceleration, which MuJoCo remembers by itself up to 3.3.5 only.
        Contacts are chaotic: another warm start differs by 1e-5 within 50 steps.
        """
        data = self.data[index]
        self._reset_data(self.model, data)
        data.qpos[:], data.qvel[:] = positions, velocities
        for _ in range(2):
            self._forward(self.model, data)
            data.qacc_warmstart[:] = data.qacc
        self._elapsed[index] = self.speed[index] = 0

    def observe(self) -> np.ndarray:
        """What the policy sees, `[N, d]`."""
        state, clip = self._state(), self.task.velocity_clip
        state[:, self.model.nq :].clip(-clip, clip, out=state[:, self.model.nq :])
        return state[:, self.task.hidden_positions :]

    def step(self, action: np.ndarray) -> Transition:
        """Advance every simulation by `action [N, a]`; finished ones start anew."""
        step = self.advance(action)
        if self._any_ended:
            self.restart(np.flatnonzero(step.terminated | step.truncated))
            step = step._replace(observation=self.observe())
        return step

    def advance(self, action: np.ndarray) -> Transition:
        """Advance every simulation by `action [N, a]`, with no new start."""
        model, physics, forces = self.model, self._physics, self._forces
        frames, count = self.task.frame_skip, self.count
        action = np.ascontiguousarray(action, dtype=np.float64)
        before = np.concatenate(self._places).reshape(count, -1)

        def run(part: slice) -> None:
            for data, control, chosen in zip(self.data[part], self._controls[part], action[part]):
                control[:] = chosen
                physics(model, data, frames)
                if forces is not None:
                    forces(model, data)

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
        filled = observation, np.empty(count), np.empty((count, 2)), flags[0], flags[1]
        arrays = before, after, self._state(), action, self._elapsed, self.speed
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
        counters = self._elapsed, self.speed
        fixed = physics, self.action_space.box, policy.network, counters, self._rules
        step = 0
        while step < len(noise):
            step, any_ended = steps_until_an_end(*fixed, noise, record, step)
            if any_ended:
                ended = record.terminated[step - 1] | record.truncated[step - 1]
                self.restart(np.flatnonzero(ended))
                if step < len(noise):
                    record.observation[step] = self.observe()

    def _state(self) -> np.ndarray:
        """Positions, velocities and what is sensed side by side, `[N, nq + nv + ...]`.

        Thrice as fast as np.stack.
        """
        return np.concatenate(self._states).reshape(self.count, -1)


def _place(data: Any, task: Task) -> np.ndarray:
    """Where a robot is, `[2]`: a view of which the first coordinate is x."""
    if task.place == "torso":
        return data.xpos[TORSO, :2]
    return data.subtree_com[0, :2] if task.place == "mass" else data.qpos[:2]


def c_functions(names: Sequence[str]) -> np.ndarray | None:
    """Addresses of MuJoCo's C functions `void f(mjModel *, mjData *)`; None if there is no library.

    A call by address saves 1.7 of the 25 microseconds of a HalfCheetah step, and needs no Python.
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


@at_once
def healthy(state, bounds):  # type: ignore[no-untyped-def]
    """Whether an episode goes on: `low < height < high`, `|angle| < tilt`, `|others| < size`.

    state: positions, velocities and what is sensed side by side. bounds: which of them is the
    height, low, high, tilt, size. NaN is not healthy.
    """
    height, low, high, tilt, size = bounds
    good = low < state[height] < high and abs(state[2]) < tilt
    for i in range(2, len(state)):
        good &= abs(state[i]) < size
    return good


@at_once
def measure(  # type: ignore[no-untyped-def]
    before, after, state, action, elapsed, speed, rules, filled
):
    """Fill in one step of all simulations; whether any episode ended.

    before, after: where the bodies were and are, `[N, 2]`. state: positions, velocities and what is
    sensed, `[N, n]`. action: `[N, a]`. elapsed: steps so far, `[N]`, counted on here. speed: which
    the threshold is on, `[N]`, filled in. rules: nq, whether planar, seconds of a step, progress,
    control cost, alive bonus, threshold, velocity clip, steps of an episode, bounds of `healthy`.
    filled: observation `[N, d]`, reward `[N]`, cost and energy `[N, 2]`, terminated and truncated
    `[N]`.
    """
    positions, planar, seconds = rules[:3]
    progress, control_cost, alive_bonus, threshold, velocity_clip, limit, bounds = rules[3:]
    observation, reward, cost, terminated, truncated = filled
    any_ended = False
    hidden = state.shape[1] - observation.shape[1]
    for n in range(len(state)):
        forward = (after[n, 0] - before[n, 0]) / seconds
        speed[n] = forward
        if planar:
            speed[n] = np.sqrt(forward**2 + ((after[n, 1] - before[n, 1]) / seconds) ** 2)
        effort = 0.0
        for a in range(action.shape[1]):
            effort += action[n, a] ** 2
        reward[n] = progress * forward + alive_bonus - control_cost * effort
        cost[n, 0] = 1.0 if speed[n] > threshold else 0.0
        cost[n, 1] = effort / action.shape[1]
        elapsed[n] += 1
        terminated[n] = not healthy(state[n], bounds)
        truncated[n] = elapsed[n] >= limit and not terminated[n]
        any_ended |= terminated[n] or truncated[n]
        for i in range(hidden, state.shape[1]):
            value = state[n, i]
            if i >= positions and abs(value) > velocity_clip:
                value = np.copysign(velocity_clip, value)
            observation[n, i - hidden] = value
    return any_ended


inline_parts()
act = piece(forward)


@at_once
def steps_until_an_end(physics, box, network, counters, rules, noise, record, first):  # type: ignore[no-untyped-def]
    """Fill in a record from step `first` on; the step after the last one, and whether any ended.

    physics: addresses of the C functions that make one step, in turn; of the model; of simulations
    `[N]`; of what their states consist of `[N, parts]`, their places and their controls `[N, 1]`;
    and the widths of the parts `[parts]`. box: middle and half of actions `[a]`. counters: elapsed
    and speed. The others as for `forward` and `measure`.
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
        any_ended = measure(before, after, state, action, *counters, rules, (*filled, *ends))
        if t + 1 < len(noise):
            for n in range(count):
                for k in range(record.observation.shape[2]):
                    record.observation[t + 1, n, k] = record.next_observation[t, n, k]
        if any_ended:
            return t + 1, True
    return len(noise), False
