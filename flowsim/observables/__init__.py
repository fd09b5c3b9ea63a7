"""Functions of one state, or of the states of a trajectory."""

from flowsim.observables.condensation import abs_cosines as abs_cosines
from flowsim.observables.condensation import condensation_of as condensation_of
from flowsim.observables.condensation import condensation_rate as condensation_rate
from flowsim.observables.condensation import self_condensation as self_condensation
from flowsim.observables.condensation import top_direction as top_direction
from flowsim.observables.conditions import condensation_condition as condensation_condition
from flowsim.observables.named import by_name as by_name
from flowsim.observables.norms import frobenius as frobenius
from flowsim.observables.norms import norms as norms
from flowsim.observables.norms import unit_vectors as unit_vectors
from flowsim.observables.ranks import effective_rank as effective_rank
from flowsim.observables.ranks import effective_ranks as effective_ranks
from flowsim.observables.ranks import stable_rank as stable_rank
from flowsim.observables.ranks import stable_ranks as stable_ranks
from flowsim.observables.rates import group_rates as group_rates
from flowsim.observables.rates import relative_changes as relative_changes
from flowsim.observables.rates import relative_rate as relative_rate
from flowsim.observables.rates import relative_rates as relative_rates
from flowsim.observables.rows import along as along
from flowsim.observables.sharpness import sharpness as sharpness
from flowsim.observables.similarity import cosine_similarity as cosine_similarity
from flowsim.observables.similarity import reordered_similarity as reordered_similarity
from flowsim.observables.similarity import similarity_order as similarity_order
from flowsim.observables.stability import singular_vector_stability as singular_vector_stability
from flowsim.observables.stability import stability_along as stability_along
