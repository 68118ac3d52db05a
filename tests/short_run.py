"""A training run of a second or two, as settings of `cmdpax.train`."""

SMALL = {
    "environment": "SafetyHopperVelocity-v1",
    "samples": 1_200,
    "batch": 100,
    "rollout_steps": 50,
    "passes": 2,
    "hidden": (8,),
    "inner": 2,
    "checkpoint_every": 2,
}
