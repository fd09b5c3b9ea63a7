"""Two records side by side: distances, delays, orders."""

from flowsim.compare.descent import DescentComparison as DescentComparison
from flowsim.compare.dispatch import compare as compare
from flowsim.compare.prediction import PredictionComparison as PredictionComparison
