"""The decoder of the paper on the anchor function, trained by AdamW."""

import dataclasses

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from flowsim import checks
from flowsim.descent import Descent, WarmUpCosine, minimise
from flowsim.experiments.paper.presets import Preset
from flowsim.network import Decoder, Parameters
from flowsim.network.decoder import Layer, Layers, gaussian_layers, signal
from flowsim.tasks import Sequences, anchor_sequences
from flowsim.trajectory import Trajectory

#: Keys of data, embedding and batches; the seed of a run is that of its start alone.
DATA, TEST, NETWORK, BATCHES = 1, 2, 3, 4


class SequenceLoss(eqx.Module):
    """Cross-entropy of a decoder over the sequences of a batch, or of all."""

    net: Decoder
    data: Sequences

    def __call__(self, theta: Layers, rows: Int[Array, "B"] | None) -> Float[Array, ""]:
        """The loss, in nats."""
        return self.net.loss(theta, self.data if rows is None else self.data.take(rows))


@dataclasses.dataclass(frozen=True)
class Training:
    """A trained decoder at its saved moments.

    Attributes:
        run: the weights of the (only) layer at the moments; its clock is "steps".
        following: the same one step later.
        losses: of the batches of the moments.
        v, o: directions of the signal on the input and the output side (`network.decoder.signal`).
    """

    net: Decoder
    data: Sequences
    test: Sequences
    run: Trajectory
    following: Layer
    losses: np.ndarray
    v: Array
    o: Array
    steps_per_epoch: int


def train_decoder(preset: Preset, activation: str, seed: int) -> Training:
    """One run of AdamW from N(0, d^(−2γ)) weights with the paper's schedule."""
    net, data, test = setting(preset, activation)
    theta0 = gaussian_layers(
        jax.random.key(seed), preset.width, rate=preset.rate, hidden_width=preset.hidden_width
    )
    moments = spaced(preset.steps, preset.moments)
    descent = minimise(
        SequenceLoss(net, data),
        theta0,
        samples=data.size,
        optimizer="adamw",
        learning_rate=preset.learning_rate,
        steps=preset.steps,
        batch_size=preset.batch_size,
        clip=preset.clip,
        schedule=schedule(preset),
        key=jax.random.key(BATCHES),
        save_steps=np.union1d(moments, moments + 1),
    )
    run, following, losses = at_moments(descent, descent.states[0], moments)
    v, o, _ = signal(net, data)
    return Training(net, data, test, run, following, losses, v, o, preset.steps_per_epoch)


def setting(preset: Preset, activation: str) -> tuple[Decoder, Sequences, Sequences]:
    """Network, training and test data."""
    data, test = (
        anchor_sequences(count, rule=preset.rule, key=jax.random.key(key))
        for count, key in ((preset.samples, DATA), (preset.test_samples, TEST))
    )
    key = jax.random.key(NETWORK)
    return Decoder(data.vocabulary, preset.width, key=key, activation=activation), data, test


def schedule(preset: Preset) -> WarmUpCosine:
    """Warm-up and cosine of the preset, in steps."""
    return WarmUpCosine(
        preset.warm_up_epochs * preset.steps_per_epoch,
        preset.decay_epochs * preset.steps_per_epoch,
        start=preset.warm_up_start,
    )


def spaced(steps: int, count: int) -> np.ndarray:
    """About `count` evenly spaced steps from 0 to the last but one."""
    return np.unique(np.round(np.linspace(0, steps - 1, count)).astype(int))


def at_moments(
    descent: Descent, layer: Layer, moments: np.ndarray
) -> tuple[Trajectory, Layer, np.ndarray]:
    """The saved moments as a run of one layer of the descent's states, the layer one step later,
    and the losses.

    Raises:
        ValueError: the descent diverged.
    """
    if "diverged_at_step" in descent.stats:
        rule = (
            f"let the training stay finite, which ended at step {descent.stats['diverged_at_step']}"
        )
        raise checks.fail("learning_rate", rule, descent.stats["learning_rate"])
    moments = moments[np.isin(moments + 1, descent.steps)]
    rows = np.searchsorted(np.asarray(descent.steps), moments)
    here = jax.tree.map(lambda W: W[rows], layer)
    after = jax.tree.map(lambda W: W[rows + 1], layer)
    run = Trajectory(moments, here, descent.outcome, stats=descent.stats, clock="steps")
    return run, after, np.asarray(descent.losses)[rows]


def seen_along(o: Float[Array, "d"], layer: Layer) -> Parameters:
    """The layer as weights of a binary network: what it puts out along o.

    For the observables of [CL] that need W^[2] as a vector.
    """
    return Parameters(layer.W_Q, layer.W_K, layer.W_V, layer.W_1, layer.W_2 @ o)
