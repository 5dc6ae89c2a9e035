"""Ways in which a server fails to answer, told apart by what can be done about them."""

from __future__ import annotations

from pml_hookspecs import TransportError
from pml_kit.mcp.principal_logins import LoginRequiredError


class UnreachableError(TransportError):
    """Nothing answers at the server's address."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class BrokenError(TransportError):
    """A connection failed under way, or could not be made in time."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class RefusedError(TransportError):
    """The server answered with an HTTP status that is none of success."""

    def __init__(self, message: str, *, status: int, body: bytes, retryable: bool) -> None:
        super().__init__(message, retryable=retryable)
        self.status, self.body = status, body


class LoginRefusedError(RefusedError, LoginRequiredError):
    """The server answered that it wants a login of the connection's principal, and there is none that counts."""

    def __init__(self, message: str, *, status: int, body: bytes) -> None:
        LoginRequiredError.__init__(self, message)
        self.status, self.body = status, body
