"""χ variates of many degrees of freedom at once, by rejection in rounds."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def chi(key: Array, degrees: Int[Array, " n"]) -> Float[Array, " n"]:
    """Independent χ variates with the given degrees of freedom; 0 where those are not positive.

    χ²_k/2 is a Gamma variate of shape k/2: for k ≥ 2 by Marsaglia and Tsang (ACM TOMS 26, 2000),
    exact; χ_1 is |N(0, 1)|. Round r draws for every entry from fold_in(key, r), so that a variate
    depends on its key and place alone.
    """
    shape = jnp.maximum(degrees, 2).astype(float) / 2 - 1 / 3
    width = 1 / jnp.sqrt(9 * shape)

    def again(carry):
        return ~jnp.all(carry[2])

    def attempt(carry):
        round_, found, accepted = carry
        for_normal, for_level = jax.random.split(jax.random.fold_in(key, round_))
        x = jax.random.normal(for_normal, degrees.shape)
        level = 1 - jax.random.uniform(for_level, degrees.shape)  # in (0, 1]
        v = (1 + width * x) ** 3
        log_v = jnp.log(jnp.where(v > 0, v, 1.0))
        inside = (v > 0) & (jnp.log(level) < 0.5 * x * x + shape * (1 - v + log_v))
        value = jnp.where(degrees == 1, jnp.abs(x), jnp.sqrt(2 * shape * jnp.maximum(v, 0.0)))
        inside = inside | (degrees == 1)
        found = jnp.where(accepted | ~inside, found, value)
        return round_ + 1, found, accepted | inside

    start = (jnp.zeros((), jnp.int32), jnp.zeros(degrees.shape), degrees < 1)
    return jax.lax.while_loop(again, attempt, start)[1]
