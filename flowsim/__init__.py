"""flowsim: gradient flows of one-layer transformers from small Gaussian starts."""

__version__ = "0.1.0"
