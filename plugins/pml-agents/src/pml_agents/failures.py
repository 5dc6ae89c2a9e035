"""Failures of agents."""

from __future__ import annotations


class AgentError(Exception):
    """An agent could not be asked, or did not answer. The message says why, of the agent as "it"."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        """``code`` is for programs: ``agent.start``, ``agent.failed``, ``agent.output`` and such."""
        super().__init__(message)
        self.code, self.message, self.retryable = code, message, retryable
