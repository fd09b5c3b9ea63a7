"""Other solvers for a blow-up time, each in desingularised time, dt = ds/sqrt(1 + ‖w‖²).

A `Problem`, scaled to about unit size, is prepared for a solver; the call that comes back takes a
relative tolerance and gives T*: the time at the first state with ‖w‖ beyond FAR, plus 1/‖w‖ there.
What is compiled is compiled by the first call.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

#: Where these codes stop, in units of the start: the rest is known to FAR⁻³.
FAR = 1e5
RTOL, ATOL_OVER_RTOL = 1e-9, 1e-3
SPAN, MOST_STEPS = 1e3, 100_000


#: T* at a relative tolerance.
Solver = Callable[..., float]


class Problem(NamedTuple):
    """dy/ds of y = (w, …, t) for a module `xp` of arrays (NumPy, jax.numpy, torch)."""

    rate: Callable[[Any, Any], Any]
    start: np.ndarray
    #: The first entries of y, whose norm grows.
    rows: int
    scale: float

    def far(self, y: Any, xp: Any = np) -> Any:
        """log(‖w‖²/FAR²)."""
        w = y[: self.rows]
        return xp.log(w @ w) - 2 * float(np.log(FAR))

    def blow_up(self, y: Any) -> float:
        """T* from a far state."""
        return float((y[-1] + 1 / np.linalg.norm(y[: self.rows])) / self.scale)


def full_flow(W_v, W_1, W_2) -> Problem:
    """The full matrix flow, h + hm + m unknowns, in coordinates that anyone would take."""
    (h, m), theta = W_1.shape, np.concatenate([W_v, W_1.ravel(), W_2])
    scale = np.linalg.norm(theta)

    def rate(y, xp):
        w, first, second = y[:h], y[h : h + h * m].reshape(h, m), y[h + h * m : -1]
        parts = [first @ second, xp.outer(w, second).reshape(-1), first.T @ w, xp.ones_like(y[:1])]
        return xp.concatenate(parts) / xp.sqrt(1 + w @ w)

    return Problem(rate, np.append(theta / scale, 0.0), h, scale)


def reduced_system(q, p, alpha, D) -> Problem:
    """The Garnier system q̈ = (2‖q‖² − α − D) q (theory.md, section 4) in the eigenbasis of A:
    2h unknowns, for a user who knows of it."""
    scale = float(np.sqrt(q @ q + np.sqrt(p @ p) + np.abs(alpha).max() + abs(D)))
    h, a = len(q), (alpha + D) / scale**2

    def rate(y, xp):
        x, v = y[:h], y[h : 2 * h]
        u = x @ x
        parts = [v, (2 * u - xp.asarray(a)) * x, xp.ones_like(y[:1])]
        return xp.concatenate(parts) / xp.sqrt(1 + u)

    return Problem(rate, np.concatenate([q / scale, p / scale**2, [0.0]]), h, scale)


def by_scipy(problem: Problem, method: str) -> Solver:
    """SciPy's `solve_ivp`; implicit methods difference their Jacobian themselves."""
    from scipy.integrate import solve_ivp

    def far(_, y):
        return problem.far(y)

    far.terminal = True

    def call(rtol: float = RTOL) -> float:
        found = solve_ivp(
            lambda _, y: problem.rate(y, np), (0, SPAN), problem.start, method, events=far,
            rtol=rtol, atol=ATOL_OVER_RTOL * rtol,
        )  # fmt: skip
        return problem.blow_up(found.y[:, -1])

    return call


def by_sundials(problem: Problem, method: str) -> Solver:
    """SUNDIALS' CVODE through scikit-sundae: "Adams", or "BDF" with a dense Jacobian."""
    from sksundae.cvode import CVODE

    def rate(_, y, out):
        out[:] = problem.rate(y, np)

    def far(_, y, events):
        events[0] = problem.far(y)

    def call(rtol: float = RTOL) -> float:
        solver = CVODE(
            rate, method=method, rtol=rtol, atol=ATOL_OVER_RTOL * rtol, max_num_steps=MOST_STEPS,
            eventsfn=far, num_events=1, **_matrix_free(method),
        )  # fmt: skip
        return problem.blow_up(solver.solve([0.0, SPAN], problem.start).y[-1])

    return call


def _matrix_free(method: str) -> dict[str, Any]:
    """Adams' nonlinear equations are solved without a dense Jacobian of the full flow."""
    return {"linsolver": "gmres"} if method == "Adams" else {}


def by_diffrax(problem: Problem, solver: str) -> Solver:
    """diffrax with PID control of the step, compiled."""
    solve, start = jax.jit(diffrax_solve(problem, solver)), jnp.asarray(problem.start)
    return lambda rtol=RTOL: problem.blow_up(np.asarray(solve(start, rtol)))


def diffrax_solve(problem: Problem, solver: str) -> Callable[[Any, Any], Any]:
    """The far state from a start at a tolerance, for `jit` and `vmap`."""
    import diffrax

    def far(t, y, args, **kwargs):
        return problem.far(y, jnp) > 0

    def solve(y0, rtol):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda s, y, args: problem.rate(y, jnp)),
            getattr(diffrax, solver)(),
            t0=0.0,
            t1=SPAN,
            dt0=1e-3,
            y0=y0,
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=ATOL_OVER_RTOL * rtol),
            event=diffrax.Event(far),
            max_steps=MOST_STEPS,
        )
        return found.ys[-1]

    return solve


def by_torchdiffeq(problem: Problem, method: str) -> Solver:
    """torchdiffeq's Runge–Kutta methods with its own search for the event, uncompiled.

    On one thread: more gain nothing at these sizes, and wait in loops that slow the others.
    """
    import torch
    from torchdiffeq import odeint_event

    torch.set_num_threads(1)
    start = torch.tensor(problem.start)

    def call(rtol: float = RTOL) -> float:
        settings = {"method": method, "rtol": rtol, "atol": ATOL_OVER_RTOL * rtol}
        with torch.no_grad():
            _, states = odeint_event(
                lambda s, y: problem.rate(y, torch), start, torch.zeros((), dtype=start.dtype),
                event_fn=lambda s, y: problem.far(y, torch), **settings,
            )  # fmt: skip
        return problem.blow_up(states[-1].numpy())

    return call


def by_heyoka(q, p, alpha, D) -> Solver:
    """heyoka's Taylor integrator on the reduced system in the eigenbasis of A.

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

    @cache
    def compiled(tol):
        settings = {"t_events": [event], "tol": tol, "compact_mode": len(q) > 16}
        return hy.taylor_adaptive(system, start, **settings)

    def call(tol: float = 1e-16) -> float:
        integrator = compiled(tol)
        integrator.reset_cooldowns()
        integrator.time = 0.0
        integrator.state[:] = start
        integrator.propagate_until(SPAN)
        end = integrator.state
        return float((end[-1] + 1 / np.linalg.norm(end[: len(q)])) / scale)

    return call
