"""The first stage of a decoder with residuals: W_V of every layer (theory.md, section 11)."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim import checks
from flowsim.network.decoder import Decoder, Layers, by_window, last_target, signal_matrix
from flowsim.tasks.sequences import Sequences


def value_stage(net: Decoder, theta0: Layers, data: Sequences, t: float | Array) -> Layers:
    """θ(t) = θ(0) but W_V(t) = W_V(0) + t M in every layer, to leading order in ε; t training time.

    With residuals the last token's result is x_s + Σ_ℓ (g + σ(g W_1) W_2), where g = x̄ W_V + O(ε²):
    attention is uniform at W_Q W_Kᵀ = 0, and what a layer adds to its tokens is O(ε). So

        L = L(0) − Σ_ℓ tr(W_Vᵀ M) + O(ε²),   M = `signal_matrix`,

    linear in W_V of each layer and in no other matrix: all W_V set out at the speed M, at once and
    alike, while W_1, W_2, W_Q and W_K, which enter in products with W_V, stay. In the time t = τ ε
    the relative error is O(ε), and the others have moved by O(ε²) of their size.
    """
    _with_residual(net)
    M = signal_matrix(net, data)
    return tuple(dataclasses.replace(layer, W_V=layer.W_V + t * M) for layer in theta0)


def following_rates(net: Decoder, data: Sequences) -> dict[str, Float[Array, ""]]:
    """How fast the others follow while W_V = t M: their top parts grow as exp(rate t²/2).

    * W_1, W_2: L has − σ'(0) tr(W_V W_1 W_2 Mᵀ), so Ẇ_1 = σ'(0) t MᵀM W_2ᵀ and
      Ẇ_2 = σ'(0) t W_1ᵀ MᵀM: the rate is σ'(0)‖M‖², along M's top right singular vector o.
    * W_Q, W_K: L has − tr(W_Qᵀ F W_K) with F = t F_1 of `attention_matrix` (one head): the rate is
      ‖F_1‖, along its top singular vectors.

    Both hold while t M is small; the larger rate says who goes second.
    """
    norm = jnp.linalg.norm(signal_matrix(net, data), 2)
    return {
        "feed-forward": net.activation.slope * norm**2,
        "attention": jnp.linalg.norm(attention_matrix(net, data), 2),
    }


def attention_matrix(net: Decoder, data: Sequences) -> Float[Array, "d d"]:
    """F_1 = (1/n) Σ_i x_{i,s}ᵀ ( Cov_i M U(e_{y_i} − p_i) )ᵀ/√k for one head of width k = d.

    Cov_i is the covariance of the tokens that the last one sees: to first order in scores s_j the
    context moves by Σ_j s_j (X_j − x̄)/s, the counterpart of [CL 14] with the value W_V = t M.
    """
    if _with_residual(net).heads != 1:
        raise checks.fail("net.heads", "be 1 for the attention matrix", net.heads)
    last, seen = by_window(net, data, eqx.Partial(_covariance, signal_matrix(net, data)))
    return last.T @ seen / (data.size * last.shape[1] ** 0.5)


def _covariance(M: Array, net: Decoder, X: Array, answer: Array) -> tuple[Array, Array]:
    """x_s and Cov M U(e_y − p) of one window."""
    away = X - jnp.mean(X, axis=0)
    seen = away @ (M @ last_target(net, X, answer))
    return X[-1], seen @ away / len(X)


def _with_residual(net: Decoder) -> Decoder:
    if not net.residual:
        raise checks.fail("net.residual", "be True: without it no W_V goes first", net.residual)
    return net
