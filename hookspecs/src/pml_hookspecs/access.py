"""Identities: who calls, and what they may see of what ran."""

from __future__ import annotations


class UnauthenticatedError(Exception):
    """Nobody is let in like this. The message is for the caller, and quotes nothing of what it sent."""
