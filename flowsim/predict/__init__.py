"""Both stages predicted from the data and the initial weights."""

from flowsim.predict.assumptions import Assumptions as Assumptions
from flowsim.predict.assumptions import assumptions as assumptions
from flowsim.predict.cautions import Caution as Caution
from flowsim.predict.forcing import key_query_path as key_query_path
from flowsim.predict.key_query import Growth as Growth
from flowsim.predict.key_query import KeyQuerySolution as KeyQuerySolution
from flowsim.predict.key_query import onset_estimate as onset_estimate
from flowsim.predict.match import Match as Match
from flowsim.predict.plateau import Plateau as Plateau
from flowsim.predict.plateau import find_plateau as find_plateau
from flowsim.predict.prediction import Onset as Onset
from flowsim.predict.prediction import Prediction as Prediction
from flowsim.predict.prediction import predict as predict
from flowsim.predict.transverse import Transverse as Transverse
