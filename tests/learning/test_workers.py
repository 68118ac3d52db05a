"""Rollouts elsewhere are those of this process to the last bit, whatever befalls the workers."""

import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.learning import workers
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.policy import NetworkPolicy, spaces_of
from cmdpax.learning.rollout import record_of
from cmdpax.learning.training import train
from learning import drifting
from short_run import SMALL

SHORT = {**SMALL, "samples": 300, "passes": 1, "minibatch": 100}


def metrics(folder):
    return (folder / "metrics.jsonl").read_bytes()


def run(environment, folder, **settings):
    train(**{**SHORT, "environment": environment, "folder": folder, **settings})
    return metrics(folder)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return run("learning.drifting:Drift", tmp_path_factory.mktemp("here") / "run")


@pytest.mark.parametrize("count", [1, 3])
def test_in_processes(here, tmp_path, count):
    """By name, as the command line has it, and by the function itself."""
    assert run("learning.drifting:Drift", tmp_path / "named", workers=count) == here
    assert run(drifting.Drift, tmp_path / "made", workers=str(count)) == here


def test_a_compiled_simulator_too(tmp_path):
    """Of which copies end and start anew at different times."""
    name, settings = SMALL["environment"], {"batch": 150, "initial_std": 3.0}
    alone = run(name, tmp_path / "here", **settings)
    assert run(name, tmp_path / "there", workers=2, **settings) == alone


@pytest.fixture(scope="module")
def limit():
    """Ten times the seconds in which a worker begins, on this machine, as busy as it is."""
    before = time.monotonic()
    unknown = workers.packed({"environment": "Nowhere-v0", "file": None, "path": []}, {})
    with workers.LocalCrew[int](["cmdpax.learning.workers"]) as crew:
        (said,) = workers.ask(crew, [unknown], 1)
    assert "Nowhere-v0" in workers.unpacked(said)[0]["error"]
    return max(8.0, 10 * (time.monotonic() - before))


SLOW = pytest.param(drifting.stopped, marks=pytest.mark.slow)


@pytest.mark.parametrize("environment", [drifting.killed, drifting.sleeping, SLOW])
def test_a_worker_that_dies_or_hangs_loses_nothing(here, tmp_path, monkeypatch, environment, limit):
    monkeypatch.setenv("STRUCK", str(tmp_path))
    with pytest.warns(UserWarning, match=r"a worker was lost \(.*\); its work is repeated"):
        assert run(environment, tmp_path / "run", workers=2, worker_limit=limit) == here
    assert (tmp_path / "once").exists()


@pytest.mark.slow
def test_on_ray(here, tmp_path, monkeypatch):
    monkeypatch.setenv("STRUCK", str(tmp_path))
    with pytest.warns(UserWarning, match="a worker was lost"):
        assert run(drifting.killed, tmp_path / "run", workers="ray") == here
    assert (tmp_path / "once").exists()


@pytest.mark.slow
def test_on_a_ray_cluster_of_two_nodes(here, tmp_path, monkeypatch):
    """Of one core each; one of the two actors is killed."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("STRUCK", str(tmp_path))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        assert run(drifting.killed, tmp_path / "run", workers=cluster.address) == here
    finally:
        cluster.shutdown()
    assert (tmp_path / "once").exists()


def test_an_environment_that_kills_every_process_is_given_up(tmp_path):
    with pytest.raises(InputError, match=r"3 workers died .* the last with: exit code 7; see what"):
        run(drifting.Doomed, tmp_path / "run", workers=1)


def test_what_an_environment_raises_elsewhere_is_the_same_sentence(tmp_path):
    said = []
    for count in (None, 2):
        with pytest.raises(InputError) as error:
            run(drifting.Raising, tmp_path / str(count), workers=count)
        said.append(str(error.value))
    assert said[0].replace("'Raising'", "'learning.drifting:Raising'") == said[1]
    assert "the motor is hot" in said[0]


@pytest.mark.parametrize("environment", [drifting.Drift(), lambda: drifting.Drift()])
def test_what_cannot_be_made_elsewhere_is_refused(tmp_path, environment):
    with pytest.raises(InputError, match="cannot be made in another process; give workers a name"):
        run(environment, tmp_path / "run", workers=1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (0, "workers is 0; it must be a whole number of at least 1"),
        ("many", "--workers many: write a number, ray, or HOST:PORT"),
        ("127.0.0.1:1", "no Ray cluster answers there"),
    ],
)
def test_workers_that_cannot_be(tmp_path, count, sentence):
    with pytest.raises(InputError, match=sentence):
        run(drifting.Drift, tmp_path / "run", workers=count)


def test_a_function_of_a_script_is_imported_from_its_file(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import cmdpax
            from learning import drifting

            def make():
                return drifting.Drift()

            if __name__ == "__main__":
                settings = dict(samples=300, batch=100, rollout_steps=50, hidden=(8,), passes=1)
                for workers in (None, 2):
                    folder = f"{sys.argv[1]}/{workers}"
                    cmdpax.train(make, folder=folder, workers=workers, **settings)
            """
        )
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, env=environ)
    assert metrics(tmp_path / "None") == metrics(tmp_path / "2")


def test_one_copy_does_what_it_does_among_all():
    for environment in (drifting.Drift, SMALL["environment"]):
        together, alone = make_simulator(environment, 3), make_simulator(environment, 1)
        policy, noise = random_policy(together)
        whole = record_of(together, policy, noise, 7)
        for copy in range(3):
            one = record_of(alone, policy, noise[:, [copy]], 7, copy)
            for all_copies, own in zip(whole, one):
                np.testing.assert_array_equal(all_copies[:, [copy]], own)


def test_a_policy_survives_its_journey():
    simulator = make_simulator(drifting.Drift, 1)
    policy, _ = random_policy(simulator)
    spaces = {"spaces": spaces_of(policy)}
    notes, arrays = workers.unpacked(workers.packed(spaces, policy.arrays()))
    again = NetworkPolicy.of_arrays(arrays, notes["spaces"], 0)
    for before, after in zip(policy.network, again.network):
        np.testing.assert_array_equal(before, after)


def random_policy(simulator):
    size, space = simulator.observation_size, simulator.action_space
    random = np.random.default_rng(0)
    layers = [random.normal(size=(size, space.size)).astype(np.float32)]
    biases = [np.zeros(space.size, np.float32)]
    statistics = np.zeros(size), np.ones(size)
    policy = NetworkPolicy(
        layers, biases, np.zeros(space.size, np.float32), *statistics, space, (size,), 0
    )
    return policy, policy.noise(random, (60, simulator.count))
