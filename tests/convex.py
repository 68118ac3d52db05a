"""The best utility by a conic program on occupancies, with Clarabel; no code of the package's."""

import clarabel
import numpy as np
import scipy.sparse as sp


class Program:
    """`maximise gain.x - x'Px/2` over shares of visits d (the first K of x) and helpers."""

    def __init__(self, rows, initial, discount):
        """rows: `[K, S]` dense transitions by choice, with `owner [K]` the state of each."""
        matrix, owner = rows
        self.K, S = matrix.shape
        self.n, self.gain, self.square = self.K, [np.zeros(self.K)], [np.zeros(self.K)]
        self.parts, self.cones = [], []
        flow = (owner[:, None] == np.arange(S)) - discount * matrix
        self.add(flow.T, (1 - discount) * initial, clarabel.ZeroConeT(S), is_slack=False)
        self.add(-np.eye(self.K), np.zeros(self.K), clarabel.NonnegativeConeT(self.K), False)

    def add(self, left, right, cone, is_slack=True):
        """`right - left x` in a cone; with `is_slack`, `left x + right` is."""
        self.parts.append((-left if is_slack else left, right))
        self.cones.append(cone)

    def helper(self, gain=0.0, square=0.0):
        """The index of one more variable."""
        self.gain.append(np.array([gain]))
        self.square.append(np.array([square]))
        self.n += 1
        return self.n - 1

    def cone(self, rows, cone):
        """Rows `({index: factor}, constant)` in a cone; index 'd' stands for all of d."""
        left, right = np.zeros((len(rows), 4096)), np.zeros(len(rows))
        for i, (terms, constant) in enumerate(rows):
            right[i] = constant
            for index, factor in terms.items():
                if index == "d":
                    left[i, : self.K] += factor
                else:
                    left[i, index] += factor
        self.add(left, right, cone)

    def solve(self):
        """The optimum and d."""
        left = sp.vstack([sp.csc_array(_wide(part, self.n)) for part, _ in self.parts])
        right = np.concatenate([part for _, part in self.parts])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
        square = sp.diags_array(np.concatenate(self.square)).tocsc()
        solver = clarabel.DefaultSolver(
            sp.csc_matrix(square),
            -np.concatenate(self.gain),
            sp.csc_matrix(left),
            right,
            self.cones,
            settings,
        )
        answer = solver.solve()
        assert "Solved" in str(answer.status), str(answer.status)
        return -answer.obj_val, np.array(answer.x[: self.K])


def _wide(part, n):
    wide = np.zeros((len(part), n))
    width = min(n, part.shape[1])
    wide[:, :width] = part[:, :width]
    return wide


def best_utility(rows, initial, discount, limits, kind, **settings):
    """The optimum of a ready utility; limits: pairs `(c [K], b)` with `V_c >= b`."""
    program = Program(rows, initial, discount)
    mass = 1 / (1 - discount)
    for c, bound in limits:
        program.cone([({"d": mass * c}, -bound)], clarabel.NonnegativeConeT(1))
    exponential, constant = clarabel.ExponentialConeT, 0.0
    if kind == "linear":
        program.gain[0] += mass * settings["reward"]
    elif kind == "entropy":
        groups = np.eye(program.K)
        if settings["over"] == "states":
            groups = (rows[1] == np.arange(rows[0].shape[1])[:, None]).astype(float)
        for group in groups:
            t = program.helper(1.0)
            program.cone([({t: 1.0}, 0), ({"d": group}, 0), ({}, 1.0)], exponential())
    elif kind in ("kl", "recorded"):
        for k, q in enumerate(settings["visits"]):
            t = program.helper(1.0 if kind == "kl" else q)
            middle, last = ({k: 1.0}, 0), ({}, q)
            if kind == "recorded":
                middle, last = ({}, 1.0), ({k: 1.0}, 0)
                constant -= q * np.log(q)
            program.cone([({t: 1.0}, 0), middle, last], exponential())
    elif kind == "distance":
        program.gain[0] += 2 * settings["visits"]
        program.square[0] += 2.0
        constant = -float((settings["visits"] ** 2).sum())
    elif kind == "fairness":
        for reward in settings["rewards"]:
            value, alpha = ({"d": mass * reward}, 0), settings["alpha"]
            if alpha == 1:
                t = program.helper(1.0)
                program.cone([({t: 1.0}, 0), ({}, 1.0), value], exponential())
            elif alpha == 2:  # -1 / V
                t = program.helper(-1.0)
                program.cone([({t: 1.0}, 0), value, ({}, 1.0)], clarabel.PowerConeT(0.5))
            else:  # 2 sqrt V
                t = program.helper(2.0)
                program.cone([value, ({}, 1.0), ({t: 1.0}, 0)], clarabel.PowerConeT(0.5))
    elif kind == "max_min":
        t = program.helper(1.0)
        for reward in settings["rewards"]:
            program.cone([({"d": mass * reward, t: -1.0}, 0)], clarabel.NonnegativeConeT(1))
    elif kind == "soft_limit":
        excess = program.helper(0.0, settings["penalty"])
        row = {"d": -mass * settings["reward"], excess: 1.0}
        program.cone([(row, settings["most"])], clarabel.NonnegativeConeT(1))
    return program.solve()[0] + constant
