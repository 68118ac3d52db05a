"""What one decision of a deployed policy costs: `policy(observation)`, in microseconds of CPU.

    python benchmarks/act.py

A 64x64 network as trained by default, for the three velocity tasks; the best of five rounds.
"compiled" is where numba is installed, "NumPy alone" where it is not.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from cmdpax.learning import policy as policy_module
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.simulator import ActionSpace

SIZES = {
    "SafetyAntVelocity-v1": (27, 8),
    "SafetyHalfCheetahVelocity-v1": (17, 6),
    "SafetyHopperVelocity-v1": (11, 3),
}


def microseconds(call: Callable[[], object], times: int = 5000) -> float:
    """CPU time of one call."""
    rounds = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(times):
            call()
        rounds.append((time.process_time() - started) / times * 1e6)
    return min(rounds)


def random_policy(inputs: int, outputs: int) -> NetworkPolicy:
    random = np.random.default_rng(0)
    shapes = ((inputs, 64), (64, 64), (64, outputs))
    weights = [random.normal(0, 0.2, shape).astype(np.float32) for shape in shapes]
    biases = [np.zeros(shape[1], np.float32) for shape in shapes]
    space = ActionSpace(-np.ones(outputs), np.ones(outputs), clip=False)
    return NetworkPolicy(
        weights,
        biases,
        np.zeros(outputs, np.float32),
        np.zeros(inputs),
        np.ones(inputs),
        space,
        (inputs,),
        0,
    )


if __name__ == "__main__":
    print(f"{'task':30} {'compiled':>10} {'NumPy alone':>12}   (microseconds)")
    fastest = policy_module.fastest_forward
    for task, (inputs, outputs) in SIZES.items():
        policy = random_policy(inputs, outputs)
        observation = np.random.default_rng(1).normal(size=inputs)
        decide = partial(policy, observation)
        compiled = microseconds(decide)
        policy_module.fastest_forward = lambda: policy_module.forward
        alone = microseconds(decide, times=500)
        policy_module.fastest_forward = fastest
        print(f"{task:30} {compiled:10.1f} {alone:12.1f}")
