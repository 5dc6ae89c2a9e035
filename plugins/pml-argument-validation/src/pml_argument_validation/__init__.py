"""Checks the arguments of tool calls against the tool's input schema before anything runs."""
