"""Runs that several figures share, made once each."""

import functools
from typing import Any

import jax

from flowsim.blow_up import blow_up_time
from flowsim.experiments.paper.presets import Preset
from flowsim.experiments.paper.stages import Stages, stages
from flowsim.experiments.paper.text_first_stage import problem
from flowsim.experiments.paper.text_training import Text, TextLoss, read
from flowsim.experiments.paper.training import Training, train_decoder
from flowsim.flows.leading_order import outer
from flowsim.network import Parameters, gaussian_parameters
from flowsim.network.decoder import Layers
from flowsim.tasks import Task, anchor, text

#: Key of the binary task.
TASK = 5


class Laboratory:
    """What figures work with at one preset: trained decoders, the binary task and its start.

    Args:
        preset: the sizes.
        text: path of a text file, for figures that need one.
    """

    def __init__(self, preset: Preset, text: str | None = None):
        self.preset = preset
        self.text: Any = text
        self._trained: dict[tuple[str, int], Training] = {}
        self._stages: dict[tuple[str, int], Stages] = {}

    def trained(self, activation: str = "tanh", seed: int | None = None) -> Training:
        """The decoder trained from a seed, the first of the preset by default."""
        chosen = (activation, self.preset.seeds[0] if seed is None else seed)
        if chosen not in self._trained:
            self._trained[chosen] = train_decoder(self.preset, *chosen)
        return self._trained[chosen]

    def stages(self, activation: str = "tanh", seed: int | None = None) -> Stages:
        """The stages of that training run."""
        chosen = (activation, self.preset.seeds[0] if seed is None else seed)
        if chosen not in self._stages:
            self._stages[chosen] = stages(self.trained(*chosen))
        return self._stages[chosen]

    def about(self, activation: str = "tanh") -> str:
        """What a training run is, in a sentence."""
        p = self.preset
        return (
            f"One-layer decoder on the anchor function ({p.rule} anchors), d = {p.width}, "
            f"feed-forward {p.hidden_width}, {activation}; embedding and output fixed, N(0, 1/d); "
            f"start N(0, d^(-2γ)), γ = {p.rate:g}; {p.samples} sequences, AdamW with batches of "
            f"{p.batch_size}, {p.epochs} epochs, learning rate {p.learning_rate:g} after "
            f"{p.warm_up_epochs} epochs of warm-up, cosine over {p.decay_epochs}, clip {p.clip:g}; "
            f"looked at every {max(1, p.steps / p.moments):.3g} of {p.steps} steps."
        )

    @functools.cached_property
    def task(self) -> Task:
        """The anchor function as a binary task."""
        p = self.preset
        return anchor(
            p.task_samples,
            p.task_width,
            length=p.task_length,
            rule=p.rule,
            key=jax.random.key(TASK),
        )

    @functools.cached_property
    def text_task(self) -> Task:
        """Windows of bytes of the text as a binary task: does a space follow?"""
        p = self.preset
        return text(self.text, p.task_width, length=p.task_length, samples=p.task_samples)

    @functools.cached_property
    def words(self) -> Text:
        """Windows of words of the text, and the network that learns them."""
        return read(self.preset, self.text)

    @functools.cached_property
    def few_words(self) -> tuple[TextLoss, Layers]:
        """A small network on words of the text, and unit weights for it."""
        return problem(self.preset, self.text)

    def unit_start(self) -> Parameters:
        """Weights of scale 1 for the binary task: a start is ε times these."""
        return gaussian_parameters(
            jax.random.key(self.preset.seeds[0]), self.preset.task_width, scale=1.0
        )

    def blow_up_time(self, direction: Any) -> float:
        """T̄* of the leading-order flow from the unit start, in rescaled time t̄ = κεt."""
        return float(blow_up_time(*outer(self.unit_start(), direction)).time)
