"""One step of AdamW on the two-layer decoder against the machine's float32 matrix-product rate.

    python -m benchmarks.decoder_step [--toy] [--out FOLDER]

The package's own steps, clipping included, with residuals, GELU and learned tables at d = 640, on
one batch of windows, in the compiled loop that training runs them in; timed in turn with runs of
as many products (tokens × d) (d × m) in float32, so that a busy machine slows both alike; medians
are compared. The share counts the products with
W_Q, W_K, W_V, W_1, W_2 and the output and those of attention with tokens, forward and backward;
softmax, GELU, embedding and the optimiser count as nothing. The last layer works on the last token
alone.
"""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import harness
from flowsim.descent import stepping
from flowsim.descent.methods import method_of
from flowsim.descent.minimising import LossGradient
from flowsim.descent.schedules import Constant
from flowsim.experiments.paper.text_training import TextLoss
from flowsim.network import Decoder
from flowsim.network.decoder import gaussian_layers
from flowsim.tasks import Sequences

ROUNDS = 7
STEPS, PRODUCTS = 4, 40


def layer_flops(n: int, q: int, s: int, d: int, m: int) -> int:
    """Operations of one layer, forward: q queries and s tokens of n windows, k = d."""
    weights = 3 * d * d + 2 * d * m
    return 2 * n * q * (weights + 2 * s * d)


def step_flops(n: int, s: int, d: int, m: int, vocabulary: int) -> int:
    """Forward and backward, which costs twice the forward pass: two layers and the logits."""
    forward = layer_flops(n, s, s, d, m) + layer_flops(n, 1, s, d, m) + 2 * n * d * vocabulary
    return 3 * forward


def problem(n: int, s: int, d: int, m: int, vocabulary: int):
    """A descent on one batch of windows, and where it stands before its first step."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, vocabulary, (n, s + 1))
    data = Sequences(tokens[:, :-1], tokens[:, -1], vocabulary)
    net = Decoder(vocabulary, d, key=jax.random.key(0), activation="gelu", residual=True)
    layers = gaussian_layers(jax.random.key(1), d, rate=0.85, hidden_width=m, layers=2)
    theta = {"layers": layers, "embedding": net.embedding, "output": net.output}
    method = method_of("adamw", jnp.float32, clip=1.0)
    eta = jnp.asarray(1e-3, jnp.float32)
    gradient = LossGradient(TextLoss(net, data))
    descent = stepping.Problem(gradient, method, Constant(), eta, None, True)
    return descent, stepping.begin(descent, theta)


def measured(n: int, s: int, d: int, m: int, vocabulary: int, rounds: int) -> Iterator[harness.Row]:
    """The step's share of the rate of JAX's and NumPy's products."""
    descent, state = problem(n, s, d, m, vocabulary)
    block, last = eqx.filter_jit(stepping.block), jnp.array([STEPS - 1], jnp.int32)
    rows, W = jnp.ones((n * s, d), jnp.float32), state.y["layers"][0].W_1
    rows_np, W_np = np.array(rows), np.array(W)
    product = jax.jit(lambda a, b: a @ b)
    calls = {
        "step": lambda: block(descent, state, last, jnp.ones((), jnp.int32)),
        "JAX": lambda: [product(rows, W) for _ in range(PRODUCTS)],
        "NumPy": lambda: [rows_np @ W_np for _ in range(PRODUCTS)],
    }
    seconds = harness.medians(calls, rounds)
    seconds["step"] /= STEPS
    flops = step_flops(n, s, d, m, vocabulary)
    for name in ("JAX", "NumPy"):
        speed = PRODUCTS * 2 * n * s * d * m / seconds[name]
        yield {
            "problem": f"n = {n}, s = {s}, d = {d}, m = {m}, V = {vocabulary}",
            "products by": name,
            "ms": 1e3 * seconds["step"],
            "product Gflop/s": speed / 1e9,
            "step Gflop/s": flops / seconds["step"] / 1e9,
            "share": flops / seconds["step"] / speed,
        }


def measure(toy: bool) -> Iterator[harness.Row]:
    """The step at d = 640."""
    yield measured(*((4, 6, 16, 32, 20, 2) if toy else (32, 64, 640, 1280, 2000, ROUNDS)))


if __name__ == "__main__":
    harness.run("decoder_step", measure, __doc__ or "")
