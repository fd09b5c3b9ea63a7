"""Decoder-only transformers with fixed embedding and output projection (theory.md, 11 and 13)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flowsim import checks
from flowsim.network import activations
from flowsim.network.products import product
from flowsim.tasks.sequences import Sequences, embedding
from flowsim.trajectory import register_state

#: Windows that are looked at together where a sum over all of them is taken.
WINDOWS = 256


class Layer(eqx.Module):
    """Weights of one decoder layer, in original scale; time goes first inside a `Trajectory`.

    `d` token width, `k` query and key width of all heads together, `m` feed-forward width. W_2 is
    a matrix here, where the binary network of [CL 1] has a vector.
    """

    W_Q: Float[Array, "*batch d k"]
    W_K: Float[Array, "*batch d k"]
    W_V: Float[Array, "*batch d d"]
    W_1: Float[Array, "*batch d m"]
    W_2: Float[Array, "*batch m d"]


register_state(
    Layer,
    {
        "W_Q": ("token", "key"),
        "W_K": ("token", "key"),
        "W_V": ("token", "value"),
        "W_1": ("value", "hidden"),
        "W_2": ("hidden", "output"),
    },
)
#: The weights of a decoder: its layers from the bottom up.
Layers = tuple[Layer, ...]


class Decoder(eqx.Module):
    """Logits for the token that follows the last one.

    A layer maps queries x_i and the tokens X_j ≤ i that they see to

        g_i = concat_heads( Σ_j a_ij X_j W_V ),   y_i = σ(g_i W_1) W_2,

    and with `residual` to x_i + g_i + y_i: the block of theory.md, section 11, without layer norm.
    The logits are U y of the last token. Embedding and U are fixed, with entries N(0, 1/d); the
    weights θ are `Layers`. The last layer works on the last token alone, so one layer costs
    O(n s d) beside its products with single tokens.

    Args:
        vocabulary: V.
        width: token width d.
        key: of embedding, positions and U.
        activation: σ, as for `OneLayerTransformer`.
        heads: they share the columns of W_Q, W_K and W_V evenly.
        residual: add x_i and g_i to each layer's result.
        positions: add a fixed Gaussian vector, entries N(0, 1/d), to each of so many positions;
            0 for none.
        dtype: of embedding, U and all that is computed with weights of this type.
    """

    embedding: Float[Array, "V d"]
    positions: Float[Array, "s d"] | None
    output: Float[Array, "d V"]
    activation: activations.Activation
    heads: int = eqx.field(static=True)
    residual: bool = eqx.field(static=True)

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        key: Array,
        activation: str | Callable[..., Any] = "tanh",
        heads: int = 1,
        residual: bool = False,
        positions: int = 0,
        dtype: Any = jnp.float32,
    ):
        V = checks.integer("vocabulary", vocabulary, low=2)
        d = checks.width("width", width)
        self.heads = checks.integer("heads", heads)
        if d % self.heads:
            raise checks.fail("heads", f"divide the width, {d}", heads)
        self.activation = activations.activation(activation)
        self.residual = residual
        keys = jax.random.split(key, 3)
        self.embedding = embedding(keys[0], V, d).astype(dtype)
        self.output = embedding(keys[1], V, d).T.astype(dtype)
        s = checks.integer("positions", positions, low=0)
        self.positions = embedding(keys[2], s, d).astype(dtype) if s else None

    def __call__(self, theta: Layers, tokens: Int[Array, "n s"]) -> Float[Array, "n V"]:
        """Logits of the token after the last one, shape (n, V)."""
        x = self.embed(tokens)
        for layer in theta[:-1]:
            x = self.block(layer, x, x)
        return self.block(theta[-1], x[:, -1:], x)[:, 0] @ self.output

    def embed(self, tokens: Int[Array, "n s"]) -> Float[Array, "n s d"]:
        """Embedded tokens, with their positions where the decoder has them."""
        x = self.embedding[tokens]
        return x if self.positions is None else x + self.positions[: tokens.shape[1]]

    def block(
        self, layer: Layer, x: Float[Array, "n q d"], X: Float[Array, "n s d"]
    ) -> Float[Array, "n q d"]:
        """One layer, for the last q of the s tokens as queries."""
        g = self.attend(layer, x, X)
        y = applied(self.activation(applied(g, layer.W_1)), layer.W_2)
        return x + g + y if self.residual else y

    def attend(
        self, layer: Layer, x: Float[Array, "n q d"], X: Float[Array, "n s d"]
    ) -> Float[Array, "n q d"]:
        """Causal attention of every head, side by side.

        W_Q W_Kᵀ is applied to the queries, so keys and values of all s tokens are never formed.
        """
        W_Q, W_K, W_V = (
            W.reshape(W.shape[0], self.heads, -1) for W in (layer.W_Q, layer.W_K, layer.W_V)
        )
        queries = applied(x, layer.W_Q).reshape(*x.shape[:2], *W_Q.shape[1:])
        queries = queries / W_Q.shape[2] ** 0.5
        scores = jnp.einsum("nqhk,dhk,nsd->nhqs", queries, W_K, X)
        weights = jax.nn.softmax(jnp.where(self._seen(x, X), scores, -jnp.inf), axis=-1)
        mixed = jnp.einsum("nhqs,nsd->nqhd", weights, X)
        return jnp.einsum("nqhd,dhv->nqhv", mixed, W_V).reshape(x.shape)

    @staticmethod
    def _seen(x: Array, X: Array) -> Array:
        """Which tokens each query may see: itself and those before it."""
        q, s = x.shape[1], X.shape[1]
        return jnp.arange(s)[None, :] <= jnp.arange(s - q, s)[:, None]

    def losses(self, theta: Layers, data: Sequences) -> Float[Array, "n"]:
        """Cross-entropy −log p(answer) of each sequence, in nats."""
        logits = self(theta, data.tokens)
        chosen = jnp.take_along_axis(logits, data.answers[:, None], axis=1)[:, 0]
        return jax.nn.logsumexp(logits, axis=1) - chosen

    def loss(self, theta: Layers, data: Sequences) -> Float[Array, ""]:
        """Mean cross-entropy, in nats; log V where all weights are zero and nothing is residual."""
        return jnp.mean(self.losses(theta, data))

    def accuracy(self, theta: Layers, data: Sequences) -> Float[Array, ""]:
        """Share of the sequences whose answer has the largest logit."""
        best = jnp.argmax(self(theta, data.tokens), axis=1).astype(data.answers.dtype)
        return jnp.mean((best == data.answers).astype(self.output.dtype))


def applied(rows: Float[Array, "*batch a"], W: Float[Array, "a b"]) -> Float[Array, "*batch b"]:
    """Every row times W, as one product of matrices."""
    flat = rows.reshape(-1, rows.shape[-1])
    return product(flat, W).reshape(*rows.shape[:-1], W.shape[1])


def gaussian_layers(
    key: Any,
    width: int,
    *,
    scale: float | None = None,
    rate: float | None = None,
    hidden_width: int | None = None,
    key_width: int | None = None,
    layers: int = 1,
    dtype: Any = jnp.float32,
) -> Layers:
    """Independent N(0, ε²) weights of every layer; ε is `scale`, or d^(−γ) from `rate` γ.

    Args:
        width: token width d.
        hidden_width: feed-forward width m, 2d if not given.
        key_width: k, d if not given.
    """
    checks.key("key", key)
    d = checks.width("width", width)
    m = 2 * d if hidden_width is None else checks.width("hidden_width", hidden_width)
    k = d if key_width is None else checks.width("key_width", key_width)
    if (scale is None) == (rate is None):
        raise ValueError(f"exactly one of scale and rate must be given; got {scale=}, {rate=}")
    if rate is not None:
        scale = float(d) ** -checks.number("rate", rate)
    scale = checks.positive("scale", scale)
    shapes = {"W_Q": (d, k), "W_K": (d, k), "W_V": (d, d), "W_1": (d, m), "W_2": (m, d)}

    def layer(key):
        keys = jax.random.split(key, len(shapes))
        return Layer(
            **{
                name: jnp.asarray(scale, dtype) * jax.random.normal(k_, shape, dtype)
                for k_, (name, shape) in zip(keys, shapes.items(), strict=True)
            }
        )

    count = checks.integer("layers", layers)
    return tuple(layer(jax.random.fold_in(key, i)) for i in range(count))


def signal_matrix(net: Decoder, data: Sequences) -> Float[Array, "d d"]:
    """M = (1/n) Σ_i x̄_iᵀ ( U (e_{y_i} − p_i) )ᵀ: what a mean of tokens can learn first.

    x̄_i is the mean of the tokens that the last one sees, p_i the probabilities at zero weights:
    1/V, or those of the last token's embedding where that is passed on (`residual`).
    """
    means, targets = by_window(net, data, _mean_and_target)
    return means.T @ targets / data.size


def by_window(net: Decoder, data: Sequences, function: Callable[..., Any]) -> Any:
    """function(net, X, answer) of every window's tokens X (s, d), a few windows at a time, so that
    neither all tokens nor all probabilities are ever held."""
    return jax.lax.map(
        lambda row: function(net, net.embed(row[0][None])[0], row[1]),
        (data.tokens, data.answers),
        batch_size=WINDOWS,
    )


def last_target(net: Decoder, X: Float[Array, "s d"], answer: Int[Array, ""]) -> Float[Array, "d"]:
    """( U (e_y − p) )ᵀ of one window, p at zero weights."""
    if not net.residual:
        return net.output[:, answer] - jnp.mean(net.output, axis=1)
    return net.output[:, answer] - net.output @ jax.nn.softmax(X[-1] @ net.output)


def _mean_and_target(net: Decoder, X: Array, answer: Array) -> tuple[Array, Array]:
    return jnp.mean(X, axis=0), last_target(net, X, answer)


def signal(net: Decoder, data: Sequences) -> tuple[Float[Array, "d"], Float[Array, "d"], Array]:
    """(v, o, c): what a one-layer decoder without residuals learns first.

    At zero weights p = 1/V, so the cross-entropy is log V − σ'(0) tr(W_V W_1 W_2 Mᵀ) + higher, with
    M of `signal_matrix`, the counterpart of c v in [CL 5]. Its top singular triple is v (input
    side), o (output side), c: the fastest growing part of W_V W_1 W_2 lies along v ⊗ o, with
    W_v = v W_V and W_2 o in the place of the binary network's W_v and W_2. With residuals W_V
    alone goes first, along M itself (`network.value_stage`).
    """
    left, values, right = jnp.linalg.svd(signal_matrix(net, data))
    return left[:, 0], right[0], values[0]
