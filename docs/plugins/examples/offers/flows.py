"""Nobody looks into plans here: whoever is asked about a task is told that its values may come from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pml_hookspecs import ExecutionId, Offer, hookimpl
from pml_kit.offers import FLOWS


class Unknown:
    """The same for every task."""

    def of(self, execution: ExecutionId) -> Sequence[str]:
        return ["nobody knows where its values come from"]


@hookimpl
def pml_offers() -> Iterable[Offer[Any]]:
    return [Offer(FLOWS, Unknown())]
