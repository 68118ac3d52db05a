import pytest

from cmdpax import InputError, frontier_surface
from cmdpax.environments import garnet, queue
from cmdpax.experiments.pictures import frontier_picture, surface_picture
from cmdpax.solvers.frontier import frontier


def test_frontier_picture():
    curve = frontier(queue(capacity=10), points=4)
    figure = frontier_picture(curve, "energy", "<=", "least cost", current=2.0)
    assert figure.axes[0].get_ylabel().startswith("least cost")
    assert "energy" in figure.axes[0].get_xlabel() and "price" in figure.axes[1].get_ylabel()
    with pytest.raises(InputError, match="no points"):
        frontier_picture([], "energy", "<=", "best reward")


def test_surface_picture():
    model = garnet(states=6, constraints=2)
    regions = frontier_surface(model)
    figure = surface_picture(regions, model.constraint_names, model.thresholds)
    assert [axes.get_title() for axes in figure.axes[:3]] == [
        "best reward $V_r^*$",
        "shadow price of 'c0'",
        "shadow price of 'c1'",
    ]
    assert len(figure.axes[1].collections[0].get_paths()) == len(regions)
    with pytest.raises(InputError, match="no regions"):
        surface_picture([], ("a", "b"))
