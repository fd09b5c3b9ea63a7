"""Slow independent oracles: Taylor series in many digits, and SciPy on the full matrix flow."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from scipy.integrate import solve_ivp

DIGITS = 34
ORDER = 36


def exact_blow_up_time(W_v, W_1, W_2):
    """T* to about twenty digits: 34-digit Taylor series of the reduced system until ‖w‖ = 1e14.

    The rest is closed by 1/‖w‖, whose relative error is ‖w‖⁻². Takes the floats as exact.
    """
    with localcontext() as context:
        context.prec = DIGITS
        w, W_1, W_2 = (_exact(a) for a in (W_v, W_1, W_2))
        if w @ w > W_2 @ W_2:  # the larger system would amplify the truncation error
            w, W_1, W_2 = W_2, W_1.T, w
        A = np.outer(w, w) - W_1 @ W_1.T
        D = w @ w - W_2 @ W_2
        q, p, time = w, W_1 @ W_2, Decimal(0)
        while (size := (q @ q).sqrt()) < 10**14:
            q, p, step = _taylor_step(q, p, A, D)
            time += step
        return Fraction(time + 1 / size)


def _exact(values):
    return np.vectorize(Decimal, otypes=[object])(np.asarray(values, float))


def _taylor_step(q, p, A, D):
    a = np.array([q, p] + [0 * q] * (ORDER - 1))
    squares = np.zeros(ORDER, object)
    for k in range(ORDER - 1):
        back = a[k::-1] if k else a[:1]
        squares[k] = (a[: k + 1] * back).sum()
        a[k + 2] = (2 * (squares[: k + 1] @ back) - D * a[k] - A @ a[k]) / ((k + 1) * (k + 2))
    sizes = np.abs(a).max(axis=1)
    scale = max(sizes[0], sizes[1] / 1000)
    ratios = [(scale / sizes[k]) ** (1 / Decimal(k)) for k in (ORDER - 1, ORDER) if sizes[k]]
    step = min(ratios) / 4
    position = velocity = 0 * q
    for term in reversed(list(a)):
        velocity = velocity * step + position
        position = position * step + term
    return position, velocity, step


def integrated_blow_up_time(W_v, W_1, W_2, rtol=1e-12):
    """T* by SciPy's DOP853 on the full matrix flow in desingularised time, dt = ds/‖θ‖."""
    h, m = W_1.shape

    def rate(_, y):
        w, first, second = y[:h], y[h : -m - 1].reshape(h, m), y[-m - 1 : -1]
        moved = np.concatenate([first @ second, np.outer(w, second).ravel(), first.T @ w, [1.0]])
        return moved / np.sqrt(1 + y[:-1] @ y[:-1])

    y0 = np.concatenate([W_v, W_1.ravel(), W_2, [0.0]])

    def large(_, y):
        return np.log(1 + y[:h] @ y[:h]) - 2 * np.log(1e7)

    large.terminal = True
    solution = solve_ivp(rate, (0, 1e4), y0, "DOP853", events=large, rtol=rtol, atol=1e-13)
    end = solution.y[:, -1]
    return end[-1] + 1 / np.linalg.norm(end[:h])
