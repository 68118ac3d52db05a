"""An environment that shows a picture, and a network of somebody's own for it."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

SIDE = 12


class Dot(gymnasium.Env):
    """A dot on the left or the right: its side is the action that pays; looking right costs."""

    observation_space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)
    spec = gymnasium.envs.registration.EnvSpec("Dot-v0", max_episode_steps=20)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self.picture(), {}

    def picture(self):
        image = np.full((SIDE, SIDE, 3), 20, np.uint8)
        row, column = self.np_random.integers(0, SIDE - 1, 2)
        image[row : row + 2, column : column + 2] = self.np_random.integers(150, 255, 3)
        self.side = int(column >= SIDE // 2)
        return image

    def step(self, action):
        reward, self.age = float(action == self.side), self.age + 1
        return self.picture(), reward, False, self.age == 20, {"cost": float(action)}


def make():
    return Dot()


def pooled(shape):
    """Rows and columns of an image, each by its mean, times weights."""

    def init(key):
        return {"rows": jax.random.normal(key, (shape[1] * shape[2], 9)) / 6, "level": jnp.ones(())}

    def apply(parameters, images):
        return jnp.tanh(
            parameters["level"] * images.mean(1).reshape(len(images), -1) @ parameters["rows"]
        )

    return init, apply


def doubled(shape):
    """Observations twice, the second time times weights; for vectors."""

    def init(key):
        return [jax.random.normal(key, shape)]

    def apply(parameters, rows):
        return jnp.concatenate((rows, rows * parameters[0]), -1)

    return init, apply


def wrong(shape):
    return lambda key: {}, lambda parameters, images: images
