"""The one-layer transformer: weights, attention, activations, losses."""

from flowsim.network.decoder import Decoder as Decoder
from flowsim.network.decoder import gaussian_layers as gaussian_layers
from flowsim.network.one_layer import OneLayerTransformer as OneLayerTransformer
from flowsim.network.parameters import Parameters as Parameters
from flowsim.network.parameters import gaussian_parameters as gaussian_parameters
from flowsim.network.residual import ResidualParameters as ResidualParameters
from flowsim.network.residual import ResidualTransformer as ResidualTransformer
from flowsim.network.residual import residual_parameters as residual_parameters
