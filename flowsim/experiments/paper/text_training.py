"""The decoder with residuals and GELU on windows of a text, trained by AdamW."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from flowsim.descent import Descent, WarmUpCosine, minimise
from flowsim.experiments.paper.presets import Preset
from flowsim.experiments.paper.training import BATCHES, DATA, NETWORK, Training, at_moments
from flowsim.network import Decoder
from flowsim.network.decoder import gaussian_layers, signal
from flowsim.tasks import Sequences, text_parts
from flowsim.tasks.tokens import Vocabulary

#: Validation losses are means over chunks of so many windows, which bounds the memory.
CHUNK = 250
#: The rise of the learning rate begins at this share of it, as for the anchor function.
WARM_UP_START = 1 / 15
#: About so many losses are taken along a run.
LOSSES = 12


class TextLoss(eqx.Module):
    """Cross-entropy over the windows of a batch, or of all.

    The weights are a dictionary: "layers", and where they are learned "embedding" and "output".
    """

    net: Decoder
    data: Sequences

    def __call__(self, theta: dict[str, Any], rows: Int[Array, "B"] | None) -> Float[Array, ""]:
        """The loss, in nats."""
        data = self.data if rows is None else self.data.take(rows)
        return self.network(theta).loss(theta["layers"], data)

    def network(self, theta: dict[str, Any]) -> Decoder:
        """The network with the tables of these weights."""
        if "embedding" not in theta:
            return self.net
        tables = theta["embedding"], theta["output"]
        return eqx.tree_at(lambda net: (net.embedding, net.output), self.net, tables)


@dataclasses.dataclass(frozen=True)
class Text:
    """Windows of a text and the network that learns them.

    Attributes:
        loss: over the training windows.
        validation: windows of the text's last part.
        entropy: of the text's words, cut to the vocabulary, in nats (`Vocabulary.entropy`).
        unigram: cross-entropy of the validation answers under the text's frequencies, in nats.
    """

    loss: TextLoss
    validation: Sequences
    vocabulary: Vocabulary
    entropy: float
    unigram: float


def read(preset: Preset, path: Any) -> Text:
    """Vocabulary and windows of a text file, in two passes; network with fresh tables."""
    book = Vocabulary.of(path, preset.text_vocabulary)
    data, validation = text_parts(
        path,
        length=preset.text_length,
        samples=(preset.text_windows, preset.text_validation),
        share=preset.text_share,
        vocabulary=book,
        key=jax.random.key(DATA),
    )
    net = Decoder(
        len(book),
        preset.text_width,
        key=jax.random.key(NETWORK),
        activation="gelu",
        heads=preset.text_heads,
        residual=True,
    )
    unigram = -np.mean(np.log(book.shares[np.asarray(validation.answers)]))
    return Text(TextLoss(net, data), validation, book, book.entropy(), float(unigram))


def start(preset: Preset, text: Text, seed: int) -> dict[str, Any]:
    """Weights N(0, d^(−2γ)) of every layer; tables N(0, 1/d), the same for all seeds."""
    layers = gaussian_layers(
        jax.random.key(seed),
        preset.text_width,
        rate=preset.text_rate,
        hidden_width=preset.text_hidden_width,
        layers=preset.text_layers,
    )
    net = text.loss.net
    tables = {"embedding": net.embedding, "output": net.output}
    return {"layers": layers} | (tables if preset.text_tables == "learned" else {})


def moments(preset: Preset) -> np.ndarray:
    """Steps at which the run is looked at: 0, then evenly spaced in the logarithm."""
    late = np.geomspace(1, max(1, preset.text_steps - 1), preset.text_moments)
    return np.unique(np.append(0, np.round(late).astype(int)))


def train(preset: Preset, text: Text, seed: int) -> Descent:
    """One run of AdamW, saved at the moments and one step after each; the seed is that of start
    and batches."""
    here = moments(preset)
    return minimise(
        text.loss,
        start(preset, text, seed),
        samples=text.loss.data.size,
        optimizer="adamw",
        learning_rate=preset.text_learning_rate,
        steps=preset.text_steps,
        batch_size=min(preset.text_batch_size, text.loss.data.size),
        clip=preset.clip,
        schedule=WarmUpCosine(preset.text_warm_up, preset.text_decay, start=WARM_UP_START),
        key=jax.random.fold_in(jax.random.key(BATCHES), seed),
        save_steps=np.union1d(here, here + 1),
    )


def by_layer(preset: Preset, text: Text, descent: Descent) -> list[Training]:
    """The run of each layer, from the bottom up, as `stages` reads it."""
    loss = text.loss
    v, o, _ = signal(loss.net, loss.data)
    trained = []
    for layer in descent.states["layers"]:
        run, following, losses = at_moments(descent, layer, moments(preset))
        parts = loss.net, loss.data, text.validation, run, following, losses, v, o
        trained.append(Training(*parts, max(1, loss.data.size // preset.text_batch_size)))
    return trained


def validation_losses(text: Text, descent: Descent) -> tuple[np.ndarray, np.ndarray]:
    """(steps, losses over the validation windows) at some of the saved steps, the last included."""
    steps = np.asarray(descent.steps)
    rows = np.unique(np.append(np.arange(0, len(steps), -(-len(steps) // LOSSES)), len(steps) - 1))
    found = [mean_loss(text, jax.tree.map(lambda W, r=r: W[r], descent.states)) for r in rows]
    return steps[rows], np.array(found)


def mean_loss(text: Text, theta: dict[str, Any]) -> float:
    """The loss over all validation windows, a chunk at a time."""
    net, data = text.loss.network(theta), text.validation
    parts = [
        _losses(net, theta["layers"], data.take(slice(first, first + CHUNK)))
        for first in range(0, data.size, CHUNK)
    ]
    return float(np.mean(np.concatenate(parts)))


@eqx.filter_jit
def _losses(net: Decoder, layers: Any, data: Sequences) -> Float[Array, "n"]:
    return jnp.asarray(net.losses(layers, data))
