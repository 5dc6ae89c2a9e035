"""Why work in the background has ended that did not end by itself."""

from __future__ import annotations

from pml_hookspecs import Failure

LOST = Failure(
    "execution.lost",
    "The gateway went down while this was under way, and it is no durable workflow: it was not run again.",
)
BROKEN = Failure("execution.lost", "The gateway failed to run it; its log says why.")
NEVER_BEGUN = Failure("task.cancelled", "Cancelled before it began.")
SECRET_GONE = Failure(
    "execution.lost",
    "It needs a secret that the gateway does not know any more, so it could not go on; begin it again.",
)
CANCELLED = Failure("task.cancelled", "It was to be stopped, and the gateway that ran it went down meanwhile.")
STOPPED = Failure("task.cancelled", "The gateway was stopped while this was under way.")
GIVEN_UP = Failure(
    "execution.given_up",
    "Each gateway that took it went down before it began, too often for chance; it is not tried any more. See what it "
    "does to the gateway before you begin it again.",
)
