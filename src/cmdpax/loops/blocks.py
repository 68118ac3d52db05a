"""One pass over a block of rows that is made as it is needed, for a model of many blocks.

Choices and entries of a block are counted from 0, its states from `first` on; vectors over states
are those of the whole model. Plans take `bellman.sweep_block` and `bellman.fill_backup`.

- `step_block`: values of several functions under a policy, in place or into another array;
- `push_block`: the same for visits: what a state has left over goes on to its successors;
- `send_block`: what visits of a block send to all states.

A state's own self-loop is solved for exactly, where states are treated one after another.
"""
# mypy: disable-error-code="no-untyped-def"

import numpy as np

from cmdpax.loops.compiled import compiled


@compiled
def step_block(first, rows, rewards, shares, values, discount, backwards, target, lows, highs):
    """`V_f <- x_f + gamma P_pi V_f` of F functions `rewards [F, k]`, for `values [S, F]`.

    shares: `[k]`, of the policy. backwards: 1 or 0 if target is `values` itself, where self-loops
    are solved for; -1 if it is another array `[S, F]`. lows, highs: `[F]`, the least and the
    largest change so far, in place.
    """
    first_choice, first_entry, successors, probabilities = rows
    n, F = len(first_choice) - 1, rewards.shape[0]
    is_alone = backwards >= 0
    total = np.empty(F)
    for step in range(n):
        i = n - 1 - step if backwards == 1 else step
        s = np.uint32(first + i)
        total[:] = 0.0
        stay = 0.0
        for k in range(first_choice[i], first_choice[i + 1]):
            if shares[k] > 0.0:
                for f in range(F):
                    total[f] += shares[k] * rewards[f, k]
                for e in range(first_entry[k], first_entry[k + 1]):
                    weight = discount * shares[k] * probabilities[e]
                    if is_alone and successors[e] == s:
                        stay += weight
                    else:
                        for f in range(F):
                            total[f] += weight * values[successors[e], f]
        for f in range(F):
            new = total[f] / (1.0 - stay)
            change = new - values[s, f]
            lows[f], highs[f] = min(lows[f], change), max(highs[f], change)
            target[s, f] = new


@compiled
def push_block(first, rows, shares, visits, left, discount, backwards):
    """`nu(s) <- nu(s) + left(s) / (1 - gamma p(s))`, whose successors get the rest; `left(s) = 0`.

    shares: `[k]`, of the policy. visits and left: `[S]`.
    """
    first_choice, first_entry, successors, probabilities = rows
    n = len(first_choice) - 1
    for step in range(n):
        i = n - 1 - step if backwards else step
        s = np.uint32(first + i)
        if left[s] == 0.0:
            continue
        stay = 0.0
        for k in range(first_choice[i], first_choice[i + 1]):
            if shares[k] > 0.0:
                for e in range(first_entry[k], first_entry[k + 1]):
                    if successors[e] == s:
                        stay += shares[k] * probabilities[e]
        gained = left[s] / (1.0 - discount * stay)
        visits[s] += gained
        left[s] = 0.0
        for k in range(first_choice[i], first_choice[i + 1]):
            if shares[k] > 0.0:
                for e in range(first_entry[k], first_entry[k + 1]):
                    if successors[e] != s:
                        left[successors[e]] += discount * gained * shares[k] * probabilities[e]


@compiled
def send_block(first, rows, shares, visits, inflow, discount):
    """`inflow <- inflow + gamma P_pi' nu` of the block's own visits, for `inflow [S]`."""
    first_choice, first_entry, successors, probabilities = rows
    for i in range(len(first_choice) - 1):
        mass = discount * visits[first + i]
        for k in range(first_choice[i], first_choice[i + 1]):
            if shares[k] > 0.0:
                for e in range(first_entry[k], first_entry[k + 1]):
                    inflow[successors[e]] += mass * shares[k] * probabilities[e]
