"""One profile for every Hypothesis test: no deadlines (machines are noisy), and the same examples
in every run. Ctrl-C is heard, also where the tests run in the background, which has it ignored.
"""

import signal

from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "cmdpax", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("cmdpax")
