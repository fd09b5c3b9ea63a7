"""The paper's figures and checks by name."""

from collections.abc import Callable
from typing import Any

from flowsim import checks
from flowsim.experiments.paper import (
    condensation,
    degeneracy,
    figure_1,
    figure_2,
    regimes,
    residual,
    tables,
    text_task,
    theorem_2,
    third_stage,
    variants,
    wikitext,
)
from flowsim.experiments.paper.finding import Finding
from flowsim.experiments.paper.laboratory import Laboratory

Figure = Callable[[Laboratory], Finding]

#: Name → (what it shows, how it is made).
FIGURES: dict[str, tuple[str, Figure]] = {
    "fig1a": ("cosine similarities of rows at the stages", figure_1.similarities),
    "fig1b": ("relative changes, onset of stage 2", figure_1.changes),
    "fig1c": ("effective ranks", figure_1.ranks),
    "fig2a": ("satisfaction of Assumption 1", figure_2.satisfaction),
    "fig2b": ("stability of singular vectors", figure_2.stability),
    "fig2c": ("Frobenius norms", figure_2.norms),
    "fig4": ("Figure 1 without activation", figure_1.without_activation),
    "fig5": ("Figure 2 without activation", figure_2.without_activation),
    "condensation": ("condensation rates over time", condensation.figure),
    "seeds": ("the five seeds, mean and standard deviation", tables.seeds),
    "epochs": ("norms of W_Q and W_2 at epochs", tables.epochs),
    "transition": ("relative changes at the transition", tables.transition),
    "third-stage": ("the condensed state is left again", third_stage.figure),
    "degeneracy": ("how close starts come to Definition 4", degeneracy.figure),
    "theorem2": ("rates of condensation towards the blow-up", theorem_2.figure),
    "gelu": ("first stage with GELU", variants.variant("gelu", "exponential")),
    "silu": ("first stage with SiLU", variants.variant("silu", "exponential")),
    "logistic": ("first stage with the logistic loss", variants.variant("tanh", "logistic")),
    "residual": ("first stage of the residual block", residual.figure),
    "regimes": ("initial scales d^(-γ)", regimes.figure),
    "text": ("both stages on a text (--text FILE)", text_task.figure),
    "wikitext": ("two layers, residuals, GELU on a text (--text FILE)", wikitext.figure),
}
#: Figures that need a text: what it holds, and how it is read.
WITH_TEXT: dict[str, tuple[str, Callable[[Laboratory], Any]]] = {
    "text": ("any text of a few thousand bytes", lambda lab: lab.text_task),
    "wikitext": (
        "words between white space, such as a file of WikiText",
        lambda lab: (lab.words, lab.few_words),
    ),
}


def titles() -> dict[str, str]:
    """Name → what it shows."""
    return {name: about for name, (about, _) in FIGURES.items()}


def chosen(name: str, text: str | None) -> dict[str, Figure]:
    """The figure of a name; "all" leaves out those that need a text if there is none.

    Raises:
        ValueError: an unknown figure, a figure without its text, a text without a figure for it.
    """
    checks.choice("figure", name, ("all", *FIGURES))
    names = list(FIGURES) if name == "all" else [name]
    if text is None and name == "all":
        names = [one for one in names if one not in WITH_TEXT]
    if text is None and name in WITH_TEXT:
        rule = f"name a UTF-8 text file for the figure {name!r}, {WITH_TEXT[name][0]}"
        raise checks.fail("text", rule, text)
    if text is not None and not set(names) & set(WITH_TEXT):
        raise checks.fail("text", f"be left out for the figure {name!r}", text)
    return {one: FIGURES[one][1] for one in names}
