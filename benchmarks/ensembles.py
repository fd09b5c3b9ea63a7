"""Throughput of ensembles against heyoka's batch mode, a loop of SciPy's DOP853, and diffrax.

    python -m benchmarks.ensembles [--toy] [--out FOLDER]

All solve the same reduced starts, 10³ and 10⁴ of them. heyoka (batch 8, tolerance 1e-16) is timed
in two ways: as the Garnier system in desingularised time, in one call, to beyond ‖q‖ = 1e5, which
is what a user without section 5 of theory.md would do; and helped, step by step, until T* can be
read off its own Taylor coefficients by the rule of the lanes (at h = 8 that reading, in NumPy,
takes a good part of its time). SciPy and a plain `vmap` of diffrax's Dopri8 solve the full flow
(w, W_1, W_2) in desingularised time at rtol 3e-14, the largest (in steps of √10) at which they err
by less than 1e-14, as the others do. Peers solve a sample (`members`). `ms` are milliseconds of
processor time a member, of one core, so that a busy machine does not count; compilation is left
out. All run on one core (a census gives each core a device of its own).
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import blow_up_peers as peers
from benchmarks import harness
from flowsim.ensemble.cache import lanes_for
from flowsim.ensemble.chain import dense
from flowsim.ensemble.gaussian import bidiagonal_weights, block_size, gaussian_chains
from flowsim.ensemble.lanes import blow_up_times

BATCH = 8
TARGET = 1e5
#: Desingularised time in which every member of unit size gets beyond TARGET.
FAR = 20.0
RTOL = 3e-14
WIDTHS, COUNTS = (64, 8), (1_000, 10_000)
#: Members that peers solve, by width.
HEYOKA, SCIPY, DIFFRAX = 400, 8, {64: 8, 8: 200}


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU time of a call, in this process."""
    start = time.process_time()
    jax.block_until_ready(call())
    return time.process_time() - start


def starts(h: int, count: int):
    """The chains, and the same in eigenbases of A: q, q̇, α + D."""
    rounded = -(-count // block_size(h, h)) * block_size(h, h)
    chains = gaussian_chains(jax.random.key(0), jnp.asarray(0), rounded, h, h)
    return jax.tree.map(lambda x: x[:count], chains)


def in_eigenbases(chains, members):
    """q, q̇ and a = α + D of some members, each scaled to ‖θ‖ of about one (and the scale)."""
    found = []
    for i in members:
        system = dense(jax.tree.map(lambda x: x[i], chains))  # noqa: B023
        alpha, U = np.linalg.eigh(np.asarray(system.curvature[0]))
        scale = np.sqrt(np.abs(alpha).max())
        q, p = U.T @ system.position[0] / scale, U.T @ system.velocity[0] / scale**2
        found.append((q, p, (alpha + float(system.shift)) / scale**2, scale))
    return [np.array(x) for x in zip(*found, strict=True)]


def heyoka_integrator(h: int, desingularised: bool):
    """A batch integrator of the Garnier system; a = α + D are its parameters."""
    import heyoka as hy

    q, p = hy.make_vars(*(f"q{i}" for i in range(h))), hy.make_vars(*(f"p{i}" for i in range(h)))
    q, p = (list(q), list(p)) if h > 1 else ([q], [p])
    u = hy.sum([x**2 for x in q])
    speed = 1 / hy.sqrt(1 + u) if desingularised else hy.expression(1.0)
    system = [(x, y * speed) for x, y in zip(q, p, strict=True)]
    system += [
        (y, (2 * u - hy.par[i]) * x * speed) for i, (x, y) in enumerate(zip(q, p, strict=True))
    ]
    if desingularised:
        system.append((hy.make_vars("t"), speed))
    state = np.zeros((len(system), BATCH))
    parameters = np.ones((h, BATCH))
    return hy.taylor_adaptive_batch(
        system, state, pars=parameters, tol=1e-16, compact_mode=h > 16, high_accuracy=False
    )


def set_start(integrator, q, p, a) -> None:
    h = q.shape[1]
    integrator.state[:h], integrator.state[h : 2 * h] = q.T, p.T
    integrator.state[2 * h :] = 0
    integrator.pars[:] = a.T
    integrator.set_time(0.0)


def heyoka_far(integrator, q, p, a) -> np.ndarray:
    """T* by going on far, in one call: t + ‖q‖²/(q·q̇) at the end."""
    set_start(integrator, q, p, a)
    integrator.propagate_until([FAR] * BATCH)
    h = q.shape[1]
    x, v = integrator.state[:h], integrator.state[h : 2 * h]
    u = np.sum(x * x, axis=0)
    assert np.all(u > TARGET**2)
    return integrator.state[2 * h] + u / np.sum(x * v, axis=0)


def heyoka_helped(integrator, q, p, a) -> np.ndarray:
    """T* read off the coefficients as soon as the last ratios agree."""
    set_start(integrator, q, p, a)
    h = q.shape[1]
    found, begin = np.full(BATCH, np.nan), np.zeros(BATCH)
    while np.any(np.isnan(found)):
        E = np.sum(integrator.state[:h] * integrator.state[h : 2 * h], axis=0)
        integrator.step(write_tc=True)
        last = integrator.tc[:h, -4:]
        along = np.einsum("hnb,hb->nb", last, last[:, -1])
        ratios = along[:-1] / along[1:]
        tau = ratios[-1]
        spread = np.abs(ratios - tau).max(axis=0)
        arrived = (tau > 0) & (E > 0) & (spread <= 1e-15 * (begin + tau)) & np.isnan(found)
        found = np.where(arrived, begin + tau, found)
        begin = np.array(integrator.time)
    return found


def heyoka_seconds(h: int, data, rounds: int) -> dict[str, tuple[float, np.ndarray]]:
    """CPU seconds a member, and the times, of both ways."""
    q, p, a, scale = data
    found = {}
    for name, far, solve in (("far", True, heyoka_far), ("helped", False, heyoka_helped)):
        integrator = heyoka_integrator(h, far)
        batches = [slice(i, i + BATCH) for i in range(0, len(q), BATCH)]
        times = [solve(integrator, q[b], p[b], a[b]) for b in batches]

        def call(solve=solve, integrator=integrator, batches=batches):
            for b in batches:
                solve(integrator, q[b], p[b], a[b])

        seconds = statistics.median(cpu_seconds(call) for _ in range(rounds)) / len(q)
        found[name] = (seconds, np.concatenate(times) / scale)
    return found


def full_problems(h: int, count: int) -> list[peers.Problem]:
    """The full flow of the first starts."""
    found = []
    for i in range(count):
        key = jax.random.fold_in(jax.random.key(0), i)
        w, d, e, last = (np.asarray(x) for x in bidiagonal_weights(key, h, h))
        W_1 = np.diag(d) + np.diag(e[:-1], 1)
        found.append(peers.full_flow(w, W_1, last * np.eye(h)[0]))
    return found


def scipy_seconds(h: int, sample: int) -> tuple[float, np.ndarray]:
    """CPU seconds a member, and the times, of a loop of DOP853."""
    solvers = [peers.by_scipy(problem, "DOP853") for problem in full_problems(h, sample)]
    times: list[float] = []
    seconds = cpu_seconds(lambda: times.extend(solve(RTOL) for solve in solvers))
    return seconds / sample, np.array(times)


def diffrax_seconds(h: int, sample: int, rounds: int) -> tuple[float, np.ndarray]:
    """CPU seconds a member, and the times, of a plain `vmap` of Dopri8."""
    problems = full_problems(h, sample)
    solve = jax.jit(jax.vmap(peers.diffrax_solve(problems[0], "Dopri8"), in_axes=(0, None)))
    starts = jnp.asarray(np.stack([problem.start for problem in problems]))
    ends = np.asarray(solve(starts, RTOL))
    seconds = statistics.median(cpu_seconds(lambda: solve(starts, RTOL)) for _ in range(rounds))
    times = [problem.blow_up(end) for problem, end in zip(problems, ends, strict=True)]
    return seconds / sample, np.array(times)


def our_seconds(h: int, count: int, rounds: int) -> tuple[float, np.ndarray]:
    """CPU seconds a member, and the times, of the lanes."""
    chains, lanes = starts(h, count), lanes_for(h)
    solve = jax.jit(blow_up_times, static_argnums=2)

    def call() -> Any:
        return solve(chains, jnp.asarray(count), lanes)

    times = np.asarray(call().time)
    return statistics.median(cpu_seconds(call) for _ in range(rounds)) / count, times


def rows_of(
    h: int, counts: tuple[int, ...], sizes: tuple[int, int, int], rounds: int
) -> Iterator[harness.Row]:
    """One width: our lanes at every count, then samples by heyoka in both ways, diffrax, SciPy."""
    in_batches, looped, mapped = sizes
    problem = f"ensemble of h = {h}, a start"
    ours = [our_seconds(h, count, rounds) for count in counts]
    times, mine = ours[-1][1], ours[-1][0]
    found = {f"flowsim ({n})": (s, t) for n, (s, t) in zip(counts, ours, strict=True)}
    why = harness.missing("heyoka")
    if why is None:
        data = in_eigenbases(starts(h, in_batches), range(in_batches))
        heyoka = heyoka_seconds(h, data, rounds)
        found |= {f"heyoka batch, {name}": pair for name, pair in heyoka.items()}
    found["diffrax vmap Dopri8"] = diffrax_seconds(h, mapped, rounds)
    found["DOP853 in a loop"] = scipy_seconds(h, looped)
    for name, (seconds, theirs) in found.items():
        size = len(theirs)
        yield {
            "problem": problem,
            "solver": name,
            "members": size,
            "ms": 1e3 * seconds,
            "times ours": seconds / mine,
            "largest difference": float(np.max(np.abs(theirs[: len(times)] / times[:size] - 1))),
        }
    if why is not None:
        yield harness.left_out(problem, "heyoka batch", why)


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """All rows, by width."""
    if toy:
        yield rows_of(2, (16,), (8, 1, 4), 1)
        return
    for h in WIDTHS:
        yield rows_of(h, COUNTS, (HEYOKA, SCIPY, DIFFRAX[h]), 3)


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):  # before JAX makes its threads
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    harness.run("ensembles", measure, __doc__)
