"""What clients are answered to ``tools/call``, as plugins shape it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_hookspecs import Json, Session, Task
    from pml_kit.offers import AnswerFilter, AnswerSelector


class Answers:
    """The selectors and filters of plugins, each one after the other; one that fails changes nothing."""

    def __init__(
        self,
        selectors: Sequence[tuple[str, AnswerSelector]],
        filters: Sequence[tuple[str, AnswerFilter]],
        log: Any,
    ) -> None:
        """Each with its plugin."""
        self._selectors, self._filters, self._log = selectors, filters, log

    async def selected(self, output: Json, task: Task) -> Json:
        """What of the output of ``task`` is answered."""
        for plugin, select in self._selectors:
            try:
                output = await select(output, task)
            except Exception:
                self._log.exception("an output is answered as it came", plugin=plugin)
        return output

    async def shaped(self, answer: Mapping[str, Any], task: Task, session: Session) -> Mapping[str, Any]:
        """``answer`` as ``session`` is to get it."""
        for plugin, shape in self._filters:
            try:
                answer = await shape(answer, task, session)
            except Exception:
                self._log.exception("an answer is given as it came", plugin=plugin)
        return answer
