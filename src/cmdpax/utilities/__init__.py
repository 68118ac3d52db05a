"""Concave utilities of where a policy goes: what to maximise instead of a reward.

| utility | F | domain | smooth |
|---|---|---|---|
| `linear(reward)` | `V` | all | yes |
| `entropy(over)` | `-sum d log d`, of states or of pairs | d >= 0 | not at 0 |
| `kl(visits)` | `-sum d log(d / q)` | d >= 0, q > 0 | not at 0 |
| `kl(visits, of="recorded")` | `-sum q log(q / d)` | d > 0 where q > 0 | not at 0 |
| `distance(visits)` | `-sum (d - q)^2` | all | yes |
| `fairness(rewards, alpha)` | `sum log V_i`, or `sum V_i^(1 - alpha) / (1 - alpha)` | V > 0 | no |
| `max_min(rewards)` | `min_i V_i` | all | no gradient: one more variable |
| `soft_limit(reward, most, least)` | `-p/2 excess^2`, or Huber's | all | yes |

`utility + utility` and `number * utility` are utilities. `own(value, gradient)` takes anybody's two
functions. With `minimise=True` the value is convex, and smaller is better.
"""

from cmdpax.utilities.ready import (
    distance,
    entropy,
    fairness,
    kl,
    linear,
    max_min,
    own,
    recorded_visits,
    soft_limit,
)
from cmdpax.utilities.utility import Utility

__all__ = [
    "Utility",
    "distance",
    "entropy",
    "fairness",
    "kl",
    "linear",
    "max_min",
    "own",
    "recorded_visits",
    "soft_limit",
]
