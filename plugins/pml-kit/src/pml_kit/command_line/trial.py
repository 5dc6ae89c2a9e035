"""What commands are handed that try out what is installed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Tracer, Wrapper


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A gateway that serves nobody, for commands that try out what is installed.

    It has no servers, keeps what it keeps in memory, and is gone when the command ends.
    """

    plugins: Sequence[Mapping[str, str]]
    """What is installed, as ``pml plugins list --json`` tells of it."""
    hooks: Mapping[str, Sequence[tuple[str, Any]]]
    """What plugins contributed to calls, by hook, each with its plugin's name: ``pml_wrap_executor``, outermost first
    and with the core's own, and ``pml_filter_tools``."""
    tracers: Sequence[str]
    """Names of those that are in use. None of them is told anything before :attr:`use`."""
    driver: Callable[[str, str], Awaitable[Any]]
    """A driver of a kind and a name, with its settings, entered; it is left with the gateway. Raises what says why it
    cannot be had."""
    use: Callable[[Sequence[tuple[str, Wrapper]], Sequence[tuple[str, Tracer]], CallNext], CallNext]
    """From now on calls take these wrappers, are told to these tracers, and are run by what comes last. The
    chain that they take."""
