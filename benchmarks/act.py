"""What does one decision of a deployed policy cost, `policy(observation)`, in microseconds of CPU?

    python benchmarks/act.py

A 64x64 network as trained by default, one observation, the three velocity tasks, the best of five
rounds. "network" is the part of normalising, layers and tanh, "rest" what checks and Python add;
"NumPy alone" is the whole where numba is not installed.
"""

from functools import partial
from unittest.mock import patch

import numpy as np
from timing import best_seconds

from cmdpax.learning import policy as module
from cmdpax.learning.forward import forward
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.portable import Policy
from cmdpax.learning.simulator import ActionSpace

SIZES = {  # of observations and actions
    "SafetyAntVelocity-v1": (27, 8),
    "SafetyHalfCheetahVelocity-v1": (17, 6),
    "SafetyHopperVelocity-v1": (11, 3),
}


def random_policy(inputs: int, outputs: int) -> NetworkPolicy:
    random = np.random.default_rng(0)
    shapes = ((inputs, 64), (64, 64), (64, outputs))
    return NetworkPolicy(
        weights=[random.normal(0, 0.2, shape).astype(np.float32) for shape in shapes],
        biases=[np.zeros(shape[1], np.float32) for shape in shapes],
        log_std=np.zeros(outputs, np.float32),
        mean=np.zeros(inputs),
        scale=np.ones(inputs),
        action_space=ActionSpace(-np.ones(outputs), np.ones(outputs), clip=False),
        observation_shape=(inputs,),
        updates=0,
    )


def measure(inputs: int, outputs: int) -> list[float]:
    """Microseconds: whole, network, rest, and the whole with NumPy alone."""
    policy, observation = random_policy(inputs, outputs), np.linspace(-1, 1, inputs)
    acting = partial(Policy(policy), deterministic=True)
    arrays = observation[None], np.zeros((1, outputs), np.float32)
    results = np.empty((1, inputs), np.float32), np.empty((1, outputs), np.float32)
    acting(observation)  # compiles
    calls = (lambda: acting(observation), lambda: policy.act(*arrays, *results))
    whole, network = best_seconds(*calls, rounds=5, times=5000)
    with patch.object(module, "fastest_forward", lambda: forward):
        (alone,) = best_seconds(lambda: acting(observation), rounds=5, times=500)
    return [1e6 * seconds for seconds in (whole, network, whole - network, alone)]


def main() -> None:
    row = "{:30} {:>20} {:>8} {:>6} {:>12}".format
    print(row("microseconds", "policy(observation)", "network", "rest", "NumPy alone"))
    for task, sizes in SIZES.items():
        print(row(task, *(f"{number:.1f}" for number in measure(*sizes))))


if __name__ == "__main__":
    main()
