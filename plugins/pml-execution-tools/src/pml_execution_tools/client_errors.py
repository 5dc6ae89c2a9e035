"""What can go wrong when the history is asked over HTTP."""

from __future__ import annotations


class HistoryError(Exception):
    """No answer. The message says what is wrong and what to do."""

    def __init__(self, message: str, *, status: int | None = None, code: str = "") -> None:
        """``status`` is that of HTTP, None without a response; ``code`` is the gateway's."""
        super().__init__(message)
        self.status, self.code = status, code


class UnreachableError(HistoryError):
    """The gateway could not be reached, did not answer in time, or something else answered in its place."""


class KeyRefusedError(HistoryError):
    """There is no key, or one that the gateway does not know (401)."""


class NotAllowedError(HistoryError):
    """The key does not allow it (403)."""


class NoSuchExecutionError(HistoryError):
    """There is no such execution, or it is not the key's to see: the two are not told apart (404)."""


class WrongParameterError(HistoryError):
    """A parameter is wrong; the message names its limits (422)."""


class TooOftenError(HistoryError):
    """A limit is used up (429)."""

    def __init__(self, message: str, *, status: int | None = None, code: str = "", retry_after_s: float = 1.0) -> None:
        """``retry_after_s`` says when to try again [s]."""
        super().__init__(message, status=status, code=code)
        self.retry_after_s = retry_after_s


class GatewayFailedError(HistoryError):
    """The gateway could not answer (5xx)."""


BY_STATUS: dict[int, type[HistoryError]] = {
    401: KeyRefusedError,
    403: NotAllowedError,
    404: NoSuchExecutionError,
    422: WrongParameterError,
    429: TooOftenError,
}
