"""The anchor function: an anchor says which token counts and how far to shift it.

The authors' synthetic data (theory.md, section 13).
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from flowsim import checks
from flowsim.tasks.sequences import Sequences, host_generator
from flowsim.tasks.task import Task

ANCHORS = (1, 2, 3, 4)
#: Keys are the numbers from FIRST_KEY to LAST_KEY; the vocabulary has VOCABULARY numbers.
FIRST_KEY, LAST_KEY, VOCABULARY = 5, 100, 201
RULES = ("synonymous", "shift")


def anchor_sequences(
    samples: int = 1000,
    *,
    length: int = 10,
    rule: str = "synonymous",
    key: Any = None,
) -> Sequences:
    """Sequences of keys with one anchor among all but the last position.

    The answer is the key after the anchor, shifted by the anchor: by its number with "shift"; by
    its number mod 2 with "synonymous", which makes {1, 3} and {2, 4} synonymous anchors.

    Args:
        samples: n.
        length: tokens a sequence, s ≥ 2.
        rule: "synonymous" or "shift".
        key: of all draws; None is `jax.random.key(0)`.
    """
    n = checks.integer("samples", samples)
    s = checks.integer("length", length, low=2)
    rule = checks.choice("rule", rule, RULES)
    rng = host_generator(_key(key))
    tokens = rng.integers(FIRST_KEY, LAST_KEY, (n, s), endpoint=True)
    anchors = rng.choice(ANCHORS, n)
    places = rng.integers(0, s - 1, n)
    rows = np.arange(n)
    tokens[rows, places] = anchors
    shift = anchors if rule == "shift" else anchors % 2
    return Sequences(tokens, tokens[rows, places + 1] + shift, VOCABULARY)


def anchor(
    samples: int = 1000,
    width: int = 16,
    *,
    length: int = 10,
    rule: str = "synonymous",
    key: Any = None,
) -> Task:
    """The anchor function as a binary task: is the answer in the upper half of the keys (+1)?

    Tokens are embedded by a fixed Gaussian table with entries N(0, 1/d). Arguments as for
    `anchor_sequences`; `width` is the token width d.
    """
    data_key, table_key = jax.random.split(_key(key))
    found = anchor_sequences(samples, length=length, rule=rule, key=data_key)
    return found.task(width, upper_half(found.answers), key=table_key, name="anchor")


def upper_half(answers: Any) -> Any:
    """+1 where the answer lies in the upper half of the keys, −1 elsewhere."""
    return np.where(np.asarray(answers) > (FIRST_KEY + LAST_KEY) // 2, 1.0, -1.0)


def _key(key: Any) -> Array:
    return jax.random.key(0) if key is None else checks.key("key", key)
