"""A network policy for a simulator with a cost: train, evaluate, load it with NumPy alone.

The simulator is any Gymnasium environment whose steps report `info["cost"]`. Here a cart follows a
place that moves, and thrust costs fuel.
"""

import tempfile

import gymnasium
import numpy as np

import cmdpax


class Cart(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-10, 10, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.np_random.uniform(-1, 1), 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.place, np.sin(self.time / 8)], np.float32)

    def step(self, action):
        self.place, self.time = self.place + 0.3 * float(action[0]), self.time + 1
        reward = 1 - abs(self.place - np.sin(self.time / 8))
        return self.observe(), reward, False, self.time == 50, {"cost": abs(action[0])}


with tempfile.TemporaryDirectory() as folder:
    run = cmdpax.train(
        Cart, "spma-alm", limits=["cost<=15"], samples=40_000, folder=f"{folder}/cart"
    )
    print(run.verdict)
    for row in run.metrics[::10]:
        print(f"update {row['update']}: return {row['return']:.2f}, cost {row['cost']['cost']:.2f}")
    seen = cmdpax.evaluate(run, episodes=10)["stochastic"]
    print(f"10 episodes: return {seen.reward.mean:.2f}, cost {seen.costs['cost'].mean:.2f} <= 15?")
    policy = cmdpax.load_policy(run.folder)  # elsewhere: no JAX, no simulator
    action = policy(np.array([0.0, 1.0]), deterministic=True)
    print("mean thrust towards a place one to the right:", action)
