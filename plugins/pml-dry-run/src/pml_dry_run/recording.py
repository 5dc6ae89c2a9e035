"""One recording: what a tool really answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from pml_hookspecs import RawObject, encode, replace

if TYPE_CHECKING:
    from pml_hookspecs import Document, Outcome

VERSION = 1
"""Version of the format of recordings in the store."""
TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
}
OWN_FAULTS = frozenset({"tool.failed", "tool.refused"})
"""Codes of failures that are a server's answer. All others are the gateway's, such as a lost connection."""
Kind = Literal["result", "error", "refusal"]


class RecordingError(Exception):
    """What is kept cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One answer, or several equal ones in a row."""

    id: str
    """Its key in the store."""
    tool: str
    definition: str
    """Digest of the tool's definition then."""
    principal: str
    """The principal who made the call."""
    call: str
    """See :func:`pml_dry_run.digests.call_digest`."""
    arguments: str
    """JSON text of an object, secrets taken out."""
    kind: Kind
    """``result``, ``error`` (a result with ``isError``) or ``refusal`` (a JSON-RPC error)."""
    answer: str
    """JSON text of an object: the ``CallToolResult`` as it came, or the JSON-RPC error."""
    recorded_at: str
    """ISO 8601, UTC."""
    duration_ms: int
    epoch: str
    """Which run of a gateway recorded it; later ones sort later."""
    number: int
    """Its place among the different answers to the same call in that epoch, from 0."""
    times: int = 1
    """Equal answers in a row."""
    redacted: bool = False
    """Whether something in the answer was a secret, and is gone."""
    extra: str = "{}"
    """Other members of the request that count, as JSON text of an object."""

    @property
    def result(self) -> RawObject:
        """The answer."""
        return RawObject(self.answer.encode("utf-8", "surrogatepass"))

    @property
    def given(self) -> dict[str, Any]:
        """The arguments, decoded."""
        made: dict[str, Any] = json.loads(self.arguments)
        return made

    def again(self) -> Self:
        """The recording after the same answer came once more."""
        return replace(self, times=self.times + 1)

    def to_value(self) -> dict[str, Any]:
        """The recording as a document of the store."""
        members = {name: getattr(self, name) for name in self.__slots__ if name != "id"}
        return {"version": VERSION, **members}


def from_document(document: Document) -> Recording:
    """The recording that a document holds.

    Raises:
        RecordingError: It is damaged, or a newer version of this plugin wrote it.
    """
    return from_value(document.key, document.value)


def from_value(id: str, value: Mapping[str, Any]) -> Recording:
    """The inverse of :meth:`Recording.to_value`.

    Raises:
        RecordingError: It is damaged, or a newer version of this plugin wrote it.
    """
    members = dict(value)
    version = members.pop("version", None)
    if type(version) is int and version > VERSION:
        raise RecordingError(f"recording {id} is of version {version}; this pml-dry-run reads up to {VERSION}")
    if version != VERSION:
        raise RecordingError(f"recording {id} is damaged: its version is {version!r}")
    try:
        made = Recording(id=id, **members)
    except TypeError as exc:
        raise RecordingError(f"recording {id} is damaged: {exc}") from exc
    if problem := _problem(made):
        raise RecordingError(f"recording {id} is damaged: {problem}")
    return made


def _problem(made: Recording) -> str:
    for field in fields(made):
        value, types = getattr(made, field.name), TYPES.get(str(field.type), (str,))
        if type(value) not in types:
            return f"{field.name} is {value!r}"
    if made.kind not in ("result", "error", "refusal"):
        return f"kind is {made.kind!r}"
    for name in ("arguments", "answer", "extra"):
        try:
            if not isinstance(json.loads(getattr(made, name)), dict):
                return f"{name} is no JSON object"
        except ValueError:
            return f"{name} is no JSON"
    if made.kind == "refusal" and not {"code", "message"} <= made.result.keys():
        return "a refusal without code and message"
    try:
        aware = datetime.fromisoformat(made.recorded_at).tzinfo is not None
    except ValueError:
        aware = False
    return "" if aware and made.times > 0 else "recorded_at or times is impossible"


def answer_of(outcome: Outcome) -> tuple[Kind, Mapping[str, Any]] | None:
    """What of an outcome is the server's answer; None when the server gave none, or only asked back."""
    failure, output = outcome.failure, outcome.output
    if failure is not None and failure.code not in OWN_FAULTS:
        return None
    if isinstance(output, Mapping):
        raw = RawObject.of(output).raw
        if b"input_required" in raw and output.get("resultType") == "input_required":
            return None
        return ("result" if failure is None else "error"), output
    rpc = None if failure is None else failure.details.get("rpc")
    return ("refusal", rpc) if isinstance(rpc, Mapping) and {"code", "message"} <= rpc.keys() else None


def text_of(value: Mapping[str, Any]) -> str:
    """JSON text, as it came where it came as text."""
    return encode(value).decode("utf-8", "surrogatepass")
