"""Very many starts: keys, batches, shards, summaries."""

from flowsim.ensemble.mean_field import mean_field_limit as mean_field_limit
from flowsim.ensemble.members import Members as Members
from flowsim.ensemble.running import ensemble as ensemble
from flowsim.ensemble.sources import GaussianChains as GaussianChains
from flowsim.ensemble.sources import GaussianMatrices as GaussianMatrices
from flowsim.ensemble.sources import GivenWeights as GivenWeights
from flowsim.ensemble.summary import quantile as quantile
from flowsim.ensemble.summary import summarise as summarise
from flowsim.ensemble.summary import survival as survival
from flowsim.ensemble.two_stage import Runs as Runs
from flowsim.ensemble.two_stage import summarise_runs as summarise_runs
from flowsim.ensemble.two_stage import two_stage_runs as two_stage_runs
