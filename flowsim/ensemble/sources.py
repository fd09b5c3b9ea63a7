"""Where starts come from: unit Gaussian chains, unit Gaussian matrices, given weights.

Each source gives the blow-up of the members first, …, stop − 1. Members of Gaussian sources draw
from fold_in(key, i), i their number, so that they do not depend on how the work is split.
"""

import dataclasses
import hashlib
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float

from flowsim import checks
from flowsim.ensemble.cache import lanes_for
from flowsim.ensemble.gaussian import block_size
from flowsim.ensemble.members import Members
from flowsim.ensemble.series import ORDER
from flowsim.ensemble.solving import chain_members, matrix_members

#: Numbers (members times width) in one shard, at most: some seconds of work, some ten megabytes.
SHARD_NUMBERS = 2**19


@runtime_checkable
class Source(Protocol):
    """What the rest of the ensemble asks of a source of starts."""

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two sources the same."""

    @property
    def block(self) -> int:
        """Shards hold a multiple of this many members."""

    @property
    def numbers(self) -> int:
        """Memory of one start, in numbers."""

    def solve(self, first: int, stop: int, room: int = 0) -> Members:
        """The members first, …, stop − 1, by the program that solves `room` members, if that is
        more: so what is compiled for one shard serves the last, which is shorter."""


@dataclasses.dataclass(frozen=True)
class GaussianChains:
    """Unit Gaussian W_v (h,), W_1 (h, m), W_2 (m,), sampled without matrices."""

    width: int
    hidden_width: int
    seed: int = 0
    lanes: int | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Kind, widths, seed, order of the series and lanes, for equal ones of which times agree
        bit for bit."""
        return {
            "source": "chains",
            "width": self.width,
            "hidden_width": self.hidden_width,
            "seed": self.seed,
            "order": ORDER,
            "lanes": self._lanes,
        }

    @property
    def _lanes(self) -> int:
        return self.lanes or lanes_for(self.numbers)

    @property
    def block(self) -> int:
        """Members drawn by one program."""
        return block_size(self.width, self.hidden_width)

    @property
    def numbers(self) -> int:
        """The larger of the widths."""
        return max(self.width, self.hidden_width)

    def solve(self, first: int, stop: int, room: int = 0) -> Members:
        """On all local devices."""
        sizes, room = (self.width, self.hidden_width), max(room, stop - first)
        return chain_members(jax.random.key(self.seed), first, stop, room, sizes, self._lanes)


@dataclasses.dataclass(frozen=True)
class GaussianMatrices:
    """The same law with matrices: member i is case i of `flowsim blowup --width`."""

    width: int
    hidden_width: int
    seed: int = 0
    block: int = 1

    @property
    def identity(self) -> dict[str, Any]:
        """Kind, widths and seed."""
        return {"source": "matrices"} | {
            name: getattr(self, name) for name in ("width", "hidden_width", "seed")
        }

    @property
    def numbers(self) -> int:
        """Entries of W_1, the largest matrix."""
        return self.width * self.hidden_width

    def solve(self, first: int, stop: int, room: int = 0) -> Members:
        """One by one."""
        key, h, m = jax.random.key(self.seed), self.width, self.hidden_width
        return matrix_members(gaussian_weights(key, i, h, m) for i in range(first, stop))


@partial(jax.jit, static_argnums=(2, 3))
def gaussian_weights(key: Any, i: Any, h: int, m: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """W_v (h,), W_1 (h, m), W_2 (m,) of member i, standard normal."""
    w, W_1, W_2 = jax.random.split(jax.random.fold_in(key, i), 3)
    normal = jax.random.normal
    return normal(w, (h,)), normal(W_1, (h, m)), normal(W_2, (m,))


@dataclasses.dataclass(frozen=True)
class GivenWeights:
    """Weights as they are, stacked over members."""

    W_v: Float[np.ndarray, "count h"]
    W_1: Float[np.ndarray, "count h m"]
    W_2: Float[np.ndarray, "count m"]
    block: int = 1

    @classmethod
    def of(cls, W_v: Any, W_1: Any, W_2: Any) -> "GivenWeights":
        """The source, its arrays checked."""
        w = np.asarray(checks.array("W_v", W_v, ndim=2), np.float64)
        first = np.asarray(checks.array("W_1", W_1, ndim=3), np.float64)
        second = np.asarray(checks.array("W_2", W_2, ndim=2), np.float64)
        checks.same_size("axis 0 of W_v", w.shape[0], "axis 0 of W_1", first.shape[0])
        checks.same_size("axis 0 of W_2", second.shape[0], "axis 0 of W_1", first.shape[0])
        checks.same_size("axis 1 of W_v", w.shape[1], "axis 1 of W_1", first.shape[1])
        checks.same_size("axis 1 of W_2", second.shape[1], "axis 2 of W_1", first.shape[2])
        return cls(w, first, second)

    @property
    def identity(self) -> dict[str, Any]:
        """Kind, shape and a digest of the numbers."""
        digest = hashlib.sha256()
        for array in (self.W_v, self.W_1, self.W_2):
            digest.update(np.ascontiguousarray(array).tobytes())
        count, h, m = self.W_1.shape
        return {
            "source": "given",
            "width": h,
            "hidden_width": m,
            "members": count,
            "sha256": digest.hexdigest(),
        }

    @property
    def numbers(self) -> int:
        """Entries of W_1, the largest matrix."""
        return int(self.W_1[0].size)

    def solve(self, first: int, stop: int, room: int = 0) -> Members:
        """One by one."""
        chosen = range(first, stop)
        return matrix_members((self.W_v[i], self.W_1[i], self.W_2[i]) for i in chosen)


def shard_size(source: Source, count: int) -> int:
    """Members in one shard; it does not depend on devices or processes."""
    size = max(1, SHARD_NUMBERS // source.numbers)
    return -(-min(size, count) // source.block) * source.block
