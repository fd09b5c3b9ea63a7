"""Mini-batches: which samples a step sees, from explicit keys."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from flowsim import checks


class Batches(eqx.Module):
    """Batches of `size` out of `total` samples, one a step.

    With replacement the batch of step k is drawn from `fold_in(key, k)`. Without it, epoch e
    permutes all samples with `fold_in(key, e)` and deals ⌊total/size⌋ batches; the remainder
    sits out that epoch.
    """

    key: Array
    size: int = eqx.field(static=True)
    total: int = eqx.field(static=True)
    replace: bool = eqx.field(static=True)

    def order(self) -> Int[Array, "n"] | None:
        """What is carried from step to step: the permutation of the epoch."""
        return None if self.replace else jnp.arange(self.total, dtype=jnp.int32)

    def draw(
        self, k: Int[Array, ""], order: Int[Array, "n"] | None
    ) -> tuple[Int[Array, "B"], Int[Array, "n"] | None]:
        """The samples of step k, and the permutation for the next step."""
        if order is None:
            key = jax.random.fold_in(self.key, k)
            return jax.random.randint(key, (self.size,), 0, self.total), None
        epoch, position = jnp.divmod(k, jnp.asarray(self.total // self.size, k.dtype))

        def deal(order):
            key = jax.random.fold_in(self.key, epoch)
            return jax.random.permutation(key, self.total).astype(order.dtype)

        order = jax.lax.cond(position == 0, deal, lambda order: order, order)
        return jax.lax.dynamic_slice(order, (position * self.size,), (self.size,)), order


def batches_of(key: Any, size: Any, total: int, replace: Any) -> Batches | None:
    """The batches asked for; None for the full batch. `key` None is `jax.random.key(0)`.

    Raises:
        ValueError, TypeError: a batch larger than the number of samples, a key that is none.
    """
    if not isinstance(replace, bool):
        raise TypeError(f"replace must be True or False; got {checks.shown(replace)}")
    if size is None:
        return None
    size = checks.integer("batch_size", size)
    if size > total:
        raise checks.fail("batch_size", f"be at most the number of samples, {total}", size)
    key = jax.random.key(0) if key is None else checks.key("key", key)
    return Batches(key, size, total, replace)
