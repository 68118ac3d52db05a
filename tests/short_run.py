"""A training run of a second or two."""

from cmdpax.learning.config import TrainConfig

SMALL = TrainConfig(
    "SafetyHopperVelocity-v1",
    samples=1_200,
    batch=100,
    horizon=50,
    passes=2,
    hidden=(8,),
    inner=2,
    checkpoint_every=2,
)
