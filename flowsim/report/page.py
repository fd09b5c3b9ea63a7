"""The report page of a run: one self-contained HTML file, without scripts or network."""

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.figures { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; min-width: 0; } figure.large { grid-column: 1 / -1; }
img { max-width: 100%; height: auto; background: white; }
.large img { max-width: none; width: 100%; min-width: 42rem; }
figcaption { font-size: 0.9rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.25rem 0.5rem 0.25rem 0; border-bottom: 1px solid #8886; }
td:first-child { min-width: 5rem; }
@media (max-width: 30rem) { table { font-size: 0.9rem; } td:first-child { min-width: 4.5rem; } }
dt { font-weight: bold; margin-top: 0.5rem; } dd { margin-left: 1rem; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8886; }
.warning { border-left: 0.3rem solid #d55e00; padding-left: 0.75rem; }
"""

#: PNG files of this many pixels' width and more belong to both columns.
LARGE = 1000
CITATION = (
    "Z.-A. Chen and T. Luo, From Condensation to Rank Collapse: A Two-Stage Analysis of "
    "Transformer Training Dynamics, NeurIPS 2025, arXiv 2510.06954."
)


def report_page(
    title: str,
    *,
    figures: Mapping[str, tuple[Path, str]],
    comparison: Sequence[tuple[str, Any, Any, Any]],
    facts: Mapping[str, Any],
    terms: Mapping[str, str],
    configuration: str,
    warning: str | None = None,
) -> str:
    """The page as text.

    Args:
        title: heading.
        figures: name → (PNG file, caption), in order.
        comparison: rows (quantity, predicted, simulated, relative difference).
        facts: further lines, name → value.
        terms: what the page's words mean, term → explanation.
        configuration: the configuration as TOML.
        warning: shown above everything, such as that a run is not trusted.
    """
    parts = [f"<h1>{html.escape(title)}</h1>"]
    if warning:
        parts.append(f'<p class="warning">{html.escape(warning)}</p>')
    header = ("", "predicted", "simulated", "relative difference")
    parts += ["<h2>Prediction and simulation</h2>", _table(header, comparison)]
    parts += ["<h2>The run</h2>", _table(("", ""), list(facts.items()))]
    drawn = [_figure(name, path, caption) for name, (path, caption) in figures.items()]
    parts += ["<h2>Figures</h2>", '<div class="figures">', *drawn, "</div>"]
    explained = [f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in terms.items()]
    parts += ["<h2>Terms</h2>", "<dl>", *explained, "</dl>"]
    parts += ["<h2>Configuration</h2>", f"<pre>{html.escape(configuration)}</pre>"]
    parts += ["<h2>How to cite</h2>", f"<p>{html.escape(CITATION)}</p>"]
    return _document(title, "\n".join(parts))


def _document(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _figure(name: str, path: Path, caption: str) -> str:
    """One figure; those of two columns keep a readable size and scroll on a narrow screen."""
    image = path.read_bytes()
    large = ' class="large"' if int.from_bytes(image[16:20], "big") >= LARGE else ""
    data = base64.b64encode(image).decode("ascii")
    return (
        f'<figure id="{html.escape(name)}"{large}><div class="wide">'
        f'<img alt="{html.escape(caption)}" src="data:image/png;base64,{data}"></div>'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    head = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_shown(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def _shown(value: Any) -> str:
    if value is None:
        return "—"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
