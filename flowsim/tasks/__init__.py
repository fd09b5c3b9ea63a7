"""Tasks: data with binary labels, one file a source."""

from flowsim.tasks.archive import load as load
from flowsim.tasks.digits import digits as digits
from flowsim.tasks.gaussian import gaussian as gaussian
from flowsim.tasks.task import Task as Task
