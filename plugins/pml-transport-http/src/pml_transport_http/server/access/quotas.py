"""What one principal may have at a time, lest it takes what all share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pml_kit.mcp.protocol import INTERNAL_ERROR, INVALID_REQUEST
from pml_transport_http.server.http import HttpError

if TYPE_CHECKING:
    from pml_transport_http.settings import Settings

SMALL_BYTES = 64 * 1024
"""A body up to this is read whatever else of the same principal is being read [bytes]."""
RETRY = ((b"retry-after", b"1"),)
TOO_MANY = 429


def too_long(limit: int) -> HttpError:
    """Say that a body is too long."""
    # The server skips the rest. Closing instead would take the answer from a client that is still sending.
    what = f"The body is longer than {limit} bytes; max_body_bytes in [plugins.http] allows more"
    return HttpError(413, INVALID_REQUEST, what)


class Quotas:
    """Counts what each principal has; where nobody needs a key, each address counts as one."""

    def __init__(self, settings: Settings) -> None:
        """Count from zero."""
        self.most_requests = settings.max_requests_per_principal
        self.most_bytes = settings.max_body_bytes_per_principal
        self.longest = settings.max_body_bytes
        self.requests: dict[str, int] = {}
        self.bodies: dict[str, int] = {}


class QuotaUse:
    """What one HTTP request takes of its principal's share. Leave it to give that back."""

    def __init__(self, quotas: Quotas, owner: str) -> None:
        """Nothing is taken yet."""
        self._quotas, self._owner = quotas, owner
        self._size = self._requests = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._size:
            _give_back(self._quotas.bodies, self._owner, self._size)
        if self._requests:
            _give_back(self._quotas.requests, self._owner, self._requests)

    def take(self, size: int) -> None:
        """Keep so many bytes more.

        Raises:
            HttpError: It is too long, with status 413; or all bodies of its principal are, with 429.
        """
        bodies, most = self._quotas.bodies, self._quotas.most_bytes
        self._size += size
        total = bodies[self._owner] = bodies.get(self._owner, 0) + size
        if self._size > self._quotas.longest:
            raise too_long(self._quotas.longest)
        if total > most and self._size > SMALL_BYTES:
            what = f"The bodies of your requests take more than {most} bytes (max_body_bytes_per_principal)"
            raise HttpError(TOO_MANY, INTERNAL_ERROR, f"{what}; try again when some are answered", headers=RETRY)

    def begin(self) -> None:
        """Have a request answered, or a stream open.

        Raises:
            HttpError: There are too many; with status 429.
        """
        requests, most = self._quotas.requests, self._quotas.most_requests
        if (open := requests.get(self._owner, 0)) >= most:
            what = f"You have {most} requests and streams open (max_requests_per_principal)"
            raise HttpError(TOO_MANY, INTERNAL_ERROR, f"{what}; try again when some have ended", headers=RETRY)
        self._requests += 1
        requests[self._owner] = open + 1


def _give_back(counted: dict[str, int], owner: str, taken: int) -> None:
    rest = counted[owner] - taken
    if rest:
        counted[owner] = rest
    else:
        del counted[owner]
