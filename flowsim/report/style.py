"""One look for all figures: sizes for one and two columns, colours that also read in grey.

Nothing global changes: `figure_style` is a context, entered by every function that draws or saves.
Colours are those of Okabe and Ito; markers tell curves apart where colour is lost, and dashed black
is kept for predictions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ONE_COLUMN = 3.4  # inches
TWO_COLUMNS = 7.0

#: Colour, marker and width of a curve by what it shows. Curves that conservation laws lay on one
#: another are drawn thin over thick, so that both are seen.
CURVES = {
    "W_Q": ("#0072B2", "o", 1.8),
    "W_K": ("#56B4E9", "s", 0.9),
    "W_V": ("#D55E00", "^", 2.4),
    "W_1": ("#E69F00", "v", 1.5),
    "W_2": ("#009E73", "D", 0.9),
    # Directions of a matrix have a shade of its colour.
    "W_V columns to v": ("#D55E00", "^", 1.2),
    "W_V columns to their own direction": ("#7A3600", "X", 1.2),
    "W_V rows to n": ("#F0A070", "P", 1.2),
    "W_1 columns to n": ("#E69F00", "v", 1.2),
    "W_1 rows to m": ("#8F6300", "*", 1.2),
    "W_Q columns to u1": ("#0072B2", "o", 1.2),
    "W_K columns to v1": ("#56B4E9", "s", 1.2),
    # What belongs to no matrix has none of their colours.
    "A1": ("#333333", "*", 1.2),
    "A2": ("#8C8C8C", "D", 1.2),
    "A1 hidden": ("#882255", "P", 1.2),
    "A1 value": ("#CC79A7", "X", 1.2),
    "A2 hidden": ("#332288", "o", 1.2),
    "A2 value": ("#9C8FD0", "s", 1.2),
    # Singular vectors on either side, which turn together.
    "left": ("#0072B2", "o", 2.4),
    "right": ("#D55E00", "^", 0.9),
}
SPARE = [
    ("#0072B2", "o"),
    ("#D55E00", "^"),
    ("#56B4E9", "s"),
    ("#E69F00", "v"),
    ("#009E73", "D"),
    ("#CC79A7", "P"),
    ("#7A5C00", "X"),
    ("#444444", "*"),
]
SYMBOLS = {
    "W_Q": r"$W_Q$",
    "W_K": r"$W_K$",
    "W_V": r"$W_V$",
    "W_1": r"$W^{[1]}$",
    "W_2": r"$W^{[2]}$",
}
DARK, GREY, PALE = "#000000", "#555555", "#F0F0F0"
#: From −1 to 1, growing steadily in lightness.
SIMILARITY_MAP = "cividis"

SETTINGS = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.2,
    "legend.borderaxespad": 0.2,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "axes.formatter.use_mathtext": True,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "svg.hashsalt": "flowsim",
}


@contextmanager
def figure_style() -> Iterator[None]:
    """The settings of flowsim's figures inside the block; the ones from outside after it."""
    from matplotlib import rc_context, rcdefaults, rcParams
    from matplotlib.rcsetup import cycler

    with rc_context():
        rcdefaults()
        rcParams.update(SETTINGS)  # type: ignore[arg-type]
        rcParams["axes.prop_cycle"] = cycler(color=[color for color, _ in SPARE])
        yield


def symbol(name: str) -> str:
    """The paper's symbol of a matrix; other names stand as they are."""
    return SYMBOLS.get(name, name)


def curve_style(name: str, position: int = 0) -> dict[str, Any]:
    """Line settings by name, or by position for a name without settings of its own."""
    color, marker, width = CURVES.get(name, (*SPARE[position % len(SPARE)], 1.2))
    return {
        "color": color,
        "linewidth": width,
        "marker": marker,
        "markevery": (0.06 + 0.025 * (position % 5), 0.2),
        "markeredgewidth": 0,
        "solid_joinstyle": "round",
    }


def prediction_style() -> dict[str, Any]:
    """Fine black dashes over the simulated curves, whose colours show around and between them."""
    return {"color": DARK, "linestyle": (0, (4, 4)), "linewidth": 0.7, "zorder": 4}
