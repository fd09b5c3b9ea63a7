"""Optimisers: how a gradient becomes a direction, in optax, and what clock that has."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from flowsim import checks

NAMES = ("sgd", "momentum", "adamw")
#: Hyperparameters of each optimiser with their defaults.
DEFAULTS: dict[str, dict[str, float]] = {
    "sgd": {},
    "momentum": {"momentum": 0.9},
    "adamw": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0, "clip": 0.0},
}


class Method(eqx.Module):
    """θ_{k+1} = θ_k − η_k · direction; the directions come from optax.

    sgd: the gradient; momentum: m_{k+1} = β m_k + ∇L (heavy ball); adamw: Adam's ratio plus
    `weight_decay` times θ (decoupled), of gradients clipped to norm `clip` where that is given.
    """

    name: str = eqx.field(static=True)
    clipped: bool = eqx.field(static=True)
    values: dict[str, Array]

    def transformation(self) -> Any:
        """The optax transformation from gradients to directions; learning rate not included."""
        import optax

        v = self.values
        if self.name == "sgd":
            return optax.identity()
        if self.name == "momentum":
            return optax.trace(v["momentum"])
        clip = [optax.clip_by_global_norm(v["clip"])] if self.clipped else []
        adam = optax.scale_by_adam(v["beta_1"], v["beta_2"], v["epsilon"])
        return optax.chain(*clip, adam, optax.add_decayed_weights(v["weight_decay"]))

    def direction(self, gradient: Any, memory: Any, y: Any) -> tuple[Any, Any]:
        """The direction, and the memory for the next step."""
        # optax raises decay rates to integer powers, which strict promotion forbids
        with jax.numpy_dtype_promotion("standard"):
            return self.transformation().update(gradient, memory, y)

    @property
    def clock(self) -> str:
        """ "training" where a step has a length in t; Adam's has none."""
        return "steps" if self.name == "adamw" else "training"

    @property
    def speed_up(self) -> Array:
        """1/(1 − β): how much training time a step of length η takes with momentum β."""
        return 1 / (1 - self.values["momentum"]) if self.name == "momentum" else jnp.asarray(1.0)


def method_of(optimizer: Any, dtype: Any, **given: Any) -> Method:
    """The optimiser of that name with its hyperparameters; None means not given.

    Raises:
        ValueError, TypeError: an unknown optimiser, a value outside its range, a hyperparameter
            that the optimiser does not have.
    """
    name = checks.choice("optimizer", optimizer, NAMES)
    values = dict(DEFAULTS[name])
    for key, value in given.items():
        if value is None:
            continue
        if key not in values:
            owner = next(n for n in NAMES if key in DEFAULTS[n])
            raise checks.fail(key, f'be left out unless optimizer is "{owner}"', value)
        values[key] = _checked(key, value)
    arrays = {key: jnp.asarray(value, dtype) for key, value in values.items()}
    return Method(name, name == "adamw" and given.get("clip") is not None, arrays)


def _checked(key: str, value: Any) -> Any:
    if key in ("momentum", "beta_1", "beta_2"):
        return checks.between(key, value, 0.0, 1.0, closed=(True, False))
    if key == "weight_decay":
        return checks.between(key, value, 0.0, math.inf, closed=(True, False))
    return checks.positive(key, value)
