"""Why a connection to a server failed, in words for its user."""

from __future__ import annotations

from typing import Any

from pml_hookspecs import RpcError, TransportError

SILENT = "it did not answer within {:g} s; check that it speaks MCP, or raise its start_timeout_s"


def explained(
    exc: Exception, start_timeout_s: float, log: Any, refusal: TransportError | None = None
) -> tuple[str, bool]:
    """Why a connection failed, and whether trying again can help.

    ``refusal`` is how the server refused the era that was tried before: where it refuses this one as well, that is why.
    """
    if refusal is not None and isinstance(exc, RpcError):
        exc = refusal
    if isinstance(exc, TransportError):
        return str(exc), exc.retryable
    if isinstance(exc, ValueError):  # the address or an option, which the next attempt would not change
        return str(exc), False
    if isinstance(exc, TimeoutError):
        said = [str(exc) or SILENT.format(start_timeout_s), *getattr(exc, "__notes__", ())]
        return "; ".join(said), True
    if isinstance(exc, RpcError):
        return f"it refused the handshake: {exc.message}", True
    log.error("a connection failed in a way that its transport does not know", exc_info=exc)
    return repr(exc), True
