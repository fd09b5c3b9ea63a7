"""F along the condensed network: what drives keys and queries while outer weights still move."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.flows import key_query_matrix
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.observables import along
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory


class OuterState(eqx.Module):
    """p, q, r of the condensed network."""

    p: Float[Array, "*batch d"]
    q: Float[Array, "*batch m"]
    r: Float[Array, "*batch m"]


#: Paths are padded to a multiple of this length, so that few lengths are compiled.
PADDING = 128


class CubicPath(eqx.Module):
    """A piecewise cubic function of time through given values, constant outside its nodes."""

    times: Float[Array, "T"]
    values: Float[Array, "T *shape"]
    slopes: Float[Array, "T *shape"]

    def __init__(self, times: Any, values: Any):
        from scipy.interpolate import CubicSpline

        times, values = np.asarray(times), np.asarray(values)
        slopes = CubicSpline(times, values, axis=0)(times, 1)
        extra = np.arange(1, -len(times) % PADDING + 1)
        last = np.broadcast_to(values[-1], (len(extra), *values.shape[1:]))
        self.times = jnp.asarray(np.append(times, times[-1] + extra * (times[-1] - times[-2])))
        self.values = jnp.asarray(np.concatenate([values, last]))
        self.slopes = jnp.asarray(np.concatenate([slopes, 0 * last]))

    def __call__(self, t: Any) -> Array:
        """The value at time t."""
        i = jnp.clip(jnp.searchsorted(self.times, t, side="right") - 1, 0, self.times.size - 2)
        h = self.times[i + 1] - self.times[i]
        x = jnp.clip((t - self.times[i]) / h, 0, 1)
        first = self.values[i] * (1 + 2 * x) + self.slopes[i] * (h * x)
        second = self.values[i + 1] * (3 - 2 * x) + self.slopes[i + 1] * (h * (x - 1))
        return first * (1 - x) ** 2 + second * x**2


def condensed_key_query_matrix(
    net: OneLayerTransformer, task: Task, state: Any, key_width: int
) -> Float[Array, "d d"]:
    """F of the condensed network itself, [CL 15] with σ in place of σ'(0).

    F = (1/(n s sqrt(k))) Σ_i −ℓ'(y_i f_i) y_i (Σ_k σ'(z_i q_k) q_k r_k) X_{i,s}ᵀ pᵀC_i at uniform
    attention, z_i = x̄_i·p; `state` has p, q, r. For σ(z) = σ'(0) z it is `key_query_matrix` at
    β = (q·r) p.
    """
    values = task.X @ state.p
    means = jnp.mean(values, axis=1)

    def gain(z: Float[Array, "n"]) -> Float[Array, ""]:
        outputs = net.activation(jnp.outer(z, state.q)) @ state.r
        return -jnp.mean(net.margin_loss(task.y * outputs))

    pull = jax.grad(gain)(means)
    mixed = jnp.einsum("ns,nsd->nd", values - means[:, None], task.X)
    return (task.last_tokens * pull[:, None]).T @ mixed / (task.length * key_width**0.5)


def key_query_path(net: OneLayerTransformer, task: Task, run: Trajectory) -> CubicPath:
    """F(β(t)) of [CL 15] along a run of `Parameters`, β = W_V W_1 W_2: for `KeyQuery`."""
    run = run.trim()
    times = halved(np.asarray(run.times))
    fine = Trajectory(times, run.evaluate(times), run.outcome)
    return CubicPath(times, along(fine, eqx.Partial(_driving, net, task)))


def halved(times: Float[np.ndarray, "T"]) -> Float[np.ndarray, "N"]:
    """The times and the midpoints between them, since F changes fast within a step."""
    return np.interp(np.arange(0, len(times) - 0.5, 0.5), np.arange(len(times)), times)


def _driving(net: OneLayerTransformer, task: Task, theta: Parameters) -> Float[Array, "d d"]:
    beta = theta.W_V @ (theta.W_1 @ theta.W_2)
    return key_query_matrix(net, task, beta, key_width=theta.W_Q.shape[1])
