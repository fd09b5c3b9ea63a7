"""Ensembles of mini-batch SGD, beside the flow and the diffusion (theory.md, section 9)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from flowsim.descent import diffuse, train
from flowsim.experiments.setting import Setting
from flowsim.integrate.diffusion import mean_and_variance

#: Half-width of a 95 % confidence interval, in standard errors.
CONFIDENCE = 1.96
#: Members of an ensemble that are run together.
TOGETHER = 16


def batch_rows(
    setting: Setting, reference: Any, at: float, steps: int, config: Any
) -> list[dict[str, Any]]:
    """One line a batch size: how far SGD is from the flow at the time `at`, and where it ends.

    The distance is the root mean square over the ensemble, relative to the size of the state; the
    mean and variance of ‖W_2‖ come with 95 % confidence intervals, for the diffusion too if asked.
    """
    n = setting.task.size
    sizes = config.batches or sorted({max(1, n // 64), max(1, n // 16), max(1, n // 4)})
    keys = jax.random.split(jax.random.key(config.seed), config.members)
    rows = []
    for size in sizes:
        arguments = {"learning_rate": at / steps, "steps": steps, "batch_size": size}
        seen = _ensemble(_sgd(setting, reference, arguments), keys)
        entry = {
            "batch_size": size,
            "learning_rate": at / steps,
            "members": config.members,
            "distance": float(np.sqrt(np.mean(seen[:, 0] ** 2))),
            **_interval("norm", seen[:, 1]),
        }
        if config.diffusion:
            other = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)
            entry |= _interval(
                "diffusion_norm", _ensemble(_sde(setting, reference, arguments), other)[:, 1]
            )
        rows.append(entry)
    return rows


def _observed(theta: Any, reference: Any) -> Any:
    """Relative distance from the reference, and ‖W_2‖."""
    pairs = zip(jax.tree.leaves(theta), jax.tree.leaves(reference), strict=True)
    apart = sum(jnp.sum((a - b) ** 2) for a, b in pairs)
    whole = sum(jnp.sum(b**2) for b in jax.tree.leaves(reference))
    return jnp.stack([jnp.sqrt(apart / whole), jnp.linalg.norm(theta.W_2)])


def _sgd(setting: Setting, reference: Any, arguments: dict[str, Any]) -> Any:
    def member(key):
        run = train(
            setting.net,
            setting.task,
            setting.theta0,
            **arguments,
            replace=True,
            key=key,
            save_steps=[arguments["steps"]],
        )
        return _observed(run.final, reference)

    return member


def _sde(setting: Setting, reference: Any, arguments: dict[str, Any]) -> Any:
    def member(key):
        run = diffuse(
            setting.net, setting.task, setting.theta0, **arguments, order=2, substeps=1, key=key
        )
        return _observed(run.final, reference)

    return member


def _ensemble(member: Any, keys: Any) -> np.ndarray:
    """What all members show, some at a time."""
    return np.asarray(
        eqx.filter_jit(lambda keys: jax.lax.map(member, keys, batch_size=TOGETHER))(keys)
    )


def _interval(name: str, values: np.ndarray) -> dict[str, float]:
    """Mean and variance with the half-widths of their confidence intervals."""
    mean, mean_error, variance, variance_error = map(float, mean_and_variance(jnp.asarray(values)))
    return {
        f"{name}_mean": mean,
        f"{name}_mean_error": CONFIDENCE * mean_error,
        f"{name}_variance": variance,
        f"{name}_variance_error": CONFIDENCE * variance_error,
    }
