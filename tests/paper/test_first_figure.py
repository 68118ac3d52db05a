import numpy as np

from cmdpax.paper.first_figure import first_figure


def test_al_converges_and_primal_dual_oscillates():
    left, right = first_figure().axes
    al, primal_dual = (line.get_ydata() for line in right.get_lines()[:2])
    assert np.ptp(al[-200:]) < 1e-3
    assert np.ptp(primal_dual[-200:]) > 1e-2
    gap = left.get_lines()[0].get_ydata()
    assert abs(gap[-1]) < 1e-4 and len(gap) == 1001
