"""Other solvers for a blow-up time, each in desingularised time, dt = ds/sqrt(1 + ‖w‖²).

Every function prepares (compiles) one problem, scaled to about unit size, and returns a call that
gives T*: the time at the first state beyond a size, plus 1/‖w‖ there.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

#: Where the Runge–Kutta codes stop, in units of the start: the rest is known to FAR⁻².
FAR = 1e5
RTOL, ATOL = 1e-9, 1e-12
SPAN, MOST_STEPS = 1e3, 100_000


def heyoka_reduced(q, p, alpha, D) -> Callable[[], float]:
    """heyoka's Taylor integrator, tolerance 1e-16, on the reduced system in the eigenbasis of A.

    It stops at a terminal event, log‖q‖² = log 1e16.
    """
    import heyoka as hy

    scale = float(np.sqrt(q @ q + np.sqrt(p @ p) + np.abs(alpha).max() + abs(D)))
    names = range(len(q))
    x = [hy.expression(f"q{i}") for i in names]
    v = [hy.expression(f"p{i}") for i in names]
    a = (alpha + D) / scale**2
    u = hy.sum([y**2 for y in x])
    speed = 1 / hy.sqrt(1 + u)
    system = [(y, z * speed) for y, z in zip(x, v, strict=True)]
    system += [(z, (2 * u - a[i]) * y * speed) for i, (y, z) in enumerate(zip(x, v, strict=True))]
    system.append((hy.expression("t"), speed))
    start = np.concatenate([q / scale, p / scale**2, [0.0]])
    event = hy.t_event(hy.log(u) - np.log(1e16))
    integrator = hy.taylor_adaptive(
        system, start, t_events=[event], tol=1e-16, compact_mode=len(q) > 16
    )

    def call() -> float:
        integrator.reset_cooldowns()
        integrator.time = 0.0
        integrator.state[:] = start
        integrator.propagate_until(SPAN)
        end = integrator.state
        return float((end[-1] + 1 / np.linalg.norm(end[: len(q)])) / scale)

    return call


def _flat(W_v, W_1, W_2):
    """(w, W_1, W_2, t) as one vector of about unit size, and the scale taken out."""
    theta = np.concatenate([W_v, W_1.ravel(), W_2])
    scale = np.linalg.norm(theta)
    return np.concatenate([theta / scale, [0.0]]), scale


def scipy_full(W_v, W_1, W_2) -> Callable[[], float]:
    """SciPy's DOP853 on the full matrix flow."""
    from scipy.integrate import solve_ivp

    (h, m), (y0, scale) = W_1.shape, _flat(W_v, W_1, W_2)

    def rate(_, y):
        w, first, second = y[:h], y[h : h + h * m].reshape(h, m), y[h + h * m : -1]
        parts = first @ second, np.outer(w, second).ravel(), first.T @ w, [1.0]
        return np.concatenate(parts) / np.sqrt(1 + w @ w)

    def far(_, y):
        return np.log(y[:h] @ y[:h]) - 2 * np.log(FAR)

    far.terminal = True

    def call() -> float:
        found = solve_ivp(rate, (0, SPAN), y0, "DOP853", events=far, rtol=RTOL, atol=ATOL)
        end = found.y[:, -1]
        return float((end[-1] + 1 / np.linalg.norm(end[:h])) / scale)

    return call


def diffrax_full(W_v, W_1, W_2, solver: str) -> Callable[[], float]:
    """diffrax (`Tsit5` or `Dopri8`, PID control of the step) on the full matrix flow."""
    import diffrax

    scale = float(np.sqrt(sum(np.sum(a * a) for a in (W_v, W_1, W_2))))
    y0 = (*(jnp.asarray(a / scale) for a in (W_v, W_1, W_2)), jnp.zeros(()))

    def rate(s, y, args):
        w, first, second, _ = y
        g = 1 / jnp.sqrt(1 + w @ w)
        parts = first @ second, jnp.outer(w, second), first.T @ w, jnp.ones(())
        return tuple(g * part for part in parts)

    def far(t, y, args, **kwargs):
        return jnp.log(y[0] @ y[0]) > 2 * jnp.log(FAR)

    @jax.jit
    def solve(y0):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(rate),
            getattr(diffrax, solver)(),
            t0=0.0,
            t1=SPAN,
            dt0=1e-3,
            y0=y0,
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
            event=diffrax.Event(far),
            max_steps=MOST_STEPS,
        )
        w, t = found.ys[0][-1], found.ys[3][-1]
        return (t + 1 / jnp.linalg.norm(w)) / scale

    return lambda: float(solve(y0))
