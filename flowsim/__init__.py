"""flowsim: gradient flows of one-layer transformers from small Gaussian starts.

Stage 1, in which the value and feed-forward weights blow up along one direction; the plateau; and
stage 2, in which queries and keys collapse in rank (Z.-A. Chen and T. Luo, NeurIPS 2025).
"""

from flowsim import blow_up as blow_up
from flowsim import flows as flows
from flowsim import observables as observables
from flowsim import tasks as tasks
from flowsim.blow_up import BlowUp as BlowUp
from flowsim.blow_up import FieldBlowUp as FieldBlowUp
from flowsim.blow_up import Verdict as Verdict
from flowsim.blow_up import blow_up_time as blow_up_time
from flowsim.blow_up import solve_to_blow_up as solve_to_blow_up
from flowsim.compare import compare as compare
from flowsim.descent import descend as descend
from flowsim.descent import train as train
from flowsim.experiments.census import census as census
from flowsim.integrate import Event as Event
from flowsim.integrate import integrate as integrate
from flowsim.integrate import simulate as simulate
from flowsim.network import OneLayerTransformer as OneLayerTransformer
from flowsim.network import Parameters as Parameters
from flowsim.network import gaussian_parameters as gaussian_parameters
from flowsim.outcome import Outcome as Outcome
from flowsim.predict import Prediction as Prediction
from flowsim.predict import predict as predict
from flowsim.tasks import Task as Task
from flowsim.trajectory import Trajectory as Trajectory

__version__ = "0.1.0"
