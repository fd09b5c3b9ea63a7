"""Figures that a notebook shows by themselves, without pyplot."""

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from flowsim.report.style import figure_style

DOTS_PER_INCH = 110


class Picture(Figure):
    """A figure with its own canvas; at the end of a notebook's cell it appears as a PNG image."""

    def __init__(self, width: float, height: float):
        super().__init__(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        """The image that a notebook asks for."""
        image = io.BytesIO()
        with figure_style():
            self.savefig(image, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        return image.getvalue()
