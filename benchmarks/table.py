"""The results in words and tables, from the JSON files alone.

python -m benchmarks.table [FOLDER]      # the short table of the README
python -m benchmarks.table --page        # writes FOLDER/README.md, every row of every benchmark
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import OURS, RESULTS, Row
from flowsim import storage
from flowsim.report import markdown_table

#: Digits that count as equal accuracy: a peer may be this much less exact and still be preferred.
SLACK = 0.5
#: Enough digits for anyone: beyond them a peer need not be as exact.
ENOUGH = 14.0
#: Times closer than this are the same.
TIE = 0.95
LEGEND = (
    "Milliseconds of one solution, compiled and warm (ensembles: processor time of one start). The "
    "best other is the quickest that is as exact, to half a digit or to 14 digits; if none is, the "
    "quickest. **Other ÷ flowsim above 1: flowsim is quicker.** Digits are the correct ones of "
    "T\\* (full model, planted task: of the final state)."
)


def records(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Every record in a folder, by name."""
    return {path.stem: storage.read_json(path) for path in sorted(folder.glob("*.json"))}


def by_problem(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows that compare solvers, by their problem, ours first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("times ours") is not None:
            found.setdefault(row["problem"], []).append(row)
    return found


def ours_of(rows: Sequence[Row]) -> Row:
    """The row that the others are compared with."""
    return next(row for row in rows if row["times ours"] == 1)


def peers_of(rows: Sequence[Row]) -> list[Row]:
    """The rows of other packages, quickest first."""
    others = [row for row in rows if not row["solver"].startswith(OURS)]
    return sorted(others, key=lambda row: row["ms"])


def as_exact(row: Row, ours: Row) -> bool:
    """Whether a peer's answer is about as good as ours, as far as both are known."""
    mine, theirs = ours.get("digits"), row.get("digits")
    return mine is None or theirs is None or theirs >= min(mine, ENOUGH) - SLACK


def slower(found: dict[str, dict[str, Any]], *, exact: bool = False) -> Iterator[str]:
    """Where peers are quicker than flowsim, in words; `exact`: only those that are as exact."""
    for record in found.values():
        for problem, rows in by_problem(record["rows"]).items():
            ours = ours_of(rows)
            quicker = [row for row in peers_of(rows) if row["times ours"] < TIE]
            if exact:
                quicker = [row for row in quicker if as_exact(row, ours)]
            if quicker:
                yield f"{problem}: " + ", ".join(_words(row, ours) for row in quicker)


def _words(row: Row, ours: Row) -> str:
    text = f"{row['solver']} takes {row['times ours']:.2g} of flowsim's time"
    if as_exact(row, ours):
        return text
    return f"{text} for {row['digits']:.1f} digits instead of {ours['digits']:.1f}"


def short(found: dict[str, dict[str, Any]]) -> list[Row]:
    """One row a problem: flowsim, and the quickest peer that is as exact (else the quickest)."""
    chosen = []
    for record in found.values():
        for problem, rows in by_problem(record["rows"]).items():
            ours, others = ours_of(rows), peers_of(rows)
            if not others:
                continue
            best = next((row for row in others if as_exact(row, ours)), others[0])
            chosen.append(
                {
                    "problem": problem,
                    "flowsim (ms)": ours["ms"],
                    "flowsim digits": _rounded(ours.get("digits")),
                    "best other": best["solver"],
                    "other (ms)": best["ms"],
                    "other digits": _rounded(best.get("digits")),
                    "other ÷ flowsim": best["times ours"],
                }
            )
    return chosen


def _rounded(digits: float | None) -> float | None:
    return None if digits is None else round(digits, 1)


def limits(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Shares of what the machine can do, and what a user waits for, in words."""
    for row in found.get("gradient", {"rows": []})["rows"]:
        if row["products by"] == "JAX":
            share = 100 * row["share, performed"]
            yield f"gradient, {row['problem']}: {share:.0f} % of the matrix-product rate"
    for row in found.get("bandwidth", {"rows": []})["rows"]:
        share = 100 * row["share"]
        yield f"rate of the reduced system, {row['problem']}: {share:.0f} % of memory bandwidth"
    yield from descents(found)
    for row in found.get("first_result", {"rows": []})["rows"]:
        if row.get("bound") is not None:
            ratio = row.get("ratio")
            amount = f"{row['seconds']:.2g} s" if ratio is None else f"{ratio:.2f} × import diffrax"
            yield f"{row['what']}: {amount}"


def descents(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Gradient evaluations of gradient descent over those of the flow, in words."""
    for problem, rows in by_problem(found.get("full_model", {"rows": []})["rows"]).items():
        ours = ours_of(rows)["evaluations"]
        for row in rows:
            if row["solver"].startswith("descent, error"):
                times = row["evaluations"] / ours
                yield f"{problem}: {row['solver']} takes {times:.3g} × flowsim's gradients"


def machine_line(record: dict[str, Any]) -> str:
    """Processor, cores, versions, in one line."""
    at = record["machine"]
    load, cores = at.get("load_average"), at.get("usable_cores") or at["cores"]
    versions = ", ".join(f"{k} {v}" for k, v in at.get("versions", {}).items() if v)
    parts = [
        at["processor"],
        "1 core" if cores == 1 else f"{cores} cores",
        None if load is None else f"load {load:.1f}",
        f"Python {at['python']}",
        versions,
    ]
    return ", ".join(part for part in parts if part)


def page(folder: Path = RESULTS) -> str:
    """Every row of every benchmark, each with its machine and peak memory."""
    found = records(folder)
    parts = ["# Benchmarks", "`make bench` writes this page.", readme(found)]
    parts.append(
        "\n".join(
            ["Every other that is quicker by more than 5 %, whatever its accuracy:\n"]
            + [f"- {words}" for words in slower(found)]
        )
    )
    for name, record in found.items():
        parts += [
            f"## {name}",
            record.get("about", "").replace("\n    ", "\n\n    ", 1).strip(),
            f"{machine_line(record)}; peak memory {record.get('peak_memory_mib', 0):.0f} MiB.",
            f"![{name}]({name}.png)" if (folder / f"{name}.png").exists() else "",
            markdown_table(record["rows"]),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def readme(found: dict[str, dict[str, Any]]) -> str:
    """The short table, the limits, and where flowsim is slower."""
    compared = short(found)
    if not compared:
        return ""
    first = next(r for r in found.values() if by_problem(r["rows"]))
    worse = list(slower(found, exact=True))
    parts = [
        f"On {machine_line(first)}:",
        markdown_table(compared, digits=3),
        LEGEND,
        _listed("**Where flowsim is slower** by more than 5 % at equal accuracy:", worse),
        _listed("Shares of what the machine can do, and what a user waits for:", limits(found)),
    ]
    return "\n\n".join(part for part in parts if part)


def _listed(title: str, lines: Iterable[str]) -> str:
    """A title and a list; a dash if there is nothing to list."""
    return "\n".join([title, "", *(f"- {line}" for line in list(lines) or ["nowhere here"])])


def write_page(folder: Path = RESULTS) -> Path:
    """Write `folder/README.md`; its path."""
    path = folder / "README.md"
    storage.write_text(path, page(folder))
    return path


def main() -> None:
    """Print or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help="write FOLDER/README.md")
    options = parser.parse_args()
    print(write_page(options.folder) if options.page else readme(records(options.folder)))


if __name__ == "__main__":
    main()
