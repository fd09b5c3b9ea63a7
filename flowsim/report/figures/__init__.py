"""Figures: every function takes `ax` (or makes a figure), returns Axes and never shows anything."""

from flowsim.report.figures.descent import batch_sizes as batch_sizes
from flowsim.report.figures.descent import descent_distances as descent_distances
from flowsim.report.figures.descent import descent_lags as descent_lags
from flowsim.report.figures.descent import descent_orders as descent_orders
from flowsim.report.figures.descent import sharpness as sharpness
from flowsim.report.figures.ensembles import energy_sign as energy_sign
from flowsim.report.figures.ensembles import (
    predicted_against_simulated as predicted_against_simulated,
)
from flowsim.report.figures.ensembles import survival_curve as survival_curve
from flowsim.report.figures.ensembles import width_scaling as width_scaling
from flowsim.report.figures.growth import change_rates as change_rates
from flowsim.report.figures.growth import loss as loss
from flowsim.report.figures.growth import norms as norms
from flowsim.report.figures.growth import rate_crossing as rate_crossing
from flowsim.report.figures.overview import two_stage_overview as two_stage_overview
from flowsim.report.figures.prediction import departure as departure
from flowsim.report.figures.prediction import predictions as predictions
from flowsim.report.figures.similarity import similarity_gallery as similarity_gallery
from flowsim.report.figures.similarity import similarity_matrices as similarity_matrices
from flowsim.report.figures.structure import condensation as condensation
from flowsim.report.figures.structure import condensation_condition as condensation_condition
from flowsim.report.figures.structure import effective_ranks as effective_ranks
from flowsim.report.figures.structure import (
    singular_vector_stability as singular_vector_stability,
)
