"""Sparse systems `(I - gamma P) x = b` and their transposes, solved with a guard: no unchecked vector leaves this module.

The matrix is a nonsingular M-matrix. Four methods in turn, each from where the last one stopped:

1. fixed-point steps `x <- b + gamma P x`. `P 1 = 1` is an exact eigenpair, so the slow mode of size gamma is removed by hand:
   values are measured up to a constant, which the residual then determines; occupancies start with their exact mass
   `sum(b) / (1 - gamma)`, and every step preserves it. What is left contracts as fast as the chain mixes, whatever the discount,
   and where the other eigenvalues fill a disc (random models) no Krylov method can do better. Given up once the measured
   rate is hopeless;
2. BiCGStab, preconditioned by LU without fill-in (exact for birth-death chains, strong on grids), restarted from its
   true residual, which is the only one believed: its own recurrence breaks down silently;
3. the same with the states in the order of the flow (each after those it leads to, so that the triangle of the matrix holds
   all but the transitions that close a cycle), for as long as the residual falls; where it does not, Gauss-Seidel sweeps, which
   always converge. It solves the chains with numbers at random that stage 2 cannot: long corridors, cycles, resets;
4. sparse LU, with one step of refinement, where its fill-in cannot take all memory.
"""

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from cmdpax import kernels
from cmdpax.errors import NumericalError

ROUNDING = 1e-14  # a residual of this size relative to the solution, whose terms cancel in it, is believed
FINEST = 1e-15  # and one of this size cannot be improved
PATIENCE = 100  # fixed-point steps that cost about as much as a preconditioned Krylov solve
WINDOW = 5  # steps over which their rate is measured
RESTARTS, KRYLOV_STEPS = 2, 100
ROUNDS, SWEEPS = 100, 50  # restarts in the order of the flow at the most; Gauss-Seidel sweeps after one that did not help
LARGEST_LU = 300_000  # states; above, fill-in could take all memory


class System:
    """`I - discount P` for sparse `P [S, S]`, or its transpose; factors are computed when first needed and kept."""

    def __init__(self, matrix: sp.csr_array, discount: float, transpose: bool = False) -> None:
        self.discount, self.transpose = discount, transpose
        self.horizon = 1 / (1 - discount)
        self.matrix = matrix
        self.operator = matrix.T if transpose else matrix

    @cached_property
    def full(self) -> sp.csr_array:
        """The system's matrix, canonical."""
        system = sp.csr_array(sp.eye_array(self.operator.shape[0], format="csr") - self.discount * self.operator.tocsr())
        system.sum_duplicates()
        return system

    @cached_property
    def factors(self) -> np.ndarray:
        """LU without fill-in."""
        return kernels.incomplete_factors(self.full)

    def size(self, vector: np.ndarray) -> float:
        """What bounds the error of V(rho): the largest residual of V, the sum of those of an occupancy. Infinite for NaN."""
        size = float(np.linalg.norm(vector, 1 if self.transpose else np.inf))
        return size if np.isfinite(size) else np.inf

    def residual(self, solution: np.ndarray, right: np.ndarray) -> np.ndarray:
        """`b - (I - gamma P) x`, `[S]`."""
        return right + self.discount * (self.operator @ solution) - solution

    def solve(
        self, right: np.ndarray, tolerance: float = 0.0, guess: np.ndarray | None = None, mixes_slowly: bool = False
    ) -> np.ndarray:
        """Solve for `right [S]` to a residual of size `tolerance` (0: to rounding), from a `guess [S]`.

        A chain that is known to mix slowly is spared stage 1.
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
            solution = self._in_flow_order(right, tolerance, solution)
            if self.is_solved(solution, right, tolerance):
                return solution
        return self._direct(right, tolerance)

    def _krylov(
        self, system: sp.csr_array, factors: np.ndarray, right: np.ndarray, tolerance: float, solution: np.ndarray
    ) -> np.ndarray:
        target = max(tolerance / 2, FINEST * self.size(solution))
        return kernels.bicgstab(system, factors, right, solution, target, KRYLOV_STEPS, self.transpose)

    def _in_flow_order(self, right: np.ndarray, tolerance: float, solution: np.ndarray) -> np.ndarray:
        """Stage 3: the best vector found, in the states' own order."""
        order = kernels.flow_order(self.matrix)
        if self.transpose:
            order = order[::-1]
        place = np.empty_like(order)
        place[order] = np.arange(len(order), dtype=order.dtype)
        system = self.full[order]
        system = sp.csr_array((system.data, place[system.indices], system.indptr), shape=system.shape)
        system.sort_indices()
        factors = kernels.incomplete_factors(system)
        right, best = right[order], solution[order] if np.isfinite(solution).all() else np.zeros_like(right)
        smallest, found = self.size(right - system @ best), best
        for _ in range(ROUNDS):
            previous, found = found, self._krylov(system, factors, right, tolerance, found)
            size = self.size(right - system @ found)
            if size > smallest / 2:  # sweeps bring the solution nearer even where the residual grows at first: go on from them
                found = found if size < smallest else previous.copy()
                kernels.gauss_seidel(system, right, found, SWEEPS)
                size = self.size(right - system @ found)
            if size < smallest:
                best, smallest = found, size
            if smallest <= max(tolerance, ROUNDING * self.size(best)):
                break
        return best[place]

    def is_solved(self, solution: np.ndarray, right: np.ndarray, tolerance: float) -> bool:
        """Whether the true residual is at most `tolerance`, or rounding."""
        size = self.size(self.residual(solution, right))
        return np.isfinite(size) and size <= max(tolerance, ROUNDING * self.size(solution))

    def _direct(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        if len(right) <= LARGEST_LU:
            factors = spla.splu(sp.csc_array(self.full))
            solution = factors.solve(right)
            solution = solution + factors.solve(self.residual(solution, right))
            if self.is_solved(solution, right, tolerance):
                return solution
        raise NumericalError("evaluation: the linear system could not be solved to rounding; the model is too ill-conditioned.")


def fixed_point(system: System, right: np.ndarray, tolerance: float, guess: np.ndarray | None) -> tuple[np.ndarray, bool]:
    """Fixed-point steps with the constant mode removed -> `[S]`, and whether its residual is `tolerance` (or rounding)."""
    solution = _start(system, right, guess)
    sizes: list[float] = []
    middle = target = 0.0
    for step in range(1, PATIENCE + 1):
        # the change is the residual of the old vector; that of the new one is no larger
        if system.transpose:
            solution, size = kernels.relax_transposed(system.matrix, right, system.discount, solution)
        else:
            solution, low, high = kernels.relax(system.matrix, right, system.discount, solution)
            size, middle = (high - low) / 2, (high + low) / 2
        sizes.append(size)
        if step % WINDOW == 1:  # the solution's own size changes slowly
            target = max(tolerance, FINEST * system.size(solution))
        if size <= target or not np.isfinite(size):
            break
        if step % WINDOW == 0 and step > WINDOW:
            rate = (size / sizes[-1 - WINDOW]) ** (1 / WINDOW)
            if rate >= 1 or step + np.log(target / size) / np.log(rate) > PATIENCE:
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
    return guess * (float(right.sum()) * system.horizon / total) if total > 0 else right * system.horizon
