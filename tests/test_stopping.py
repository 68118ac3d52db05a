"""One question for the time limit and for Ctrl-C."""

import signal
import threading
import time

import pytest

from cmdpax.stopping import Stopper, never


def test_nothing_stops_by_itself():
    with Stopper() as stop:
        assert not stop() and not never()


def test_the_time_is_up():
    with Stopper(0.02) as stop:
        assert not stop()
        time.sleep(0.03)
        assert stop()


def test_the_first_interrupt_asks_and_the_second_insists():
    with Stopper() as stop:
        with pytest.warns(UserWarning, match="best policy so far"):
            signal.raise_signal(signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_within_another_shares_its_interrupt():
    with Stopper() as outer:
        with Stopper() as inner:
            with pytest.warns(UserWarning, match="stopping"):
                signal.raise_signal(signal.SIGINT)
            assert inner() and outer()
        with Stopper() as next_one:
            assert next_one()
        with Stopper(0.0) as timed:
            time.sleep(0.001)
            assert timed()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_somebody_elses_handler_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with Stopper() as stop:
            signal.raise_signal(signal.SIGINT)
            assert heard == [1] and not stop()
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_only_time_counts():
    found = []

    def work():
        with Stopper(0.0) as stop:
            time.sleep(0.001)
            found.append(stop())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]
