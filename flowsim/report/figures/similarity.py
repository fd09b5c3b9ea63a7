"""Reordered cosine-similarity matrices at the four moments of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from flowsim.observables import reordered_similarity
from flowsim.report.canvas import mark_untrusted, new_figure
from flowsim.report.style import SIMILARITY_MAP, TWO_COLUMNS, figure_style, symbol
from flowsim.trajectory import Trajectory


def moments(run: Trajectory, blow_up_time: Any = None) -> dict[str, float | None]:
    """Times of start, blow-up (predicted if given, else the escape), onset and end on the run's
    clock, in the order of time; None, in its usual place, for what did not happen within it."""
    first, last = float(run.times[0]), float(run.times[len(run) - 1])
    blow_up = run.event_times.get("escape") if blow_up_time is None else blow_up_time
    found = {"start": first, "blow-up": blow_up, "onset": run.event_times.get("onset"), "end": last}
    times = {name: None if time is None else float(time) for name, time in found.items()}
    return _in_order_of_time(
        {k: t if t is not None and first <= t <= last else None for k, t in times.items()}
    )


def _in_order_of_time(times: Mapping[str, float | None]) -> dict[str, float | None]:
    """The known ones sorted, on the places that known ones have; the others stay."""
    known = iter(sorted((time, name) for name, time in times.items() if time is not None))
    pairs = [(name, None) if time is None else next(known)[::-1] for name, time in times.items()]
    return dict(pairs)


def similarity_matrices(
    run: Trajectory,
    matrix: str = "W_Q",
    *,
    axes: Any = None,
    blow_up_time: Any = None,
    at: Mapping[str, float | None] | None = None,
    compact: bool = False,
) -> Any:
    """Cosine similarity of the rows of one matrix at start, blow-up, onset and end (Figure 1a).

    The panels stand in the order of time: the onset may come before the blow-up. Rows are sorted by
    the top eigenvector at each time. Look for: a bare diagonal at the start; two blocks of +1 with
    −1 between them where all rows share one line. W_V and W^[1] show the blocks from the blow-up
    on, W_Q and W_K only well after the onset.

    Args:
        matrix: field of the states.
        axes: four axes; None makes a figure.
        blow_up_time: the predicted T* on the run's clock; None takes the escape.
        at: four other moments, name → time (None: it did not happen).
        compact: small panels without ticks and without a bar of colours of their own.
    Returns:
        The four axes. A moment that did not happen leaves a panel that says so.
    """
    with figure_style():
        if axes is None:
            axes = new_figure(TWO_COLUMNS, 2.1).subplots(1, 4)
        axes = np.asarray(axes, dtype=object).ravel()
        chosen = moments(run, blow_up_time) if at is None else at
        for ax, (name, time) in zip(axes, chosen.items(), strict=True):
            ax.set_title(_heading(name, time, blow_up_time), fontweight="normal", pad=2)
            _panel(ax, run, matrix, time)
            _frame(ax, matrix, compact, first=ax is axes[0])
            mark_untrusted(ax, run, below=True)
        if not compact:
            similarity_bar(axes)
    return axes


def similarity_bar(axes: Any, shrink: float = 0.85) -> None:
    """The bar of colours beside panels, of which one at least has an image."""
    image = next(ax.images[0] for ax in np.ravel(axes) if ax.images)
    bar = image.figure.colorbar(image, ax=axes, shrink=shrink, pad=0.015, ticks=[-1, 0, 1])
    bar.set_label("cosine similarity")


def _panel(ax: Any, run: Trajectory, matrix: str, time: float | None) -> None:
    ax.set_aspect("equal")
    if time is None:
        ax.text(0.5, 0.5, "not reached", transform=ax.transAxes, ha="center", va="center")
        return
    W = jnp.asarray(getattr(run.evaluate(time), matrix))
    ax.imshow(
        np.asarray(reordered_similarity(W)), vmin=-1, vmax=1, cmap=SIMILARITY_MAP,
        interpolation="nearest", rasterized=True,
    )  # fmt: skip


def _frame(ax: Any, matrix: str, compact: bool, first: bool) -> None:
    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])
    if not compact:
        ax.set_xlabel("row, reordered")
    if first and not compact:
        ax.set_ylabel(f"row of {symbol(matrix)}, reordered")


def _heading(name: str, time: float | None, blow_up_time: Any) -> str:
    if time is None or blow_up_time is None:
        return name
    share = time / float(blow_up_time)
    if share in (0.0, 1.0):
        return {0.0: name, 1.0: f"{name} ($T^*$)"}[share]
    return f"{name} ({share:.{3 if abs(share - 1) > 0.01 else 5}f} $T^*$)"


def similarity_gallery(
    run: Trajectory,
    matrices: Sequence[str] = ("W_V", "W_1", "W_Q", "W_K"),
    *,
    blow_up_time: Any = None,
    at: Mapping[str, float | None] | None = None,
) -> Any:
    """`similarity_matrices` of several matrices, one a row; a (matrices, 4) array of axes.

    Look for: blocks in the upper rows (outer matrices) while the lower ones (attention) have none.
    """
    with figure_style():
        figure = new_figure(TWO_COLUMNS, 0.3 + 1.55 * len(matrices))
        axes = figure.subplots(len(matrices), 4, squeeze=False)
        for row, matrix in zip(axes, matrices, strict=True):
            similarity_matrices(
                run, matrix, axes=row, blow_up_time=blow_up_time, at=at, compact=True
            )
            row[0].set_ylabel(f"rows of {symbol(matrix)}")
        similarity_bar(axes, shrink=0.5)
    return axes
