"""A sample of the windows of a stream that need not fit in memory."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int


def reservoir(
    pieces: Iterable[np.ndarray], length: int, wanted: int, rng: np.random.Generator
) -> Int[np.ndarray, "kept length"]:
    """Runs of successive numbers, each place of the stream equally likely (Vitter's algorithm R).

    The k-th window takes a place among the first k that is drawn evenly, and so the row of that
    number, if there is one.

    Args:
        pieces: the stream, cut anywhere.
        length: numbers a window.
        wanted: windows; fewer if the stream has no more.
        rng: of the draws, one for every window after the first `wanted`.
    """
    parts: list[np.ndarray] = [np.empty((0, length), np.int32)]
    kept: np.ndarray | None = None
    seen, rest = 0, np.empty(0, np.int32)
    for piece in pieces:
        run = np.concatenate([rest, piece], dtype=np.int32)
        rest = run[max(0, run.size - length + 1) :].copy()
        if run.size < length:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(run, length)
        free = min(max(0, wanted - seen), len(windows))
        if free:
            parts.append(windows[:free].copy())
        if free < len(windows):
            kept = np.concatenate(parts) if kept is None else kept
            _exchange(kept, windows[free:], seen + free, rng)
        seen += len(windows)
    return np.concatenate(parts) if kept is None else kept


def _exchange(kept: np.ndarray, windows: np.ndarray, before: int, rng: np.random.Generator) -> None:
    """Windows that follow the first `before` ones take the rows of their places."""
    counts = np.arange(before + 1, before + len(windows) + 1)
    places = (rng.random(len(windows)) * counts).astype(np.int64)
    for window in np.flatnonzero(places < len(kept)):  # in order: a later one takes the row again
        kept[places[window]] = windows[window]
