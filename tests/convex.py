"""The best utility by a conic program on occupancies, with Clarabel; no code of the package's."""

import clarabel
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla


class Program:
    """`maximise gain.x - x'Px/2` over shares of visits d (the first K of x) and helpers."""

    def __init__(self, rows, initial, discount):
        """rows: `[K, S]` transitions by choice, sparse or dense, and `owner [K]`, their states."""
        matrix, owner = sp.csr_array(rows[0]), rows[1]
        self.K, S = matrix.shape
        self.n, self.gain, self.square = self.K, np.zeros(self.K), np.zeros(self.K)
        self.parts, self.cones, each = [], [], np.arange(self.K)
        leaves = sp.csr_array((np.ones(self.K), (each, owner)), shape=(self.K, S))
        flow, right = (leaves - discount * matrix).T, (1 - discount) * initial
        self.parts += [(-flow, right), (sp.eye_array(self.K), np.zeros(self.K))]
        self.cones += [clarabel.ZeroConeT(S), clarabel.NonnegativeConeT(self.K)]

    def helpers(self, count, gain=0.0, square=0.0):
        """The indices of so many more variables."""
        self.gain = np.append(self.gain, np.broadcast_to(gain, count))
        self.square = np.append(self.square, np.broadcast_to(square, count))
        self.n += count
        return np.arange(self.n - count, self.n)

    def cone(self, rows, cones):
        """Rows `(indices, factors, constant)` of `factors.x + constant`, in cones."""
        lengths = [len(row[0]) for row in rows]
        place = np.repeat(np.arange(len(rows)), lengths)
        indices = np.concatenate([np.asarray(row[0], dtype=int) for row in rows])
        factors = np.concatenate([np.asarray(row[1], dtype=float) for row in rows])
        left = sp.coo_array((factors, (place, indices)), shape=(len(rows), self.n))
        self.parts.append((left, np.array([row[2] for row in rows], dtype=float)))
        self.cones += cones

    def solve(self, accuracy):
        """The best d."""
        wide = [sp.coo_array(part) for part, _ in self.parts]
        wide = [sp.coo_array((w.data, w.coords), shape=(w.shape[0], self.n)) for w in wide]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
        solver = clarabel.DefaultSolver(
            sp.csc_matrix(sp.diags_array(self.square)),
            -self.gain,
            sp.csc_matrix(-sp.vstack(wide)),
            np.concatenate([part for _, part in self.parts]),
            self.cones,
            settings,
        )
        answer = solver.solve()
        assert str(answer.status) == "Solved", str(answer.status)  # and not "AlmostSolved"
        return np.array(answer.x[: self.K])


def best_utility(rows, initial, discount, limits, kind, **settings):
    """The value of the best policy for a ready utility, and its margins `[m]`.

    limits: pairs `(c [K], b)` with `V_c >= b`.
    """
    d = best_shares(rows, initial, discount, limits, kind, **settings)
    return attained(d, rows, initial, discount, limits, kind, **settings)


def attained(d, rows, initial, discount, limits, kind, **settings):
    """The same of the policy of shares `[K]`, some of which may be a little below 0.

    What a conic solver says of itself is off by as many residuals as there are cones.
    """
    matrix, owner = sp.csr_array(rows[0]), rows[1]
    d, S = np.maximum(d, 1e-300), matrix.shape[1]
    policy = d / np.bincount(owner, d, S)[owner]
    chosen = sp.csr_array((policy, (owner, np.arange(len(d)))), shape=(S, len(d)))
    system = sp.csc_array(sp.eye_array(S) - discount * (chosen @ matrix).T)
    own = spla.spsolve(system, (1 - discount) * initial)[owner] * policy
    mass = 1 / (1 - discount)
    margins = np.array([mass * float(c @ own) - bound for c, bound in limits])
    return worth(own, kind, mass, owner, **settings), margins


def best_shares(rows, initial, discount, limits, kind, *, accuracy=1e-10, **settings):
    """What Clarabel finds, `[K]`."""
    program = Program(rows, initial, discount)
    mass, K, none = 1 / (1 - discount), program.K, ([], [])
    everything, positive = np.arange(K), clarabel.NonnegativeConeT
    if limits:
        own = [(everything, mass * c, -bound) for c, bound in limits]
        program.cone(own, [positive(len(limits))])
    exponential = clarabel.ExponentialConeT
    if kind == "linear":
        program.gain[:K] += mass * settings["reward"]
    elif kind == "entropy":
        groups = [[k] for k in everything]
        if settings["over"] == "states":
            groups = [list(group) for group in np.split(everything, _starts(rows[1]))]
        together = []
        for t, group in zip(program.helpers(len(groups), 1.0), groups, strict=True):
            together += [([t], [1.0], 0), (group, np.ones(len(group)), 0), (*none, 1.0)]
        program.cone(together, [exponential() for _ in groups])
    elif kind in ("kl", "recorded"):
        q = np.asarray(settings["visits"])
        together = []
        for k, t in enumerate(program.helpers(K, 1.0 if kind == "kl" else q)):
            own = ([k], [1.0], 0)
            pair = [own, (*none, q[k])] if kind == "kl" else [(*none, 1.0), own]
            together += [([t], [1.0], 0), *pair]
        program.cone(together, [exponential() for _ in everything])
    elif kind == "distance":
        program.gain[:K] += 2 * settings["visits"]
        program.square[:K] += 2.0
    elif kind == "fairness":
        alpha, one = settings["alpha"], (*none, 1.0)
        for reward in settings["rewards"]:
            value = (everything, mass * reward, 0)
            gain = {1: 1.0, 2: -1.0}.get(alpha, 2.0)  # log V, -1 / V, 2 sqrt V
            t = ([int(program.helpers(1, gain)[0])], [1.0], 0)
            if alpha == 1:
                program.cone([t, one, value], [exponential()])
            elif alpha == 2:
                program.cone([t, value, one], [clarabel.PowerConeT(0.5)])
            else:
                program.cone([value, one, t], [clarabel.PowerConeT(0.5)])
    elif kind == "max_min":
        (t,) = program.helpers(1, 1.0)
        for reward in settings["rewards"]:
            row = np.append(everything, t), np.append(mass * reward, -1.0), 0
            program.cone([row], [positive(1)])
    elif kind == "soft_limit":
        (excess,) = program.helpers(1, 0.0, settings["penalty"])
        row = np.append(everything, excess), np.append(-mass * settings["reward"], 1.0)
        program.cone([(*row, settings["most"])], [positive(1)])
    return program.solve(accuracy)


def worth(d, kind, mass, owner, **settings):
    """A ready utility at shares `[K]`, as one would write it down."""
    q = settings.get("visits")
    if kind == "entropy":
        own = np.bincount(owner, d) if settings["over"] == "states" else d
        return -float((own * np.log(own)).sum())
    if kind in ("kl", "recorded"):
        return float((d * np.log(q / d) if kind == "kl" else q * np.log(d / q)).sum())
    if kind == "distance":
        return -float(((d - q) ** 2).sum())
    if kind in ("linear", "soft_limit"):
        V = mass * float(settings["reward"] @ d)
        if kind == "linear":
            return V
        return -settings["penalty"] / 2 * max(V - settings["most"], 0.0) ** 2
    V = mass * np.array(settings["rewards"]) @ d
    if kind == "max_min":
        return float(V.min())
    power = 1 - settings["alpha"]
    return float(np.log(V).sum() if power == 0 else (V**power / power).sum())


def _starts(owner):
    """Where the choices of every state but the first begin."""
    return np.nonzero(np.diff(owner))[0] + 1
