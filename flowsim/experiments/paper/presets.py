"""Sizes at which the paper's experiments run."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

from flowsim import checks
from flowsim.experiments import config as configuration
from flowsim.tasks.anchor import RULES

#: Seeds of the authors' robustness run (theory.md, section 11).
SEEDS = (1843, 1984, 2000, 2025, 2048)


@dataclasses.dataclass(frozen=True)
class Preset:
    """Every size of the paper's figures.

    The decoder on the anchor function, trained by AdamW (theory.md, section 13):

    `width` d, `hidden_width` m; `samples` for training and `test_samples`; `batch_size`, `epochs`;
    `rate` γ of the start N(0, d^(−2γ)); `learning_rate` at the end of a warm-up over
    `warm_up_epochs` from `warm_up_start` times it, then half a cosine over `decay_epochs`; `clip`
    of the gradient's norm; `rule` of the labels; `moments` saved steps, each with the one after it.

    The binary network of the theory: `task_samples`, `task_length`, `task_width`; `scales` ε of
    its starts, falling; `rates` γ for the regimes, rising; `census_count` starts of width
    `census_width`; `residual_time` in training time.

    The decoder with residuals and GELU on a text of words, its sizes under `text_`: `width`,
    `hidden_width`, `layers`, `heads`; `tables`, whether embedding and output are "learned" too or
    "fixed"; `vocabulary` words told apart; windows of `length` words, `windows` of them from the
    first `share` of the text for training and `validation` of them from the rest; `batch_size`,
    `steps`; `rate` γ; `learning_rate` after `warm_up` steps, half a cosine over `decay` steps;
    `moments` saved steps.

    The defaults are `small`. What was chosen for it, so that the stages show in minutes at d = 64:
    a larger γ than the authors' 0.85 (Adam divides by gradients that are small but above its
    ε = 1e-8, so W_Q and W_K stand still only while their gradients are below; at γ = 1.5 they set
    out before the neurons are condensed), a higher learning rate with a warm-up of 160 steps, and
    450 epochs, until the third stage has come. On the text γ = 2 rather than the authors' 1.2, for
    the same reason, and learned tables.
    """

    width: int = 64
    hidden_width: int = 128
    samples: int = 2000
    test_samples: int = 500
    batch_size: int = 500
    epochs: int = 450
    rate: float = 1.65
    learning_rate: float = 1.5e-3
    warm_up_epochs: int = 40
    warm_up_start: float = 1 / 15
    decay_epochs: int = 1000
    clip: float = 1.0
    rule: str = "synonymous"
    seeds: tuple[int, ...] = SEEDS
    moments: int = 360
    task_samples: int = 300
    task_length: int = 10
    task_width: int = 16
    scales: tuple[float, ...] = (1e-2, 3e-3, 1e-3, 3e-4)
    rates: tuple[float, ...] = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    census_width: int = 16
    census_count: int = 100_000
    residual_time: float = 2000.0
    text_width: int = 64
    text_hidden_width: int = 256
    text_layers: int = 2
    text_heads: int = 1
    text_tables: str = "learned"
    text_vocabulary: int = 2000
    text_length: int = 64
    text_windows: int = 60_000
    text_validation: int = 1000
    text_share: float = 0.9
    text_batch_size: int = 128
    text_steps: int = 600
    text_rate: float = 2.0
    text_learning_rate: float = 1e-3
    text_warm_up: int = 100
    text_decay: int = 1500
    text_moments: int = 80

    @property
    def steps_per_epoch(self) -> int:
        """Batches an epoch."""
        return self.samples // self.batch_size

    @property
    def steps(self) -> int:
        """Steps of a training run."""
        return self.epochs * self.steps_per_epoch


#: What `paper` changes. The number of samples is not stated by the authors; with 100 steps an
#: epoch the condensation condition is met within their 200 steps.
PAPER: dict[str, Any] = {
    "width": 640,
    "hidden_width": 1280,
    "samples": 100_000,
    "test_samples": 10_000,
    "batch_size": 1000,
    "epochs": 30,
    "rate": 0.85,
    "learning_rate": 1.5e-4,
    "warm_up_epochs": 10,
    "decay_epochs": 200,
    "moments": 60,
    "text_hidden_width": 800,
    "text_vocabulary": 31_999,
    "text_length": 2048,
    "text_batch_size": 500,
    "text_steps": 2000,
    "text_rate": 1.2,
    "text_learning_rate": 2e-4,
    "text_warm_up": 200,
    "text_decay": 2000,
}
#: What `text_tables` may be.
TABLES = ("learned", "fixed")
#: The least of what must be more than one: rows to compare, moments, a tail to fit.
LEAST = {
    "width": 2,
    "hidden_width": 2,
    "moments": 2,
    "task_length": 2,
    "task_width": 2,
    "census_count": 100,
    "text_moments": 2,
    "text_steps": 2,
}
PRESETS: dict[str, dict[str, Any]] = {"small": {}, "paper": PAPER}


def preset_of(name: str, changes: dict[str, Any] | None = None) -> Preset:
    """The preset of a name with some of its values changed.

    Raises:
        ValueError, TypeError: an unknown preset or key, a value out of range.
    """
    values = PRESETS[checks.choice("preset", name, PRESETS)] | (changes or {})
    preset = configuration.build(Preset, values)
    for key, value in dataclasses.asdict(preset).items():
        if isinstance(value, int):
            check = checks.width if key.endswith("width") else checks.integer
            check(key, value, low=LEAST.get(key, 1))
        elif isinstance(value, float):
            checks.positive(key, value)
    for key, check_one in EACH.items():
        values = getattr(preset, key)
        if not values:
            raise checks.fail(key, "not be empty", values)
        for value in values:
            check_one(key, value)
    _row("scales", preset.scales, "fall", -1)
    _row("rates", preset.rates, "rise", 1)
    for key in ("rate", "text_rate"):
        _rate(key, getattr(preset, key))
    checks.between("warm_up_start", preset.warm_up_start, 0.0, 1.0, closed=(True, True))
    checks.choice("rule", preset.rule, RULES)
    checks.choice("text_tables", preset.text_tables, TABLES)
    checks.between("text_share", preset.text_share, 0.0, 1.0)
    if preset.batch_size > preset.samples:
        rule = f"be at most the number of samples, {preset.samples}"
        raise checks.fail("batch_size", rule, preset.batch_size)
    return preset


def _scale(name: str, value: float) -> float:
    """ε: large enough that no product of weights vanishes, not larger than one."""
    return checks.between(name, value, 1e-12, 1.0, closed=(True, True))


def _rate(name: str, value: float) -> float:
    """γ, of which the same holds."""
    return checks.between(name, value, 0.0, 6.0, closed=(False, True))


#: What each value of a list must be.
EACH: dict[str, Callable[[str, Any], Any]] = {
    "seeds": checks.seed,
    "scales": _scale,
    "rates": _rate,
}


def _row(name: str, values: tuple[float, ...], direction: str, sign: int) -> None:
    """Two values or more, or no order could be fitted to them; in their order."""
    if len(values) < 2 or any(sign * (b - a) <= 0 for a, b in itertools.pairwise(values)):
        raise checks.fail(name, f"be two values or more that {direction}", values)
