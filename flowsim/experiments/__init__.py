"""Whole runs: from a configuration to a folder of results."""
