"""All benchmarks, each in a process of its own, and the page made from their results.

    python -m benchmarks [NAME …] [--toy] [--out FOLDER]

A result is written as soon as its benchmark is done; one that fails or takes too long leaves the
earlier result in place, and the others go on. With --toy nothing is kept unless --out says where.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import table
from benchmarks.harness import RESULTS

#: Seconds after which a benchmark begins no further row: twelve minutes in all.
SECONDS = {
    "first_result": 80,
    "blow_up_single": 130,
    "work_precision": 50,
    "ensembles": 130,
    "full_model": 140,
    "stiff": 50,
    "gradient": 40,
    "bandwidth": 20,
    "growth": 70,
    "gpu": 10,
}
#: Run by name only.
LONGER = {"decoder_step": 40, "descent": 300, "escape": 120, "prediction": 900}
#: A benchmark is stopped at this multiple of its seconds.
PATIENCE = 2.0


def run(name: str, options: list[str]) -> bool:
    """One benchmark in its own process, so that peak memory and a crash are its own."""
    seconds = (SECONDS | LONGER)[name]
    command = [sys.executable, "-m", f"benchmarks.{name}", "--seconds", str(seconds), *options]
    print(f"== {name}", flush=True)
    began = time.monotonic()
    try:
        done = subprocess.run(command, timeout=PATIENCE * seconds).returncode == 0
    except subprocess.TimeoutExpired:
        done = False
    print(f"== {name} {'took' if done else 'FAILED after'} {time.monotonic() - began:.0f} s\n")
    return done


def main() -> int:
    """Run what is named, or all; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SECONDS | LONGER))
    parser.add_argument("--toy", action="store_true", help="tiny sizes: do they run at all?")
    parser.add_argument("--out", type=Path, help="folder of the results")
    options = parser.parse_args()
    if unknown := set(options.names) - set(SECONDS | LONGER):
        parser.error(f"NAME must be of {', '.join(SECONDS | LONGER)}; got {', '.join(unknown)}")
    passed = ["--toy"] if options.toy else []
    passed += ["--out", str(options.out)] if options.out else []
    done = [run(name, passed) for name in options.names or SECONDS]
    if not options.toy or options.out:
        folder = options.out or RESULTS
        print(f"== {table.write_page(folder)}")
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
