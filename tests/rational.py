"""A small model in rational numbers (python-flint), and what is false about a result.

A float is a rational number: model, policy and certificate are taken as such, and nothing is
rounded anywhere. Rows of probabilities, which miss a sum of 1 by a rounding, are divided by their
exact sums. Nothing is shared with the library but the model's arrays.
"""

from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from flint import fmpq, fmpq_mat

from cmdpax import CMDP, Result

FLOOR, DIGITS, TINIEST = fmpq(1, 10**10), fmpq(4, 10**15), fmpq(1, 10**12)  # docs/certificates.md
PATIENCE = 60  # pivots before Bland's rule, which cannot cycle
ZERO, ONE = fmpq(0), fmpq(1)


def rational(number: float) -> fmpq:
    return fmpq(*float(number).as_integer_ratio())


def real(number: fmpq) -> float:
    return float(Fraction(int(number.p), int(number.q)))


def divided(row: list[fmpq]) -> list[fmpq]:
    """Divided by their exact sum."""
    total = sum(row, ZERO)
    return [one / total for one in row]


class Rational:
    """The reachable part: states are numbered anew, choices `[K]` have an owner and a kernel row.

    A kernel row says what counts of the next states: `gamma P`, less what leads to ended states.
    """

    def __init__(self, model: CMDP) -> None:
        rows, gamma = model.transitions, rational(model.discount)
        owners, pointers = rows.state_of.tolist(), rows.first_entry.tolist()
        chances = [rational(p) for p in rows.probabilities]
        steps = []
        for first, last in pairwise(pointers):
            steps.append(
                dict(zip(rows.successors[first:last].tolist(), divided(chances[first:last])))
            )
        functions = [model.reward, *model.constraints]
        ended = set(range(model.states))
        for k, s in enumerate(owners):
            if set(steps[k]) != {s} or any(x[k] for x in functions):
                ended.discard(s)
        is_endless = model.criterion in ("discounted", "average") and not model.horizon
        ended = set() if is_endless else ended
        seen = set(np.flatnonzero(model.initial).tolist()) - ended
        fringe = seen
        while fringe and model.discount:
            fringe = (
                {t for k, s in enumerate(owners) if s in fringe for t in steps[k]} - seen - ended
            )
            seen = seen | fringe
        place = {s: i for i, s in enumerate(sorted(seen))}
        self.kept = [k for k, s in enumerate(owners) if s in seen]
        self.owner = [place[owners[k]] for k in self.kept]
        self.kernel = [
            {place[t]: gamma * p for t, p in steps[k].items() if t in place} for k in self.kept
        ]
        self.functions = [[rational(x[k]) for k in self.kept] for x in functions]
        self.initial = [ZERO] * len(place)
        start = divided([rational(p) for p in model.initial])
        for s, i in place.items():
            self.initial[i] = start[s]
        self.model, self.states, self.choices = model, len(place), len(self.kept)
        self.is_average = model.criterion == "average"
        self.first = [self.owner.index(s) for s in range(self.states)]
        self.rows = [  # sign V_i >= bound
            (i, sign, rational(sign * bound))
            for i, pair in enumerate(model.limits.bounds.tolist())
            for sign, bound in zip((1, -1), pair)
            if np.isfinite(bound)
        ]

    def policy(self, table: np.ndarray) -> list[fmpq]:
        """Probabilities of the choices, each state's divided by their exact sum."""
        chances = [rational(p) for p in self.model.by_choice(table)[self.kept]]
        totals = [ZERO] * self.states
        for s, p in zip(self.owner, chances):
            totals[s] += p
        return [p / totals[s] for s, p in zip(self.owner, chances)]

    def answered(self, result: Result) -> list[fmpq]:
        """Visits of choices by the answer: one policy, or a draw of deterministic ones."""
        if result.policy is not None:
            return self.visits(self.policy(result.policy))
        total = [ZERO] * self.choices
        shares = divided([rational(share) for share, _ in result.mixture])
        for share, (_, actions) in zip(shares, result.mixture):
            visits = self.visits(self.policy(np.eye(self.model.actions)[actions]))
            total = [x + share * y for x, y in zip(total, visits)]
        return total

    def visits(self, policy: list[fmpq]) -> list[fmpq]:
        """Expected (discounted) visits of choices; on average, long-run shares of time."""
        if self.is_average:
            return self.long_run(policy)
        system = fmpq_mat(self.states, self.states)
        for s in range(self.states):
            system[s, s] = ONE
        for s, row, p in zip(self.owner, self.kernel, policy):
            for t, chance in row.items() if p != 0 else ():
                system[t, s] = system[t, s] - p * chance
        solved = system.solve(fmpq_mat(self.states, 1, self.initial)) if self.states else []
        return [p * solved[s, 0] for s, p in zip(self.owner, policy)]

    def long_run(self, policy: list[fmpq]) -> list[fmpq]:
        """Long-run shares of time of choices: where runs settle, and how often they are where."""
        each = range(self.states)
        chain = [dict.fromkeys(each, ZERO) for _ in each]
        for s, row, p in zip(self.owner, self.kernel, policy):
            for t, chance in row.items():
                chain[s][t] += p * chance
        ahead = [{t for t in each if t == s or chain[s][t] > 0} for s in each]
        for via in each:
            for s in each:
                ahead[s] |= ahead[via] if via in ahead[s] else set()
        classes = {frozenset(ahead[s]) for s in each if all(s in ahead[t] for t in ahead[s])}
        leads = [s for s in each if not any(s in own for own in classes)]
        left = fmpq_mat(len(leads), len(leads))
        for i, s in enumerate(leads):
            for j, t in enumerate(leads):
                left[j, i] = (i == j) - chain[s][t]
        start = fmpq_mat(len(leads), 1, [self.initial[s] for s in leads])
        before = left.solve(start).entries() if leads else []
        shares = [ZERO] * self.states
        for own in map(sorted, classes):
            entered = sum((self.initial[t] for t in own), ZERO)
            entered += sum((n * chain[s][t] for s, n in zip(leads, before) for t in own), ZERO)
            square = fmpq_mat(len(own), len(own))
            for i, s in enumerate(own):
                for j, t in enumerate(own):
                    square[j, i] = (i == j) - chain[s][t] if j else ONE  # one row is their sum
            right = fmpq_mat(len(own), 1, [entered] + [ZERO] * (len(own) - 1))
            for s, share in zip(own, square.solve(right).entries()):
                shares[s] = share
        return [p * shares[s] for s, p in zip(self.owner, policy)]

    @cached_property
    def corners(self) -> list[list[fmpq]]:
        """On average, visits of all deterministic policies; all others mix them (Derman)."""
        own = [[k for k in range(self.choices) if self.owner[k] == s] for s in range(self.states)]
        return [
            self.long_run([ONE if k in chosen else ZERO for k in range(self.choices)])
            for chosen in product(*own)
        ]

    def best(self, reward: list[fmpq]) -> fmpq:
        """`max_pi V` of one reward: policy iteration, which ends at the maximum."""
        if self.is_average:
            return max(sum((n * x for n, x in zip(one, reward)), ZERO) for one in self.corners)
        chosen = list(self.first)
        while True:
            system = fmpq_mat(self.states, self.states)
            for s, k in enumerate(chosen):
                system[s, s] = ONE
                for t, chance in self.kernel[k].items():
                    system[s, t] = system[s, t] - chance
            right = fmpq_mat(self.states, 1, [reward[k] for k in chosen])
            values = system.solve(right) if self.states else []
            best, improved = [values[s, 0] for s in range(self.states)], list(chosen)
            for k, s in enumerate(self.owner):
                ahead = sum((p * values[t, 0] for t, p in self.kernel[k].items()), ZERO)
                if reward[k] + ahead > best[s]:
                    best[s], improved[s] = reward[k] + ahead, k
            if improved == chosen:
                return sum((p * v for p, v in zip(self.initial, best)), ZERO)
            chosen = improved

    @cached_property
    def ranges(self) -> list[tuple[fmpq, fmpq]]:
        """Least and largest value of the reward and of every constraint."""
        return [(-self.best([-x for x in row]), self.best(row)) for row in self.functions]

    def priced(self, prices: np.ndarray, sign: int) -> fmpq:
        """`max_pi sign V_0 + prices . margins`; a price of two rows is that of one of them."""
        counts = [sum(i == j for i, _, _ in self.rows) for j in range(len(prices))]
        total, constant = [sign * x for x in self.functions[0]], ZERO
        for i, turn, bound in self.rows:
            price = rational(prices[i])
            price = max(turn * price, ZERO) if counts[i] == 2 else price
            row = self.functions[1 + i]
            total = [x + price * turn * y for x, y in zip(total, row)]
            constant -= price * bound
        return self.best(total) + constant

    def optimum(self) -> fmpq | None:
        """`max V_0` (or minus the least) over feasible policies by the simplex method; None: none.

        Variables are the visits of choices and a slack for each row; the first basis is that of the
        policy which takes every state's first choice. On average they are shares of corners.
        """
        if self.is_average:
            return self._best_mixture()
        S, K, M = self.states, self.choices, len(self.rows)
        system = fmpq_mat(S + M, K + M + 1)
        for k, s in enumerate(self.owner):
            system[s, k] = ONE
            for t, chance in self.kernel[k].items():
                system[t, k] = system[t, k] - chance
        for s, chance in enumerate(self.initial):
            system[s, K + M] = chance
        for j, (i, turn, bound) in enumerate(self.rows):
            for k in range(K):
                system[S + j, k] = turn * self.functions[1 + i][k]
            system[S + j, K + j], system[S + j, K + M] = -ONE, bound
        basis = [*self.first, *range(K, K + M)]
        square = fmpq_mat(S + M, S + M)
        for column, k in enumerate(basis):
            for row in range(S + M):
                square[row, column] = system[row, k]
        rows = square.solve(system).tolist() if S + M else []
        sign = -1 if self.model.minimise else 1
        return simplex(rows, basis, [sign * x for x in self.functions[0]] + [ZERO] * M)

    def _best_mixture(self) -> fmpq | None:
        """`max_alpha sum alpha_k V_0[k]`, `sum alpha_k (turn V_i[k] - bound) - slack = 0`."""
        M, N = len(self.rows), len(self.corners)
        values = [
            [sum((n * x for n, x in zip(one, row)), ZERO) for row in self.functions]
            for one in self.corners
        ]
        margins = [[turn * own[1 + i] - bound for i, turn, bound in self.rows] for own in values]
        rows = [[ONE] * N + [ZERO] * M + [ONE]]
        for j in range(M):  # of the basis of the first corner and all slacks
            first = margins[0][j]
            slacks = [ONE if i == j else ZERO for i in range(M)]
            rows.append([first - own[j] for own in margins] + slacks + [first])
        sign = -1 if self.model.minimise else 1
        return simplex(rows, [0, *range(N, N + M)], [sign * own[0] for own in values] + [ZERO] * M)

    def tolerances(self, eps: float, visits: list[fmpq]) -> list[fmpq]:
        """What gap and violations may be, as the documentation says it, with exact ranges."""
        allowed = []
        for i, (row, (low, high)) in enumerate(zip(self.functions, self.ranges)):
            middle = (min(row, default=ZERO) + max(row, default=ZERO)) / 2
            is_far = row and abs(middle) > max(row) - min(row) and self.model.criterion != "total"
            constant = middle if is_far else ZERO
            own = sum((n * abs(x - constant) for n, x in zip(visits, row)), ZERO)
            value = constant * sum(visits, ZERO)  # the same for all policies
            numbers = [low, high, *(t * bound for j, t, bound in self.rows if j == i - 1)]
            size = max(own, *(abs(x - value) for x in numbers))
            floors = FLOOR * size, DIGITS * max(map(abs, numbers))
            largest = TINIEST * max(map(abs, row), default=ZERO)
            allowed.append(max(rational(eps) * (high - low), *floors, largest))
        return allowed


def simplex(rows: list[list[fmpq]], basis: list[int], objective: list[fmpq]) -> fmpq | None:
    """`max objective.x` over x >= 0 in rows `B^-1 [A | b]`, exactly; None if there is no such x."""
    width = len(objective)
    for row in rows:  # one artificial variable, out of which everything becomes feasible
        row.insert(width, ZERO)
    worst = min(range(len(rows)), key=lambda i: rows[i][-1], default=None)
    if worst is not None and rows[worst][-1] < 0:
        for row in rows:
            row[width] = -ONE if row[-1] < 0 else ZERO
        _pivot(rows, basis, worst, width)
        if _improve(rows, basis, [ZERO] * width + [-ONE], width + 1) < 0:
            return None
        if width in basis:  # at 0: any other variable takes its place
            i = basis.index(width)
            other = next((j for j in range(width) if rows[i][j] != 0), None)
            if other is None:
                del rows[i], basis[i]
            else:
                _pivot(rows, basis, i, other)
    return _improve(rows, basis, [*objective, ZERO], width)


def _improve(rows: list[list[fmpq]], basis: list[int], objective: list[fmpq], count: int) -> fmpq:
    """Pivot until nothing is gained; the value. Only the first `count` variables may enter."""
    gains = [*objective, ZERO]
    for row, k in zip(rows, basis):
        if objective[k] != 0:
            gains = [x - objective[k] * y for x, y in zip(gains, row)]
    step = 0
    while any(gain > 0 for gain in gains[:count]):
        step += 1
        better = [j for j in range(count) if gains[j] > 0]
        entering = better[0] if step > PATIENCE else max(better, key=gains.__getitem__)
        able = [i for i, row in enumerate(rows) if row[entering] > 0]
        leaving = min(able, key=lambda i: (rows[i][-1] / rows[i][entering], basis[i]))
        _pivot(rows, basis, leaving, entering)
        factor = gains[entering]
        gains = [x - factor * y for x, y in zip(gains, rows[leaving])]
    return -gains[-1]


def _pivot(rows: list[list[fmpq]], basis: list[int], leaving: int, entering: int) -> None:
    factor = rows[leaving][entering]
    rows[leaving] = [x / factor for x in rows[leaving]]
    for i, row in enumerate(rows):
        if i != leaving and row[entering] != 0:
            factor = row[entering]
            rows[i] = [x - factor * y for x, y in zip(row, rows[leaving])]
    basis[leaving] = entering


def falsehoods(model: CMDP, result: Result) -> list[str]:
    """What a result claims and what is not so, a sentence each."""
    exact, proof, wrong = Rational(model), result.certificate, []
    sign = -1 if model.minimise else 1
    visits = exact.answered(result)
    reward, *values = (sum((n * x for n, x in zip(visits, row)), ZERO) for row in exact.functions)
    margins = [
        min(turn * value - bound for j, turn, bound in exact.rows if j == i)
        for i, value in enumerate(values)
    ]

    def demand(holds: bool, sentence: str) -> None:
        if not holds:
            wrong.append(sentence)

    for what, number, (low, high) in zip(
        ["reward", *(f"margin {i}" for i in range(len(margins)))],
        [reward, *margins],
        [proof.reward_bounds, *proof.margin_bounds.tolist()],
    ):
        is_within = low == -np.inf or rational(low) <= number  # an infinite bound claims nothing
        is_within = is_within and (high == np.inf or number <= rational(high))
        demand(is_within, f"the {what} is {real(number)!r}, not in [{low!r}, {high!r}]")
    for i, (claimed, (low, high)) in enumerate(zip(proof.ranges.tolist(), exact.ranges)):
        is_attained = low <= rational(claimed[0]) and rational(claimed[1]) <= high
        demand(is_attained, f"range {i} is {[real(low), real(high)]}, not {claimed}")
    bound = exact.priced(proof.weights, sign)
    best, tolerances = exact.optimum(), exact.tolerances(result.eps, visits)
    if sign * proof.dual_bound < np.inf:
        stated = sign * rational(proof.dual_bound)
        demand(bound <= stated, f"D(w) is {sign * real(bound)!r}, not {proof.dual_bound!r}")
        if best is not None:
            demand(best <= stated, f"the optimum is {real(best)!r}, not {proof.dual_bound!r}")
    if result.status == "certified":
        gap = (bound if best is None else best) - sign * reward
        demand(gap <= tolerances[0], f"certified, but the gap is {real(gap)!r}")
        for i, margin in enumerate(margins):
            within = -margin <= tolerances[1 + i]
            demand(within, f"certified, but margin {i} is {real(margin)!r}")
    if proof.ray is not None:
        most = exact.priced(proof.ray, 0)
        demand(most <= rational(proof.ray_bound), f"the ray proves {real(most)!r} only")
    if result.status == "infeasible":
        demand(best is None, "infeasible, but some policy is feasible")
        demand(proof.ray is not None and proof.ray_bound < 0, "infeasible without a proof")
    return wrong
