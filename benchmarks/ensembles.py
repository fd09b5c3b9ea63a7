"""Throughput of ensembles against heyoka's batch mode and SciPy's DOP853.

    python benchmarks/ensembles.py [--count 10000] [--widths 64,8] [--rounds 3]

All solve the same reduced starts. heyoka (batch 8, tolerance 1e-16, one process a core) is timed in
two ways: as the Garnier system in desingularised time, in one call, to beyond ‖q‖ = 1e5, which is
what a user without section 5 of theory.md would do; and helped, step by step, until T* can
be read off its own Taylor coefficients by the rule of the lanes (at h = 8 that reading, in NumPy,
takes a good part of its time). SciPy solves the full flow
(w, W_1, W_2) in desingularised time at rtol 1e-12, on a sample. Figures are CPU seconds a member
of one core, so that a busy machine does not count; compilation is left out.
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from flowsim.ensemble.cache import lanes_for
from flowsim.ensemble.chain import dense
from flowsim.ensemble.gaussian import bidiagonal_weights, block_size, gaussian_chains
from flowsim.ensemble.lanes import blow_up_times
from flowsim.report import markdown_table

BATCH = 8
TARGET = 1e5
#: Desingularised time in which every member of unit size gets beyond TARGET.
FAR = 20.0


def cpu_seconds(call) -> float:
    """CPU time of a call, in this process."""
    start = time.process_time()
    call()
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


def scipy_seconds(h: int, sample: int) -> float:
    """CPU seconds a member of DOP853 on the full flow, in desingularised time."""
    from scipy.integrate import solve_ivp

    def rate(s, y):
        w, W_1, W_2 = y[:h], y[h : h + h * h].reshape(h, h), y[h + h * h : -1]
        parts = W_1 @ W_2, np.outer(w, W_2).ravel(), W_1.T @ w, [1.0]
        return np.concatenate(parts) / np.sqrt(1 + w @ w)

    starts = []
    for i in range(sample):
        key = jax.random.fold_in(jax.random.key(0), i)
        w, d, e, last = (np.asarray(x) for x in bidiagonal_weights(key, h, h))
        W_1 = np.diag(d) + np.diag(e[:-1], 1)
        starts.append(np.concatenate([w, W_1.ravel(), last * np.eye(h)[0], [0.0]]))

    def far(s, y):
        return y[:h] @ y[:h] - (TARGET * h) ** 2

    far.terminal = True

    def call():
        for y in starts:
            scale = np.linalg.norm(y)
            solve_ivp(rate, (0, 100), y / scale, "DOP853", rtol=1e-12, atol=1e-14, events=far)

    return cpu_seconds(call) / sample


def row(h: int, count: int, rounds: int, peers: int) -> dict:
    """One width: the lanes, heyoka in both ways, SciPy."""
    chains, lanes = starts(h, count), lanes_for(h)
    solve = jax.jit(blow_up_times, static_argnums=2)
    times = np.asarray(jax.block_until_ready(solve(chains, jnp.asarray(count), lanes)).time)
    data = in_eigenbases(chains, range(min(peers, count)))
    ours, theirs = [], []
    for _ in range(rounds):
        call = lambda: jax.block_until_ready(solve(chains, jnp.asarray(count), lanes))  # noqa: E731
        ours.append(cpu_seconds(call) / count)
        theirs.append(heyoka_seconds(h, data, 1))
    mine = statistics.median(ours)
    far, helped = (statistics.median(t[name][0] for t in theirs) for name in ("far", "helped"))
    scipy = scipy_seconds(h, 2)
    compared = {
        name: np.abs(theirs[0][name][1] / times[: len(data[0])] - 1).max() for name in theirs[0]
    }
    return {
        "h": h,
        "lanes": lanes,
        "us a member (core)": 1e6 * mine,
        "heyoka far / ours": far / mine,
        "heyoka helped / ours": helped / mine,
        "DOP853 / ours": scipy / mine,
        "difference (far)": compared["far"],
        "difference (helped)": compared["helped"],
    }


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--widths", default="64,8")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=int, default=400, help="members that heyoka solves")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    widths = [int(h) for h in options.widths.split(",")]
    print(markdown_table([row(h, options.count, options.rounds, options.peers) for h in widths]))


if __name__ == "__main__":
    main()
