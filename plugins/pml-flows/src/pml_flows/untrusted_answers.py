"""Single calls: whether parts of their arguments stand in what untrusted servers answered the same client before."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import GATEWAY_SERVER, ToolCall, split_tool_id
from pml_kit.mcp.result_values import value_of

from .arguments import leaves
from .scopes import Origin, Taint

if TYPE_CHECKING:
    from pml_hookspecs import Outcome, Session
    from pml_kit.offers import Words

    from .settings import Settings

MOST_CLIENTS = 1000
_PIECES = re.compile(r"[^\s\"'<>(){}\[\],;|&?=]+")
_UNUSUAL = re.compile(r"[\d@/\\]|\w[.:_-]\w")
"""What makes a shorter text unlikely to be the same by chance."""
_LEAST_UNUSUAL = 5


class Answer(NamedTuple):
    """What an untrusted server answered."""

    origin: Origin
    text: str


class UntrustedAnswers:
    """What each client was answered last, as far as it came from untrusted servers."""

    def __init__(self, settings: Settings) -> None:
        self._least, self._most = settings.matching_characters, settings.matching_bytes
        self._answers: OrderedDict[str, deque[Answer]] = OrderedDict()

    def take(self, task: ToolCall, session: Session, levels: Mapping[str, Words], outcome: Outcome) -> None:
        """Remember what came of a call."""
        server = split_tool_id(task.tool)[0]
        if levels.get(server, "trusted") == "trusted" or server == GATEWAY_SERVER or outcome.output is None:
            return
        answers = self._answers.pop(self._client(session), None) or deque()
        self._answers[self._client(session)] = answers
        if len(self._answers) > MOST_CLIENTS:
            self._answers.popitem(last=False)
        answers.append(Answer(Origin(server, task.tool), _text(outcome.output)[-self._most :]))
        held = sum(len(one.text) for one in answers)
        while held > self._most:
            held -= len(answers.popleft().text)

    def taint(self, task: ToolCall, session: Session, levels: Mapping[str, Words]) -> Taint:
        """Which arguments of a call stand, whole or in part, in what this client was answered."""
        answers = self._answers.get(self._client(session))
        if not answers:
            return Taint()
        known = [one for one in answers if levels.get(one.origin.server, "trusted") != "trusted"]
        found = []
        for place, leaf in leaves(task.arguments, ()):
            parts = list(self._parts(leaf)) if isinstance(leaf, str) else []
            origins = frozenset(one.origin for one in known if any(part in one.text for part in parts))
            if origins:
                found.append((place, origins))
        return Taint(tuple(found))

    def _parts(self, text: str) -> Iterator[str]:
        for part in dict.fromkeys((text, *_PIECES.findall(text))):
            least = min(_LEAST_UNUSUAL, self._least) if _UNUSUAL.search(part) else self._least
            if len(part) >= least:
                yield part

    @staticmethod
    def _client(session: Session) -> str:
        return f"{session.key}\n{session.client}"


def _text(output: Any) -> str:
    """All texts in a result, as they read."""
    value = value_of(output) if isinstance(output, Mapping) else output
    return "\n".join(str(leaf) for _, leaf in leaves(value, ()) if isinstance(leaf, (str, int, float)))
