"""Tasks: data with binary labels, one file a source."""

from flowsim.tasks.task import Task as Task
