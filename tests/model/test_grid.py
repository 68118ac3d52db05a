import pytest

from cmdpax import Grid, InputError
from cmdpax.model.grid import checked_grid

ROW = Grid(((0.0, 0.0), (1.0, 0.0)), ((1.0, 0.0),), goals=(1,))


def test_a_drawing_fits_its_model():
    assert checked_grid(ROW, 2, 1) is ROW and checked_grid(None, 2, 1) is None


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ("square", r"it must be a cmdpax\.Grid"),
        (Grid(ROW.cells[:1], ROW.moves), "1 cells and 1 moves; the model has 2 and 1"),
        (Grid(ROW.cells, ()), "2 cells and 0 moves; the model has 2 and 1"),
        (Grid(ROW.cells, ROW.moves, absorbing=(2,)), "2 cells and 1 moves; the model has 2 and 1"),
    ],
)
def test_what_does_not_fit_is_refused(grid, sentence):
    with pytest.raises(InputError, match=sentence):
        checked_grid(grid, 2, 1)
