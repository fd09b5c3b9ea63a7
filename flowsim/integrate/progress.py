"""A progress bar on standard error, for long solves on a terminal."""

import math
import sys
from typing import Any


class Progress:
    """Shows how far a solve has come in its own time; silent off a terminal or unless asked."""

    def __init__(self, wanted: bool, t0: float):
        self.t0 = t0
        self.bar: Any = None
        if wanted and sys.stderr.isatty():
            from tqdm import tqdm

            shape = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
            self.bar = tqdm(total=1.0, file=sys.stderr, bar_format=shape, leave=False)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def update(self, t: float, t1: float) -> None:
        """The solve stands at t of t1; t1 may change as events come."""
        if self.bar is None or not math.isfinite(t1) or t1 <= self.t0:
            return
        self.bar.n = min(1.0, max(0.0, (t - self.t0) / (t1 - self.t0)))
        self.bar.set_description_str(f"t = {t:.4g}")
        self.bar.refresh()
