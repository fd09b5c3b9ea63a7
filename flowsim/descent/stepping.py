"""Discrete steps as compiled loops: one block fills many saved rows."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flowsim.descent.batches import Batches
from flowsim.descent.methods import Method
from flowsim.descent.schedules import Schedule
from flowsim.integrate.scales import all_finite

#: A loss this many times larger than at the start is an explosion: the descent diverged.
EXPLOSION = 1e6


class Problem(eqx.Module):
    """What a descent is: y_{k+1} = y_k − η_k · direction of the gradient at y_k.

    Attributes:
        gradient: (t, y, samples) → (loss, gradient); samples is None for the full batch.
        learning_rate: η.
        stop: leave the loop at divergence (a batch of runs goes on to the end together).
    """

    gradient: Callable[..., tuple[Any, Any]]
    method: Method
    schedule: Schedule
    learning_rate: Float[Array, ""]
    batches: Batches | None
    stop: bool = eqx.field(static=True)

    @property
    def with_rates(self) -> bool:
        """Whether the states follow −gradient, so that it is their rate of change."""
        return self.batches is None and self.method.name == "sgd"

    def time(self, elapsed: Any) -> Any:
        """The clock: η/(1−β) Σ_{j<k} η_j/η, or k."""
        if self.method.clock == "steps":
            return elapsed
        return self.learning_rate * self.method.speed_up.astype(elapsed.dtype) * elapsed


class Stepping(eqx.Module):
    """Where a descent stands: at y after k steps."""

    k: Int[Array, ""]
    #: Σ_{j<k} η_j/η on the training clock, k on that of steps.
    elapsed: Float[Array, ""]
    y: Any
    memory: Any
    order: Any
    start_loss: Float[Array, ""]
    #: The first step whose result was not finite or exploded; −1 while there was none.
    diverged_at: Int[Array, ""]


class Rows(eqx.Module):
    """Saved rows."""

    k: Int[Array, "*rows"]
    elapsed: Float[Array, "*rows"]
    y: Any
    rate: Any
    loss: Float[Array, "*rows"]


def begin(problem: Problem, y0: Any) -> Stepping:
    """At y0, before the first step."""
    return Stepping(
        k=jnp.zeros((), jnp.int32),
        elapsed=jnp.zeros_like(problem.learning_rate),
        y=y0,
        memory=problem.method.transformation().init(y0),
        order=None if problem.batches is None else problem.batches.order(),
        start_loss=jnp.zeros_like(problem.learning_rate),
        diverged_at=jnp.full((), -1, jnp.int32),
    )


def block(
    problem: Problem, s: Stepping, targets: Int[Array, "rows"], count: Int[Array, ""]
) -> tuple[Stepping, Rows]:
    """Steps through the first `count` targets; a row is saved at each.

    Every iterate is written to the next free row, which keeps what is there when it is a target.
    """

    def running(carry):
        s, _, filled = carry
        return (filled < count) & ((s.diverged_at < 0) if problem.stop else True)

    def advance(carry):
        s, rows, filled = carry
        s, row = step(problem, s)
        rows = jax.tree.map(lambda buffer, x: buffer.at[filled].set(x), rows, row)
        return s, rows, filled + (row.k == targets[filled]).astype(filled.dtype)

    shape = eqx.filter_eval_shape(lambda s: step(problem, s)[1], s)
    empty = jax.tree.map(lambda x: jnp.zeros((targets.size, *x.shape), x.dtype), shape)
    s, rows, _ = jax.lax.while_loop(running, advance, (s, empty, jnp.zeros_like(count)))
    return s, rows


def step(problem: Problem, s: Stepping) -> tuple[Stepping, Rows]:
    """From y_k to y_{k+1}; also what is known at y_k."""
    samples, order = None, None
    if problem.batches is not None:
        samples, order = problem.batches.draw(s.k, s.order)
    loss, gradient = problem.gradient(problem.time(s.elapsed), s.y, samples)
    rate = jax.tree.map(jnp.negative, gradient) if problem.with_rates else None
    row = Rows(s.k, s.elapsed, s.y, rate, loss)
    start_loss = jnp.where(s.k == 0, loss, s.start_loss)
    bad = (s.diverged_at < 0) & diverged(loss, start_loss, s.y)
    direction, memory = problem.method.direction(gradient, s.memory, s.y)
    factor = jnp.asarray(problem.schedule(s.k), s.elapsed.dtype)
    length = problem.learning_rate * factor
    return Stepping(
        k=s.k + 1,
        elapsed=s.elapsed + (1 if problem.method.clock == "steps" else factor),
        y=jax.tree.map(lambda y, d: y - length.astype(y.dtype) * d, s.y, direction),
        memory=memory,
        order=order,
        start_loss=start_loss,
        diverged_at=jnp.where(bad, s.k, s.diverged_at),
    ), row


def diverged(loss: Any, start: Any, y: Any) -> Bool[Array, ""]:
    """Whether the loss exploded or anything stopped being a number."""
    exploded = jnp.abs(loss) > EXPLOSION * jnp.abs(start)
    return ~jnp.isfinite(loss) | exploded | ~all_finite(y)
