"""The one-layer transformer: weights, attention, activations, losses."""

from flowsim.network.one_layer import OneLayerTransformer as OneLayerTransformer
from flowsim.network.parameters import Parameters as Parameters
from flowsim.network.parameters import gaussian_parameters as gaussian_parameters
