"""Two layers, residuals and GELU on a text: the stages of every layer, over the seeds."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from flowsim.experiments.paper import text_first_stage, text_training
from flowsim.experiments.paper.finding import Claim, Finding, claim, order, together
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.experiments.paper.stages import GROWTH, MATRICES, SHARE, Stages, by_matrix, stages
from flowsim.experiments.paper.stages import first as first_time
from flowsim.experiments.paper.text_training import Text
from flowsim.experiments.paper.third_stage import LEFT, OUTER, departure
from flowsim.experiments.paper.wikitext_picture import draw
from flowsim.network.decoder import signal_matrix

ATTENTION = ("W_Q", "W_K")
HIDDEN = ("W_1", "W_2")


@dataclasses.dataclass(frozen=True)
class Seed:
    """What is kept of one training run: the stages of its layers and its losses."""

    seed: int
    layers: list[Stages]
    steps: np.ndarray
    losses: np.ndarray
    along: list[list[float]]


def figure(lab: Laboratory) -> Finding:
    """Stage order in both layers for every seed, the validation loss, the predicted first stage."""
    text = lab.words
    small = text_first_stage.rows(*lab.few_words, lab.preset.scales)
    seeds = [one_seed(lab, text, seed) for seed in lab.preset.seeds]
    rows = [
        matrix_row(seed, place, seen, name)
        for seed in seeds
        for place, seen in enumerate(seed.layers)
        for name in MATRICES
    ]
    losses = [
        {"seed": s.seed, "validation loss": float(s.losses[-1]), "least": float(s.losses.min()),
         "unigram entropy": text.entropy, "unigram loss": text.unigram} for s in seeds
    ]  # fmt: skip
    claims, table = together(
        {
            "stages": (order_claims(seeds, rows), rows),
            "losses": (loss_claims(text, seeds), losses),
            "first stage": (first_stage_claims(small), small),
        }
    )
    return Finding(claims, table, draw(seeds[0], text, small), about(lab, text))


def one_seed(lab: Laboratory, text: Text, seed: int) -> Seed:
    """Train from a seed; the weights of the layers alone are kept."""
    descent = text_training.train(lab.preset, text, seed)
    layers = [stages(layer) for layer in text_training.by_layer(lab.preset, text, descent)]
    M = signal_matrix(text.loss.net, text.loss.data)
    along = [[cosine_of_growth(seen, W) for W in (jnp.sign(M), M)] for seen in layers]
    return Seed(seed, layers, *text_training.validation_losses(text, descent), along)


def cosine_of_growth(seen: Stages, direction: Any) -> float:
    """cos between what W_V has gained where it has doubled, and a matrix."""
    time = doubling(seen, "W_V")
    at = -1 if time is None else int(np.searchsorted(np.asarray(seen.run.times), time))
    gained = seen.run.states.W_V[at] - seen.run.states.W_V[0]
    return float(jnp.vdot(gained, direction) / jnp.linalg.norm(gained) / jnp.linalg.norm(direction))


def doubling(seen: Stages, name: str) -> float | None:
    """The step at which a matrix's norm has grown by the factor `GROWTH`."""
    norm = seen.norms[name]
    return first_time(np.asarray(seen.run.times), norm >= GROWTH * norm[0])


def matrix_row(seed: Seed, place: int, seen: Stages, name: str) -> dict[str, Any]:
    """One matrix of one layer of one seed."""
    rank = seen.ranks[name]
    halved = first_time(np.asarray(seen.run.times), rank <= rank[0] / 2)
    return {
        "seed": seed.seed,
        "layer": place + 1,
        **departure(seen, name),
        "norm doubled at step": doubling(seen, name),
        "rank halved at step": halved,
        "rank at the start": float(rank[0]),
        "largest rate": float(by_matrix(seen)[name].max()),
    }


def order_claims(seeds: list[Seed], rows: list[dict[str, Any]]) -> list[Claim]:
    """Who goes first, in every layer of every seed."""
    layers = [
        {row["matrix"]: row for row in rows if (row["seed"], row["layer"]) == (s.seed, place + 1)}
        for s in seeds
        for place in range(len(s.layers))
    ]
    doubled, halved, condensed = (
        "norm doubled at step", "rank halved at step", "condensed at step",
    )  # fmt: skip

    def tested(sentence: str, names: Any, event: str, others: Any, other_event: str) -> Claim:
        pairs = [
            [latest(layer, names, event), earliest(layer, others, other_event)] for layer in layers
        ]
        held = [a is not None and (b is None or a < b) for a, b in pairs]
        return claim(f"{sentence} (layers of all seeds: {sum(held)} of {len(held)})", all(held),
                     pairs)  # fmt: skip

    left = [
        [earliest(layer, OUTER, "left at step"), latest(layer, ATTENTION, condensed)]
        for layer in layers
    ]
    dissolved = [a is not None and b is not None and a > b for a, b in left]
    return [
        tested("W_V doubles before W_Q and W_K", ("W_V",), doubled, ATTENTION, doubled),
        tested("W_V doubles before W_1 and W_2", ("W_V",), doubled, HIDDEN, doubled),
        tested("W_V, W_1, W_2 lose half their effective rank before W_Q or W_K has doubled",
               OUTER, halved, ATTENTION, doubled),
        tested(f"{SHARE:.0%} of the neurons of W_1 and W_2 are condensed before that",
               HIDDEN, condensed, ATTENTION, doubled),
        tested(f"and {SHARE:.0%} of the columns of W_V", ("W_V",), condensed, ATTENTION, doubled),
        tested("W_V, W_1, W_2 lose half their effective rank before W_Q or W_K does",
               OUTER, halved, ATTENTION, halved),
        claim(f"later the condensed state dissolves: W_V, W_1 or W_2 falls below {LEFT:.0%} on one "
              "line for good, after W_Q and W_K have condensed (layers of all seeds: "
              f"{sum(dissolved)} of {len(dissolved)})", all(dissolved), left),
    ]  # fmt: skip


def latest(layer: dict[str, Any], names: Any, event: str) -> float | None:
    """The last of the matrices' events; None if one did not happen."""
    times = [layer[name][event] for name in names]
    return None if None in times else max(times)


def earliest(layer: dict[str, Any], names: Any, event: str) -> float | None:
    """The first of the matrices' events; None if none happened."""
    return min((t for name in names if (t := layer[name][event]) is not None), default=None)


def loss_claims(text: Text, seeds: list[Seed]) -> list[Claim]:
    """Against what a model of word frequencies reaches, and the direction that AdamW takes."""
    ends = [float(s.losses[-1]) for s in seeds]
    cosines = [c for s in seeds for c in s.along]
    return [
        claim("the validation loss is below the unigram entropy of the text, for every seed",
              max(ends) < text.entropy, [ends, text.entropy]),
        claim("and below the loss of the text's frequencies on the same windows",
              max(ends) < text.unigram, [ends, text.unigram]),
        claim("what W_V has gained where it has doubled is closer to the signs of the predicted M, "
              "the direction of Adam's steps, than to M: cosines to both",
              all(signs > plain for signs, plain in cosines), cosines),
    ]  # fmt: skip


def first_stage_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    """The gradient flow of a small network: orders in ε, and descent against it."""
    scales = [row["scale"] for row in rows]
    value, rest = (
        order(scales, [row[name] for row in rows])
        for name in ("error of W_V", "movement of the others")
    )
    few, more = (
        [row[f"descent in {steps} steps"] for row in rows] for steps in text_first_stage.STEPS
    )
    ratios = [a / b for a, b in zip(few, more, strict=True)]
    return [
        claim("in the gradient flow every W_V grows as predicted, error O(ε): order ≥ 0.9",
              value is not None and value >= 0.9, value),
        claim("while W_Q, W_K, W_1, W_2 have moved by O(ε²) of their size: order 2 ± 0.2",
              rest is not None and abs(rest - 2) < 0.2, rest),
        claim("gradient descent in twice the steps misses the flow by half as much (to 10 %)",
              all(abs(ratio / 2 - 1) < 0.1 for ratio in ratios), ratios),
    ]  # fmt: skip


def about(lab: Laboratory, text: Text) -> str:
    """What the training run is, in a few sentences."""
    p, data = lab.preset, text.loss.data
    return (
        f"{p.text_layers} layers with residuals and GELU, d = {p.text_width}, feed-forward "
        f"{p.text_hidden_width}, {p.text_heads} head(s), embedding and output {p.text_tables}; "
        f"{len(text.vocabulary)} words ({text.vocabulary.shares[0]:.0%} of the text are <unk>); "
        f"{data.size} windows of {data.length} words, {text.validation.size} for validation from "
        f"the text's last {1 - p.text_share:.0%}; start N(0, d^(-2γ)), γ = {p.text_rate:g}; AdamW "
        f"with batches of {p.text_batch_size}, {p.text_steps} steps, learning rate "
        f"{p.text_learning_rate:g} after {p.text_warm_up} steps of warm-up, cosine over "
        f"{p.text_decay}, clip {p.clip:g}; loss of the last token. Times are steps."
    )
