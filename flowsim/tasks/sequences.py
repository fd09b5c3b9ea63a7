"""Sequences of token numbers with the token that answers each."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from flowsim import checks
from flowsim.tasks.task import Task


class Sequences(eqx.Module):
    """n sequences of s token numbers, and the token number that answers each.

    Args:
        tokens: shape (n, s), numbers below `vocabulary`; the last of a sequence is its query.
        answers: shape (n,).
        vocabulary: how many token numbers there are.

    Raises:
        ValueError, TypeError: numbers outside the vocabulary, shapes that do not match.
    """

    tokens: Int[Array, "n s"]
    answers: Int[Array, "n"]
    vocabulary: int = eqx.field(static=True)

    def __init__(self, tokens: Any, answers: Any, vocabulary: int):
        self.vocabulary = checks.integer("vocabulary", vocabulary)
        self.tokens = _numbers("tokens", tokens, 2, self.vocabulary)
        self.answers = _numbers("answers", answers, 1, self.vocabulary)
        checks.same_size("answers", self.answers.size, "axis 0 of tokens", self.tokens.shape[0])

    @property
    def size(self) -> int:
        """Number of sequences n."""
        return self.tokens.shape[0]

    @property
    def length(self) -> int:
        """Tokens a sequence, s."""
        return self.tokens.shape[1]

    def take(self, samples: Any) -> "Sequences":
        """The sequences of these rows."""
        return jax.tree.map(lambda x: x[samples], self)

    def split(self, share: float, *, key: Array) -> tuple["Sequences", "Sequences"]:
        """(training part, test part): `share` of the sequences, rounded, for training.

        Args:
            share: strictly between 0 and 1; both parts must keep a sequence.
            key: of the permutation that deals them out.
        """
        first = round(self.size * checks.between("share", share, 0.0, 1.0))
        if not 0 < first < self.size:
            raise checks.fail("share", f"leave both parts a sequence out of {self.size}", share)
        order = host_generator(key).permutation(self.size)
        tokens, answers = np.asarray(self.tokens), np.asarray(self.answers)
        parts = (order[:first], order[first:])
        one, other = (Sequences(tokens[p], answers[p], self.vocabulary) for p in parts)
        return one, other

    def task(self, width: int, labels: Any, *, key: Array, name: str) -> Task:
        """A binary task: tokens embedded by a fixed Gaussian table (`embedding`), labels ±1."""
        table = embedding(key, self.vocabulary, width)
        return Task(table[self.tokens], labels, name=name)


def host_generator(key: Array) -> np.random.Generator:
    """NumPy's generator, seeded by a key alone: draws on the host need no compilation."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())


def embedding(key: Array, vocabulary: int, width: int) -> Float[Array, "V d"]:
    """A fixed Gaussian embedding, entries N(0, 1/d): tokens of norm about one at every width d."""
    d = checks.width("width", width)
    draw = jax.random.normal(key, (vocabulary, d), dtype=jnp.result_type(float))
    return draw / jnp.asarray(d, draw.dtype) ** 0.5


def _numbers(name: str, value: Any, ndim: int, vocabulary: int) -> Array:
    if checks.is_traced(value):
        return value
    array = np.asarray(value)
    if array.ndim != ndim or array.size == 0:
        raise checks.fail(name, f"have {ndim} axes and not be empty", f"shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers; got dtype {array.dtype}")
    if array.min() < 0 or array.max() >= vocabulary:
        wrong = int(array.min() if array.min() < 0 else array.max())
        raise checks.fail(name, f"be token numbers from 0 to {vocabulary - 1}", wrong)
    return jnp.asarray(array, jnp.int32)
