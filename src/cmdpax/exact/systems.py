"""How is `(I - gamma P) x = b`, or its transpose, solved so that no wrong vector leaves?

`Chain` solves component by component (`loops/components.py`): single states at once, small
components by dense LU, a large one as a `System` of its own with what the others contribute on its
right-hand side. If the whole then has not the residual it should have, all of it is one `System`.

The matrix of a `System` is sparse, a nonsingular M-matrix. Four methods follow each other, each
from where the last one stopped, and only a true residual is believed:

1. fixed-point steps `x <- b + gamma P x`. `P 1 = 1` is an exact eigenpair, so the slow mode of size
   gamma is removed by hand: values are measured up to a constant, which the residual then
   determines; occupancies start with their exact mass `sum(b) / (1 - gamma)`, which every step
   preserves. What is left contracts as fast as the chain mixes, whatever the discount. Where the
   other eigenvalues fill a disc (random models) no Krylov method can do better. (A component that
   leads to others has no such eigenpair.) These steps end as soon as their rate is hopeless;
2. BiCGStab, preconditioned by LU without fill-in (exact for birth-death chains, strong on grids)
   and restarted from its true residual, because its own recurrence breaks down silently;
3. the same with the states in the order of the flow, for as long as the residual falls. Each state
   comes after those it leads to, so that one triangle of the matrix holds all transitions but those
   that close a cycle. Where the residual does not fall, Gauss-Seidel sweeps, which always converge.
   This solves long corridors, cycles and resets whose states are numbered at random, which stage 2
   cannot;
4. sparse LU with one step of refinement, where its fill-in cannot take all memory.
"""

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from cmdpax.errors import NumericalError
from cmdpax.loops import rare
from cmdpax.loops import systems as loops
from cmdpax.loops.components import Order, inside, outside, send_outside, solve_small
from cmdpax.loops.rows import Matrix
from cmdpax.stopping import Stop, never

ROUNDING = 1e-14  # believe a residual of this size relative to the solution, whose terms cancel
FINEST = 1e-15  # one of this size cannot be improved
PATIENCE = 100  # fixed-point steps that cost about as much as a preconditioned Krylov solve
WINDOW = 5  # steps between two looks at their rate
RESTARTS, KRYLOV_STEPS = 2, 100
ROUNDS = 100  # restarts in the order of the flow, at the most
SWEEPS = 50  # Gauss-Seidel sweeps after a restart that did not help
MAX_LU_STATES = 300_000  # above, fill-in could take all memory


class System:
    """`I - discount P` for sparse `P [S, S]`, or its transpose; factors are kept once computed.

    closed: whether the rows of P sum to 1.
    """

    def __init__(
        self, rows: Matrix, discount: float, transpose: bool = False, closed: bool = True
    ) -> None:
        self.rows, self.discount, self.transpose, self.closed = rows, discount, transpose, closed
        self.mass = 1 / (1 - discount) if closed else 0.0

    @cached_property
    def full(self) -> Matrix:
        """The system's matrix, canonical."""
        return loops.system_rows(self.rows, self.discount, self.transpose)

    @cached_property
    def factors(self) -> np.ndarray:
        """LU without fill-in, entries `[n]` on the pattern of `full`."""
        return loops.incomplete_factors(self.full)

    def size(self, vector: np.ndarray) -> float:
        """How far a residual `[S]` can move V(rho); infinite for NaN.

        `max |d|` for values, `sum |d|` for occupancies.
        """
        sizes = np.abs(vector)
        size = float(sizes.sum() if self.transpose else sizes.max())
        return size if np.isfinite(size) else np.inf

    def residual(self, solution: np.ndarray, right: np.ndarray) -> np.ndarray:
        """`b - (I - gamma P) x`, `[S]`, for a solution x `[S]` and `right` b `[S]`."""
        step, _, _ = loops.relax(self.rows, right, self.discount, solution, 1, 0.0, self.transpose)
        return step - solution

    def is_solved(self, solution: np.ndarray, right: np.ndarray, tolerance: float) -> bool:
        """Whether the true residual of `solution [S]` is at most `tolerance`, or rounding."""
        size = self.size(self.residual(solution, right))
        return np.isfinite(size) and size <= max(tolerance, ROUNDING * self.size(solution))

    def solve(
        self,
        right: np.ndarray,
        tolerance: float = 0.0,
        guess: np.ndarray | None = None,
        mixes_slowly: bool = False,
        stop: Stop = never,
    ) -> np.ndarray:
        """Solve for `right [S]` to a residual of size `tolerance` (0: rounding), from `guess [S]`.

        `mixes_slowly` skips stage 1 if there is a guess. `stop` is polled between restarts. If it
        returns True, the current vector comes back unchecked; pass one only if you bound its
        residual yourself, as planning does.
        """
        if not right.any():
            return np.zeros_like(right)
        if mixes_slowly and guess is not None:
            solution = guess
        else:
            solution, is_settled = fixed_point(self, right, tolerance, guess)
            if is_settled:
                return solution
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
        system: Matrix,
        factors: np.ndarray,
        right: np.ndarray,
        tolerance: float,
        solution: np.ndarray,
    ) -> np.ndarray:
        """Stage 2: one run of BiCGStab from `solution [S]`."""
        target = max(tolerance / 2, FINEST * self.size(solution))
        return loops.bicgstab(
            system, factors, right, solution, target, KRYLOV_STEPS, self.transpose
        )

    def _in_flow_order(
        self, right: np.ndarray, tolerance: float, solution: np.ndarray, stop: Stop
    ) -> np.ndarray:
        """Stage 3: the vector with the smallest residual, in the states' own order."""
        order = loops.flow_order(self.rows)
        if self.transpose:
            order = order[::-1]
        place = np.empty_like(order)
        place[order] = np.arange(len(order), dtype=order.dtype)
        matrix = self.full.matrix[order]
        parts = matrix.data, place[matrix.indices], matrix.indptr
        matrix = sp.csr_array(parts, shape=matrix.shape)
        matrix.sort_indices()
        system = Matrix.of(matrix)
        factors = loops.incomplete_factors(system)
        right = right[order]
        best = solution[order] if np.isfinite(solution).all() else np.zeros_like(right)
        smallest, current = self.size(right - matrix @ best), best
        for _ in range(ROUNDS):
            previous, current = current, self._krylov(system, factors, right, tolerance, current)
            size = self.size(right - matrix @ current)
            if size > smallest / 2:
                # go on from the sweeps: they bring the solution nearer even where they increase the
                # residual at first
                current = current if size < smallest else previous.copy()
                loops.gauss_seidel(system, right, current, SWEEPS)
                size = self.size(right - matrix @ current)
            if size < smallest:
                best, smallest = current, size
            if smallest <= max(tolerance, ROUNDING * self.size(best)) or stop():
                break
        return best[place]

    def _direct(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        """Stage 4, or an error."""
        if len(right) <= MAX_LU_STATES:
            matrix = self.rows.matrix.T if self.transpose else self.rows.matrix
            try:
                factors = spla.splu(sp.csc_array(sp.eye_array(len(right)) - self.discount * matrix))
            except RuntimeError:  # exactly singular
                raise ill_conditioned() from None
            solution = factors.solve(right)
            solution = solution + factors.solve(self.residual(solution, right))
            if self.is_solved(solution, right, tolerance):
                return solution
        raise ill_conditioned()


def ill_conditioned() -> NumericalError:
    """What to say where a run goes on for more steps than a number has digits."""
    return NumericalError(
        "evaluation: the linear system could not be solved to rounding; the model is too"
        " ill-conditioned: leave out probabilities below 1e-15."
    )


def finite(numbers: np.ndarray) -> np.ndarray:
    """The same, if a run settles, ends or comes back in as many steps as a number can hold."""
    if not np.isfinite(numbers).all():
        raise ill_conditioned()
    return numbers


class Chain:
    """`I - discount P` or its transpose, component by component in the order of a model.

    rows: P `[S, S]`, all of whose transitions are among those that `order` was made for. closed:
    whether its rows sum to 1.
    """

    def __init__(
        self,
        rows: Matrix,
        discount: float,
        order: Order,
        transpose: bool = False,
        closed: bool = True,
    ) -> None:
        self.whole = System(rows, discount, transpose, closed)
        self.order = order
        self._blocks: dict[int, System] = {}

    def solve(
        self,
        right: np.ndarray,
        tolerance: float | np.ndarray = 0.0,
        guess: np.ndarray | None = None,
    ) -> np.ndarray:
        """Solve for k sides `right [k, S]` to residuals of size `tolerance [k]`, from `guess`."""
        whole, order = self.whole, self.order
        guesses = [None] * len(right) if guess is None else guess
        sides = list(zip(right, np.broadcast_to(tolerance, len(right)), guesses, strict=True))
        if order.is_plain:
            return np.stack([whole.solve(*side) for side in sides])
        vectors = right.copy()
        groups = order.groups[::-1] if whole.transpose else order.groups
        large = max(1, sum(is_large for _, _, is_large in groups))
        for first, last, is_large in groups:
            if is_large:
                for vector, (_, error, start) in zip(vectors, sides, strict=True):
                    self._solve_large(first, vector, error / large, start)
            else:
                run = order.run(first, last)
                solve_small(whole.rows, *run, whole.discount, vectors, whole.transpose)
        for x, (b, error, _) in zip(vectors, sides, strict=True):
            is_checked = len(order.starts) == 2  # by its only component
            if not (is_checked or whole.is_solved(x, b, error)):
                x[:] = whole.solve(b, error, x.copy())
        return vectors

    def _solve_large(
        self, component: int, vector: np.ndarray, tolerance: float, guess: np.ndarray | None
    ) -> None:
        """Replace b by x in a vector `[S]`, at the states of a large component."""
        rows, discount, order = self.whole.rows, self.whole.discount, self.order
        states, first = order.members(component, component + 1), int(order.starts[component])
        if component not in self._blocks:
            block = inside(rows, states, order.place, first)
            kind = self.whole.transpose, self.whole.closed and not order.leaks[component]
            self._blocks[component] = System(block, discount, *kind)
        right = vector[states]
        leaks = order.leaks[component]
        if leaks and not self.whole.transpose:
            right = right + discount * outside(rows, states, order.place, first, vector)
        # in the order of a flow LU without fill-in is nearly exact
        flows = bool(order.flows[component])
        start = np.zeros_like(right) if flows else None
        start = start if guess is None else guess[states]
        vector[states] = solution = self._blocks[component].solve(right, tolerance, start, flows)
        if leaks and self.whole.transpose:
            send_outside(rows, states, order.place, first, discount * solution, vector)


class Rare:
    """`I - P` of a small chain or its transpose, however rare a step is (`loops/rare.py`).

    moves: P `[S, S]`, but for what is lost, `[S]`.
    """

    def __init__(self, moves: np.ndarray, lost: np.ndarray, transpose: bool = False) -> None:
        self.factors, self.transpose = rare.factors_of(moves, lost), transpose

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Solve for k sides `right [k, S]`."""
        return rare.solved(self.factors, right, self.transpose)


def fixed_point(
    system: System, right: np.ndarray, tolerance: float, guess: np.ndarray | None
) -> tuple[np.ndarray, bool]:
    """Stage 1 for `right [S]` -> `[S]`, and whether its residual is `tolerance`, or rounding."""
    solution, size, middle = _start(system, right, guess), np.inf, 0.0
    for done in range(WINDOW, PATIENCE + 1, WINDOW):
        before, target = size, max(tolerance, FINEST * system.size(solution))
        # the change is the residual of the old vector; that of the new one is no larger
        kind = system.transpose, system.closed
        solution, sizes, middle = loops.relax(
            system.rows, right, system.discount, solution, WINDOW, target, *kind
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
    is_settled = size <= max(tolerance, ROUNDING * system.size(solution))
    return solution + system.discount * system.mass * middle, is_settled


def _start(system: System, right: np.ndarray, guess: np.ndarray | None) -> np.ndarray:
    """The guess, or zeros; for occupancies with their exact mass, where it is known."""
    guess = np.zeros_like(right) if guess is None else np.broadcast_to(guess, right.shape)
    if not system.transpose or not system.closed:
        return guess
    total = float(guess.sum())
    if total > 0:
        return guess * (float(right.sum()) * system.mass / total)
    return right * system.mass
