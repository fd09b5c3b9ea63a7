"""How time grows with width, samples, tokens, members and saved times: fitted exponents.

    python -m benchmarks.growth [--toy] [--out FOLDER]

`exponent` is the slope of log time over log size at the largest two thirds of the sizes: what small
sizes cost is overhead.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import flowsim as fs
from benchmarks import harness
from benchmarks.blow_up_single import door
from benchmarks.exact_times import short_gaussians
from benchmarks.gradient import problem
from flowsim.ensemble.cache import lanes_for
from flowsim.ensemble.gaussian import block_size, gaussian_chains
from flowsim.ensemble.lanes import blow_up_times

ROUNDS, LIMIT = 9, 1.5
#: n, s, d of the gradient where they do not vary.
SIZES = {"n": 1000, "s": 16, "d": 64}


def weights_of(h: int) -> Callable[[], Any]:
    """T* from h × h weights."""
    return door(short_gaussians(0, h, h))


def eigenbasis_of(h: int) -> Callable[[], Any]:
    """T* of a system in its eigenbasis, in O(h) memory."""
    from flowsim.blow_up import reduced_blow_up_time

    rng = np.random.default_rng(0)
    system = rng.normal(size=h), rng.normal(size=h), np.sort(rng.normal(size=h)), np.float64(-1.0)
    return lambda: float(reduced_blow_up_time(*system).time)


def gradient_of(name: str) -> Callable[[int], Callable[[], Any]]:
    """One gradient of the full model as one size varies."""

    def prepared(size: int) -> Callable[[], Any]:
        sizes = SIZES | {name: size}
        flow, theta = problem(sizes["n"], sizes["s"], sizes["d"])
        rate = jax.jit(lambda flow, theta: flow.rate(0.0, theta))
        return lambda: rate(flow, theta)

    return prepared


def members_of(count: int) -> Callable[[], Any]:
    """T* of so many starts of h = 8."""
    rounded = -(-count // block_size(8, 8)) * block_size(8, 8)
    chains = gaussian_chains(jax.random.key(0), jnp.asarray(0), rounded, 8, 8)
    solve = jax.jit(blow_up_times, static_argnums=2)
    return lambda: solve(chains, jnp.asarray(count), lanes_for(8))


def saved_times_of(count: int) -> Callable[[], Any]:
    """A harmonic oscillator over many steps, saved at so many times."""
    times = np.linspace(0, 100, count)

    def rate(t: Any, y: Any, args: Any) -> Any:
        return jnp.stack([y[1], -y[0]])

    return lambda: fs.integrate(rate, [1.0, 0.0], 100.0, times=times).states


#: What grows: how it is prepared, sizes, toy sizes.
CASES: dict[str, tuple[Callable[[int], Callable[[], Any]], list[int], list[int]]] = {
    "T* from weights, h": (weights_of, [64, 128, 256, 512, 1024], [2, 3]),
    "T* in the eigenbasis, h": (eigenbasis_of, [1000, 10_000, 100_000], [2, 3]),
    "gradient, d": (gradient_of("d"), [64, 128, 256, 512], [4, 8]),
    "gradient, n": (gradient_of("n"), [250, 1000, 4000, 16_000], [4, 8]),
    "gradient, s": (gradient_of("s"), [8, 32, 128, 512], [4, 8]),
    "ensemble of h = 8, members": (members_of, [1000, 10_000, 100_000], [4, 8]),
    "integrate, saved times": (saved_times_of, [100, 10_000, 1_000_000], [4, 8]),
}
#: Those whose toy sizes do not take long to compile.
TOY = ("gradient, n", "integrate, saved times")


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """One row a size, the exponent with each."""
    for case in TOY if toy else CASES:
        prepare, sizes, small = CASES[case]
        yield grown(case, prepare, small if toy else sizes, 1 if toy else ROUNDS)


def grown(case: str, prepare: Callable, sizes: Iterable[int], rounds: int) -> Iterator[harness.Row]:
    """Times at all sizes of one case."""
    calls = {str(size): prepare(size) for size in sizes}
    seconds = list(harness.medians(calls, rounds, LIMIT).values())
    for size, value in zip(sizes, seconds, strict=True):
        yield {
            "problem": case,
            "size": size,
            "ms": 1e3 * value,
            "exponent": exponent(sizes, seconds),
        }


def exponent(sizes: Iterable[int], seconds: Iterable[float]) -> float:
    """Slope of logarithms at the largest two thirds of the sizes, two at least."""
    x, y = np.log(list(sizes)), np.log(list(seconds))
    last = max(2, len(x) - len(x) // 3)
    return float(np.polyfit(x[-last:], y[-last:], 1)[0])


if __name__ == "__main__":
    harness.run("growth", measure, __doc__)
