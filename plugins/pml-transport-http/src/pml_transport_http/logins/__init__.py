"""Logins that each belong to one principal: kept encrypted, made in the browser, exchanged, and taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pml_kit.offers import OpenRoute

    from .token_exchange import SubjectTokens

PATH = "logins"
"""Of the pages."""


class ListenerLogins(NamedTuple):
    """What a listener does for them."""

    subjects: SubjectTokens
    """Is told who came with which access token."""
    pages: Callable[[], Sequence[OpenRoute]]
    """Gives the pages below :data:`PATH`, when the first is asked for."""
