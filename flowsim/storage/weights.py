"""Weights for the blow-up problem, from a file."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from flowsim import checks
from flowsim.storage.reading import read_json, read_npz, refusal

AXES = {"W_v": 1, "W_1": 2, "W_2": 1}


def load_weights(
    path: str | os.PathLike, *, name: str = "path"
) -> tuple[Float[np.ndarray, "h"], Float[np.ndarray, "h m"], Float[np.ndarray, "m"]]:
    """W_v (h,), W_1 (h, m), W_2 (m,) from .npz, or from .json with nested lists of numbers.

    Raises:
        ValueError: another kind of file, a name that is missing, entries that are not finite
            numbers, shapes that do not chain.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".npz", ".json"):
        raise checks.fail(name, "be a file named .npz or .json", str(path))
    found: Any = read_npz(path, name=name) if suffix == ".npz" else read_json(path, name=name)
    missing = [key for key in AXES if not isinstance(found, dict) or key not in found]
    if missing:
        raise refusal(name, path, suffix, f"with W_v, W_1 and W_2: {', '.join(missing)} missing")
    W_v, W_1, W_2 = (_matrix(key, found[key], ndim) for key, ndim in AXES.items())
    checks.same_size("axis 0 of W_1", W_1.shape[0], "W_v", W_v.shape[0])
    checks.same_size("axis 1 of W_1", W_1.shape[1], "W_2", W_2.shape[0])
    return W_v, W_1, W_2


def _matrix(key: str, value: Any, ndim: int) -> np.ndarray:
    """A float64 array; checked here and not by `checks.array`, which follows JAX's precision."""
    try:
        value = np.asarray(value)
        if value.dtype.kind not in "iuf":
            raise ValueError
        value = value.astype(np.float64)
    except (ValueError, OverflowError) as error:
        raise checks.fail(key, "be a rectangular array of real numbers", value) from error
    if value.ndim != ndim or value.size == 0:
        raise checks.fail(key, f"have {ndim} axes, none empty", f"shape {value.shape}")
    if not np.isfinite(value).all():
        raise checks.fail(key, "be finite", value[~np.isfinite(value)][0])
    return value
