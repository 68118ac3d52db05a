"""Sparse systems `(I - gamma P) x = b` and their transposes, solved with a guard: no unchecked
vector leaves this module.

The matrix is a nonsingular M-matrix. Four methods in turn, each from where the last one stopped:

1. fixed-point steps `x <- b + gamma P x`. `P 1 = 1` is an exact eigenpair, so the slow mode of size
   gamma is removed by hand:
   values are measured up to a constant, which the residual then determines; occupancies start with
   their exact mass `sum(b) / (1 - gamma)`, and every step preserves it. What is left contracts as
   fast as the chain mixes, whatever the discount, and where the other eigenvalues fill a disc
   (random models) no Krylov method can do better. Given up once the measured rate is hopeless;
2. BiCGStab, preconditioned by LU without fill-in (exact for birth-death chains, strong on grids),
   restarted from its true residual, which is the only one believed: its own recurrence breaks down
   silently;
3. the same with the states in the order of the flow (each after those it leads to, so that the
   triangle of the matrix holds all but the transitions that close a cycle), for as long as the
   residual falls; where it does not, Gauss-Seidel sweeps, which always converge. It solves the
   chains with numbers at random that stage 2 cannot: long corridors, cycles, resets;
4. sparse LU, with one step of refinement, where its fill-in cannot take all memory.
"""

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from cmdpax.errors import NumericalError
from cmdpax.loops import bellman as kernels
from cmdpax.loops.rows import Rows
from cmdpax.stopping import Stop, never

ROUNDING = (
    1e-14  # a residual of this size relative to the solution, whose terms cancel in it, is believed
)
FINEST = 1e-15  # and one of this size cannot be improved
PATIENCE = 100  # fixed-point steps that cost about as much as a preconditioned Krylov solve
WINDOW = 5  # steps between two looks at their rate
RESTARTS, KRYLOV_STEPS = 2, 100
ROUNDS, SWEEPS = (
    100,
    50,
)  # restarts in the order of the flow at the most; Gauss-Seidel sweeps after one that did not help
LARGEST_LU = 300_000  # states; above, fill-in could take all memory


class System:
    """`I - discount P` for sparse `P [S, S]`, or its transpose; factors are computed when first
    needed and kept.
    """

    def __init__(self, rows: Rows, discount: float, transpose: bool = False) -> None:
        self.discount, self.transpose = discount, transpose
        self.horizon = 1 / (1 - discount)
        self.rows = rows

    @cached_property
    def full(self) -> Rows:
        """The system's matrix, canonical."""
        return kernels.system_rows(self.rows, self.discount, self.transpose)

    @cached_property
    def factors(self) -> np.ndarray:
        """LU without fill-in, entries `[nnz]` on the pattern of `full`."""
        return kernels.incomplete_factors(self.full)

    def size(self, vector: np.ndarray) -> float:
        """What a residual `[S]` says of V(rho)'s error: the largest entry for V, their sum for an
        occupancy. Infinite for NaN.
        """
        sizes = np.abs(vector)
        size = float(sizes.sum() if self.transpose else sizes.max())
        return size if np.isfinite(size) else np.inf

    def residual(self, solution: np.ndarray, right: np.ndarray) -> np.ndarray:
        """`b - (I - gamma P) x`, `[S]`."""
        return (
            kernels.relax(self.rows, right, self.discount, solution, 1, 0.0, self.transpose)[0]
            - solution
        )

    def solve(
        self,
        right: np.ndarray,
        tolerance: float = 0.0,
        guess: np.ndarray | None = None,
        mixes_slowly: bool = False,
        stop: Stop = never,
    ) -> np.ndarray:
        """Solve for `right [S]` to a residual of size `tolerance` (0: to rounding), from a `guess
        [S]`.

        A chain that is known to mix slowly is spared stage 1. Only who checks the vector himself,
        as planning does, gives a `stop`: it is asked between Krylov restarts, and then the vector
        is as good as it is by then.
        """
        if not right.any():
            return np.zeros_like(right)
        if mixes_slowly and guess is not None and kernels.loops() is not None:
            solution = guess
        else:
            solution, settled = fixed_point(self, right, tolerance, guess)
            if settled:
                return solution
        if kernels.loops() is not None:
            for _ in range(RESTARTS):
                solution = self._krylov(self.full, self.factors, right, tolerance, solution)
                if self.is_solved(solution, right, tolerance):
                    return solution
                if stop():
                    return solution if np.isfinite(solution).all() else np.zeros_like(right)
            solution = self._in_flow_order(right, tolerance, solution, stop)
            if self.is_solved(solution, right, tolerance) or stop():
                return solution
        return self._direct(right, tolerance)

    def _krylov(
        self,
        system: Rows,
        factors: np.ndarray,
        right: np.ndarray,
        tolerance: float,
        solution: np.ndarray,
    ) -> np.ndarray:
        target = max(tolerance / 2, FINEST * self.size(solution))
        return kernels.bicgstab(
            system, factors, right, solution, target, KRYLOV_STEPS, self.transpose
        )

    def _in_flow_order(
        self, right: np.ndarray, tolerance: float, solution: np.ndarray, stop: Stop
    ) -> np.ndarray:
        """Stage 3: the best vector found, in the states' own order."""
        order = kernels.flow_order(self.rows)
        if self.transpose:
            order = order[::-1]
        place = np.empty_like(order)
        place[order] = np.arange(len(order), dtype=order.dtype)
        matrix = self.full.matrix[order]
        matrix = sp.csr_array(
            (matrix.data, place[matrix.indices], matrix.indptr), shape=matrix.shape
        )
        matrix.sort_indices()
        system = Rows.of(matrix)
        factors = kernels.incomplete_factors(system)
        right, best = (
            right[order],
            solution[order] if np.isfinite(solution).all() else np.zeros_like(right),
        )
        smallest, found = self.size(right - matrix @ best), best
        for _ in range(ROUNDS):
            previous, found = found, self._krylov(system, factors, right, tolerance, found)
            size = self.size(right - matrix @ found)
            if (
                size > smallest / 2
                # sweeps bring the solution nearer even where the residual grows at first: go on from
                # them
            ):
                found = found if size < smallest else previous.copy()
                kernels.gauss_seidel(system, right, found, SWEEPS)
                size = self.size(right - matrix @ found)
            if size < smallest:
                best, smallest = found, size
            if smallest <= max(tolerance, ROUNDING * self.size(best)) or stop():
                break
        return best[place]

    def is_solved(self, solution: np.ndarray, right: np.ndarray, tolerance: float) -> bool:
        """Whether the true residual of a solution `[S]` for `right [S]` is at most `tolerance`, or
        rounding.
        """
        size = self.size(self.residual(solution, right))
        return np.isfinite(size) and size <= max(tolerance, ROUNDING * self.size(solution))

    def _direct(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        if len(right) <= LARGEST_LU:
            matrix = self.rows.matrix.T if self.transpose else self.rows.matrix
            factors = spla.splu(sp.csc_array(sp.eye_array(len(right)) - self.discount * matrix))
            solution = factors.solve(right)
            solution = solution + factors.solve(self.residual(solution, right))
            if self.is_solved(solution, right, tolerance):
                return solution
        raise NumericalError(
            "evaluation: the linear system could not be solved to rounding; the model is too"
            " ill-conditioned."
        )


def fixed_point(
    system: System, right: np.ndarray, tolerance: float, guess: np.ndarray | None
) -> tuple[np.ndarray, bool]:
    """Fixed-point steps with the constant mode removed -> `[S]`, and whether its residual is
    `tolerance` (or rounding).
    """
    solution, size, middle = _start(system, right, guess), np.inf, 0.0
    for done in range(WINDOW, PATIENCE + 1, WINDOW):
        before, target = size, max(tolerance, FINEST * system.size(solution))
        # the change is the residual of the old vector; that of the new one is no larger
        solution, sizes, middle = kernels.relax(
            system.rows, right, system.discount, solution, WINDOW, target, system.transpose
        )
        size = sizes[-1]
        if size <= target or not np.isfinite(size):
            break
        if np.isfinite(before):
            rate = (size / before) ** (1 / WINDOW)
            if rate >= 1 or done + np.log(target / size) / np.log(rate) > PATIENCE:
                break
    if not np.isfinite(size):
        return np.zeros_like(right), False
    settled = size <= max(tolerance, ROUNDING * system.size(solution))
    return solution + system.discount * system.horizon * middle, settled


def _start(system: System, right: np.ndarray, guess: np.ndarray | None) -> np.ndarray:
    guess = np.zeros_like(right) if guess is None else np.broadcast_to(guess, right.shape)
    if not system.transpose:
        return guess
    total = float(guess.sum())
    return (
        guess * (float(right.sum()) * system.horizon / total)
        if total > 0
        else right * system.horizon
    )
