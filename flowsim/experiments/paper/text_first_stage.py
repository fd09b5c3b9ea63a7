"""First stage of the decoder with residuals on a text: the gradient flow, and descent along it."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowsim.descent import minimise
from flowsim.experiments.paper.presets import Preset
from flowsim.experiments.paper.text_training import TextLoss
from flowsim.flows import Full
from flowsim.integrate import integrate
from flowsim.network import Decoder
from flowsim.network.decoder import Layers, gaussian_layers, signal_matrix
from flowsim.network.value_stage import value_stage
from flowsim.observables import frobenius
from flowsim.tasks import text_sequences
from flowsim.tasks.tokens import Vocabulary

#: Errors are taken where W_V has moved by this multiple of its start's size.
MOVED = 3.0
RTOL = 1e-10
#: Words that the small network tells apart, and steps of gradient descent along the flow.
WORDS, STEPS = 50, (50, 100)


def problem(preset: Preset, path: Any) -> tuple[TextLoss, Layers]:
    """A small network of the same make in float64 with fixed tables, and unit weights for it."""
    book = Vocabulary.of(path, WORDS)
    data = text_sequences(
        path,
        length=preset.task_length,
        samples=preset.task_samples,
        vocabulary=book,
        key=jax.random.key(0),
    )
    d = preset.task_width
    net = Decoder(
        len(book), d, key=jax.random.key(1), activation="gelu", residual=True, dtype=jnp.float64
    )
    unit = gaussian_layers(
        jax.random.key(preset.seeds[0]), d, scale=1.0, layers=preset.text_layers, dtype=jnp.float64
    )
    return TextLoss(net, data), unit


def rows(loss: TextLoss, unit: Layers, scales: Sequence[float]) -> list[dict[str, Any]]:
    """Flow, prediction and descent from one start at several scales ε."""
    size = frobenius(signal_matrix(loss.net, loss.data))
    span = float(MOVED * frobenius(unit[0].W_V) / size)
    return [row(loss, unit, scale, scale * span) for scale in scales]


def row(loss: TextLoss, unit: Layers, scale: float, t1: float) -> dict[str, Any]:
    """One scale: relative errors of the predicted W_V, what the others have moved, and by how much
    gradient descent in few steps misses the flow."""
    theta0 = jax.tree.map(lambda W: scale * W, unit)
    net, data = loss.net, loss.data
    full = integrate(Full(net, data), theta0, t1, times=[t1], rtol=RTOL).final
    line = value_stage(net, theta0, data, t1)
    values = [layer.W_V for layer in full], [layer.W_V for layer in line]
    few, more = (apart(descended(loss, theta0, t1, steps), full) for steps in STEPS)
    return {
        "scale": scale,
        "time": t1,
        "error of W_V": apart(*values),
        "movement of the others": apart(_others(full), _others(theta0)),
        f"descent in {STEPS[0]} steps": few,
        f"descent in {STEPS[1]} steps": more,
    }


def descended(loss: TextLoss, theta0: Layers, t1: float, steps: int) -> Layers:
    """Gradient descent over the same time."""
    run = minimise(
        loss,
        {"layers": theta0},
        samples=loss.data.size,
        learning_rate=t1 / steps,
        steps=steps,
        save_steps=[steps],
    )
    return run.final["layers"]


def apart(one: Any, other: Any) -> float:
    """‖θ − θ'‖/‖θ'‖."""
    pairs = list(zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
    difference = sum(float(jnp.sum((a - b) ** 2)) for a, b in pairs)
    return float(np.sqrt(difference / sum(float(jnp.sum(b**2)) for _, b in pairs)))


def _others(layers: Layers) -> list[Any]:
    return [(layer.W_Q, layer.W_K, layer.W_1, layer.W_2) for layer in layers]
