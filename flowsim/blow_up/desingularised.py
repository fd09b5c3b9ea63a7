"""Any vector field in desingularised time, in which growth towards a blow-up takes for ever."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.integrate.scales import norm, rms

#: Where nothing moves, a unit of s still is no more than this multiple of the time elapsed.
FASTEST = 10
#: The averages rise e-fold in a unit of s and fade so many times more slowly.
FADING = 8


class Clock(eqx.Module):
    """Time as an origin and what has elapsed since, in two parts: T − t keeps its digits."""

    origin: Float[Array, ""]
    elapsed: Float[Array, ""]
    rest: Float[Array, ""]

    def time(self, t: Any) -> Float[Array, ""]:
        """The user's time at an offset t from now."""
        return self.origin + self.since_start(t)

    def since_start(self, t: Any) -> Float[Array, ""]:
        """What has elapsed at an offset t from now."""
        return self.elapsed + (self.rest + t)

    def advanced(self, t: Any) -> "Clock":
        """The clock an offset t later; the rounding error of the sum goes to the small part."""
        step = self.rest + t
        total = self.elapsed + step
        back = total - self.elapsed
        error = (self.elapsed - (total - back)) + (step - back)
        return Clock(self.origin, total, error)


class Surroundings(eqx.Module):
    """The arguments of the desingularised field."""

    clock: Clock
    unit: Float[Array, ""]  # time scale of the start
    span: Float[Array, ""]  # t1 − t0
    args: Any


class Place(eqx.Module):
    """The state in desingularised time: the offset from the clock, the user's state, and the
    logarithms of fading averages of ‖y‖, ‖ẏ‖ and the pace 1/g."""

    t: Float[Array, ""]
    y: Any
    log_sizes: Float[Array, "3"]


class Motion(eqx.Module):
    """ẏ, ÿ and the norms of y, ẏ, ÿ at one place."""

    rate: Any
    bend: Any
    norms: Float[Array, "3"]

    def growth(self) -> Float[Array, ""]:
        """d log‖ẏ‖/dt = ẏ·ÿ/‖ẏ‖², which is (p + 1)/(T − t) near a blow-up."""
        speed = jnp.where(self.norms[1] > 0, self.norms[1], 1)
        unit = jax.tree.map(lambda x: x / speed, self.rate)
        return inner(unit, jax.tree.map(lambda x: x / speed, self.bend))

    def log_gain(self, distance: Any) -> Float[Array, ""]:
        """log d(x·ẏ)/dt, x the distance that y has come from somewhere; x·ẏ feels no rotation."""
        speed = jnp.where(self.norms[1] > 0, self.norms[1], 1)
        far, bend = (jax.tree.map(lambda x: x / speed, tree) for tree in (distance, self.bend))
        return 2 * jnp.log(speed) + jnp.log(1 + inner(far, bend))


def inner(first: Any, second: Any) -> Float[Array, ""]:
    """The scalar product over all leaves."""
    products = jax.tree.map(lambda a, b: jnp.sum(a * b), first, second)
    return jnp.stack(jax.tree.leaves(products)).sum()


def motion(rate: Callable, t: Any, y: Any, args: Any) -> Motion:
    """ẏ and ÿ = ∂f/∂t + (∂f/∂y) f; an ÿ that is not finite (f = √|y| at 0) counts as zero."""
    speed = rate(t, y, args)
    _, bend = jax.jvp(lambda t, y: rate(t, y, args), (t, y), (jnp.ones_like(t), speed))
    bend = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0), bend)
    return Motion(speed, bend, jnp.stack([norm(y), norm(speed), norm(bend)]))


class Desingularised(eqx.Module):
    """dt/ds = g, dy/ds = g f(t, y), 1/g the root mean square of ⟨r⟩ and r,

        r² = (‖ẏ‖/⟨‖y‖⟩)² + (‖ÿ‖/⟨‖ẏ‖⟩)² + …

    Near a blow-up g is proportional to T − t whether ‖y‖ grows algebraically or as a logarithm
    (then ‖ẏ‖ ~ 1/(T − t)), so that T − t falls like an exponential of s and no step can pass T.
    ⟨·⟩ are fading averages, d log⟨a⟩/ds = (a² − ⟨a⟩²)/(a² + c⟨a⟩²): they keep g positive and even
    where a component or its rate passes through zero; the dots limit g to t1 − t0 and to ten times
    the time elapsed. Nothing here has a scale of its own.
    """

    rate: Callable

    def __call__(self, s: Any, place: Place, around: Surroundings) -> Place:
        """The derivative with respect to s."""
        moving = motion(self.rate, around.clock.time(place.t), place.y, around.args)
        here = pace(moving, place, around)
        g = time_scale(here, place)
        square = (jnp.append(moving.norms[:2], here) * jnp.exp(-place.log_sizes)) ** 2
        lag = (square - 1) / (square + FADING)
        return Place(g, jax.tree.map(lambda f: g * f, moving.rate), lag)


def pace(moving: Motion, place: Place, around: Surroundings) -> Float[Array, ""]:
    """r, how fast the solution changes here in its own measure."""
    faded = jnp.exp(-place.log_sizes[:2])
    sizes = jnp.sqrt(1 + (moving.norms[:2] * faded) ** 2)
    ratios = (moving.norms[1:] * faded) / sizes
    idle = jnp.stack([around.unit + FASTEST * around.clock.since_start(place.t), around.span])
    return norm(jnp.concatenate([ratios, 1 / idle]))


def time_scale(pace: Any, place: Place) -> Float[Array, ""]:
    """g, the local time scale of the solution."""
    return 1 / rms(jnp.stack([pace, jnp.exp(place.log_sizes[2])]))


def start(moving: Motion, t0: Any, y0: Any, span: Any, args: Any) -> tuple[Place, Surroundings]:
    """The start, at which zero sizes are replaced by what the other derivatives suggest.

    A start where y, ẏ and ÿ all vanish has no scale; its unit of time is 1 (or t1 − t0, if less).
    """
    size, speed, bend = moving.norms
    one = jnp.minimum(jnp.ones_like(span), span)
    safe = lambda x: jnp.where(x > 0, x, 1)  # noqa: E731
    by_bend = jnp.where(bend > 0, speed * (speed / safe(bend)), speed * one)
    of_rest = jnp.where(bend > 0, bend * one**2, 1)
    size = jnp.where(size > 0, size, jnp.where(speed > 0, by_bend, of_rest))
    by_bend = jnp.where(bend > 0, jnp.sqrt(bend) * jnp.sqrt(size), size / one)
    unit = jnp.where(speed > 0, size / safe(speed), jnp.where(bend > 0, size / by_bend, one))
    speed = jnp.where(speed > 0, speed, by_bend)
    zero = jnp.zeros_like(t0)
    around = Surroundings(Clock(t0, zero, zero), unit, span, args)
    logs = jnp.log(jnp.stack([size, speed, jnp.ones_like(speed)]))
    first = pace(moving, Place(zero, y0, logs), around)
    return Place(zero, y0, logs.at[2].set(jnp.log(first))), around
