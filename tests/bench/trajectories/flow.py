"""What flows between the calls of a turn: which arguments come out of earlier results, and which results are asked for.

References are made only where somebody could write them before anything has run: where the value is not in the words
of the user, stands in an earlier result, and the way to it needs no look at that result (names of members that are no
data, and items of lists of one item). Other values that come from results are written as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .suite import Turn

Steps = tuple["str | int", ...]
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
LEAST_TEXT, LEAST_NUMBER = 4, 1000
"""What is shorter, or smaller, may be the same by chance."""
PLAIN = (str, int, float, bool)
MOST_SHOWN = 2
"""Members of a result that are asked for where nothing says which matter."""


@dataclass(frozen=True)
class Reference:
    """A part of the result of an earlier call of the turn."""

    call: int
    path: Steps


@dataclass
class Result:
    """What a call answered, directly."""

    text: str
    failed: bool

    @property
    def value(self) -> Any:
        """As JSON, else the text."""
        try:
            return json.loads(self.text)
        except ValueError:
            return self.text


@dataclass
class Flow:
    """A turn, as somebody would plan it who knows which calls are to be made."""

    turn: Turn
    arguments: list[Any] = field(default_factory=list)
    """Of each call, with :class:`Reference` in place of values."""
    after: list[set[int]] = field(default_factory=list)
    """Of each call those that have to have ended, but for those that its references name."""
    failing: set[int] = field(default_factory=set)
    """Calls that the tool refuses; benchmarks have some."""
    asked: list[Reference] = field(default_factory=list)
    """What is to be told to the user."""
    last: list[int] = field(default_factory=list)
    """Calls that no other needs."""
    ordered: bool = False
    """Whether all calls run one after the other."""
    looks: list[set[int]] = field(default_factory=list)
    """Of each call those whose results somebody has to see to write its arguments."""
    origins: dict[str, int] = field(default_factory=lambda: {"words": 0, "reference": 0, "constant": 0})
    """Where plain values of arguments come from; ``constant`` is what results have and no reference could name."""

    def needs(self, call: int) -> set[int]:
        """All calls that this one waits for."""
        return self.after[call] | {ref.call for ref in references(self.arguments[call])}


def flow_of(turn: Turn, results: Sequence[Result], reads, seen: str) -> Flow:
    """What flows in a turn.

    Args:
        results: Of its calls, made directly.
        reads: Whether a tool changes nothing, or None where that is not known.
        seen: What the user has said until now, and what was answered before, as text.
    """
    flow = Flow(turn, ordered=reads is None)
    flow.failing = {number for number, result in enumerate(results) if result.failed}
    known = seen.lower()
    values = [None if result.failed else result.value for result in results]
    for number, call in enumerate(turn.calls):
        flow.looks.append(set())
        flow.arguments.append(_filled(call.arguments, values[:number], known, flow))
    flow.after = _order(flow, reads)
    flow.last = _last(flow)
    for text in turn.told:
        if (found := _place_of(text, values)) is not None and found not in flow.asked:
            flow.asked.append(found)
    return flow


def _last(flow: Flow) -> list[int]:
    needed = {need for number in range(len(flow.turn.calls)) for need in flow.needs(number)}
    return [number for number in range(len(flow.turn.calls)) if number not in needed]


def stages(flow: Flow) -> list[tuple[Flow, list[int]]]:
    """The turn as several, cut where somebody has to look at results before going on.

    Returns:
        Of each the flow, and the numbers that its calls have in the whole. Asked for is also what later ones look at.
    """
    calls = range(len(flow.turn.calls))
    stage: list[int] = []
    for number in calls:
        waits = [stage[need] for need in flow.needs(number)]
        stage.append(max([0, *waits, *(stage[seen] + 1 for seen in flow.looks[number])]))
    return [_stage(flow, [n for n in calls if stage[n] == one], stage) for one in sorted(set(stage))]


def _stage(flow: Flow, mine: list[int], stage: list[int]) -> tuple[Flow, list[int]]:
    place = {number: new for new, number in enumerate(mine)}
    at = stage[mine[0]]
    later = {n for n, s in enumerate(stage) if s > at}
    used = {seen for n in later for seen in flow.looks[n] | {ref.call for ref in references(flow.arguments[n])}}
    turn = Turn(flow.turn.words, [flow.turn.calls[number] for number in mine])
    part = Flow(turn, ordered=flow.ordered, failing={place[n] for n in flow.failing if n in place})
    part.arguments = [_inside(flow.arguments[n], flow.turn.calls[n].arguments, place) for n in mine]
    part.after = [{place[need] for need in flow.after[n] if need in place} for n in mine]
    part.last = _last(part)
    shown = [ref for ref in flow.asked if ref.call in place] + [Reference(n, ()) for n in mine if n in used]
    part.asked = [Reference(place[ref.call], ref.path) for ref in shown]
    return part, mine


def _inside(value: Any, original: Any, place: Mapping[int, int]) -> Any:
    """An argument in which references to calls that are not there are the values that they stood for."""
    if isinstance(value, Reference):
        return Reference(place[value.call], value.path) if value.call in place else original
    if isinstance(value, Mapping):
        return {name: _inside(member, original[name], place) for name, member in value.items()}
    if isinstance(value, list):
        return [_inside(item, one, place) for item, one in zip(value, original, strict=True)]
    return value


def references(value: Any) -> Iterator[Reference]:
    """All in an argument."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def leaves(value: Any, path: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Plain values within one, with the ways to them."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from leaves(member, (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, (*path, number))
    elif value is not None:
        yield path, value


def _filled(value: Any, values: Sequence[Any], known: str, flow: Flow) -> Any:
    origins = flow.origins
    if isinstance(value, Mapping):
        return {name: _filled(member, values, known, flow) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, values, known, flow) for item in value]
    if not _telling(value) or str(value).lower() in known:
        origins["words"] += 1
        return value
    places = [(n, p) for n, result in enumerate(values) for p, leaf in leaves(result) if _same(leaf, value)]
    foreseeable = [(n, p) for n, p in places if _foreseeable(p, values[n])]
    if foreseeable:
        origins["reference"] += 1
        return Reference(*foreseeable[0])
    seen = [n for n, _ in places] or _within(value, values)
    flow.looks[-1] |= set(seen[:1])
    origins["constant" if seen else "words"] += 1
    return value


def _telling(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) >= LEAST_TEXT
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= LEAST_NUMBER


def _same(leaf: Any, value: Any) -> bool:
    return type(leaf) is type(value) and leaf == value


def _within(value: Any, values: Sequence[Any]) -> list[int]:
    """Results that have it within a text, or as a name of a member."""
    if not isinstance(value, str):
        return []
    return [n for n, result in enumerate(values) if value in json.dumps(result, ensure_ascii=False)]


def _foreseeable(path: Steps, value: Any) -> bool:
    for step in path:
        if isinstance(step, int):
            if len(value) != 1:
                return False
        elif IDENTIFIER.fullmatch(step) is None or any(letter.isdigit() for letter in step.removesuffix("1")):
            return False
        value = value[step]
    return True


def _order(flow: Flow, reads) -> list[set[int]]:
    """What has to have ended before each call, so that each finds and changes what it does when made directly."""
    if reads is None:
        return [set() for _ in flow.turn.calls]
    after: list[set[int]] = []
    all_before: list[set[int]] = []
    write: set[int] = set()
    since: set[int] = set()
    for number, call in enumerate(flow.turn.calls):
        named = {ref.call for ref in references(flow.arguments[number])}
        before = set(write)
        if reads(call.tool):
            since.add(number)
        else:
            before, since, write = since or before, set(), {number}
        # What another of them waits for need not be said.
        implied = named.union(*(all_before[need] for need in before | named))
        after.append(before - implied)
        all_before.append(implied | before)
    return after


def _place_of(text: str, values: Sequence[Any]) -> Reference | None:
    """The last place that has the text."""
    wanted = text.lower().replace(",", "")
    for number in reversed(range(len(values))):
        for path, leaf in leaves(values[number]):
            if has(str(leaf).lower(), wanted):
                return Reference(number, path)
    return None


def has(text: str, wanted: str) -> bool:
    """Whether ``wanted`` stands in a text, and not within a word or number."""
    return re.search(rf"(?<![\w.]){re.escape(wanted)}(?!\w)", text) is not None


def short(value: Any) -> list[str] | None:
    """Names of the members that say how a call ended; None for all of a result that is short or no object."""
    if not isinstance(value, Mapping):
        return None
    if "status" in value:
        return ["status"]
    return [name for name, member in value.items() if isinstance(member, PLAIN)][:MOST_SHOWN] or None
