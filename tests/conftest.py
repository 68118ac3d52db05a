"""One profile for every Hypothesis test: no deadlines (machines are noisy), and the same examples
in every run.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "cmdpax", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("cmdpax")
