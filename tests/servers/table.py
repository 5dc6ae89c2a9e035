"""What came of it: lines, tables and JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from allowed import RULES, explanation
from playing import counted
from running import Outcome
from ways import TITLES

DOCS = Path(__file__).parents[2] / "docs" / "servers.md"
DONE = "= "
"""Begins a line that stays."""
_SHORT, _PROGRAMS = 160, {"npm": "npm", "pypi": "PyPI"}
Row = Mapping[str, Any]
"""A server, as :func:`row` has it."""


def row(outcome: Outcome) -> Row:
    """All that came of a server, as JSON has it."""
    entry = outcome.entry
    return {
        "name": entry.name,
        "package": entry.package,
        "version": entry.version,
        "registry": entry.registry,
        "licence": entry.licence,
        "lacks": entry.lacks,
        "absent": outcome.absent,
        "tools": len(outcome.tools),
        "requests": len(outcome.steps),
        "results": counted(outcome.direct[0]) if outcome.direct else 0,
        "dropped": outcome.dropped,
        "broken": outcome.broken,
        "never": {name: reason for name in outcome.tools if (reason := entry.forbidden(name))},
        "varies": dict(entry.varies),
        "ways": [way for way in TITLES if way in outcome.differences],
        "differences": [
            {
                "way": found.way,
                "part": found.part,
                "place": found.place,
                "direct": found.direct,
                "through": found.through,
                "explanation": rule.title if (rule := explanation(found)) else None,
            }
            for of_way in outcome.differences.values()
            for found in of_way
        ],
    }


def merged(rows: Iterable[Row]) -> list[Row]:
    """One row for each server, in the order of the first: each way as the last that has it."""
    found: dict[str, Row] = {}
    for new in rows:
        old = found.get(new["name"], new)
        if old["absent"] or new["absent"]:
            found[new["name"]] = new if old["absent"] else old
            continue
        again = {*new["ways"], *new["broken"]}
        ran = {*new["ways"], *(way for way in old["ways"] if way not in again)}
        found[new["name"]] = {
            **new,
            "ways": [way for way in TITLES if way in ran],
            "broken": {way: why for way, why in old["broken"].items() if way not in again} | new["broken"],
            "differences": [d for d in old["differences"] if d["way"] not in again] + new["differences"],
        }
    return list(found.values())


def unexplained(found: Row) -> list[Mapping[str, Any]]:
    """The differences of a server that no rule explains."""
    return [each for each in found["differences"] if each["explanation"] is None]


def line(outcome: Outcome) -> str:
    """One line for a server that is through."""
    found = row(outcome)
    if found["absent"]:
        return f"{DONE}- {found['name']}: {found['absent']}"
    bad = unexplained(found) or found["broken"]
    return f"{DONE}{'x' if bad else '+'} {found['name']}: {works(found)}; {found['requests']} requests each way"


def works(found: Row) -> str:
    """How it went, in words."""
    said = [f"{way}: {why}" for way, why in found["broken"].items()]
    if bad := unexplained(found):
        said.append(f"{len(bad)} unexplained")
    return "; ".join(said) or "yes"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def in_words(rows: Sequence[Row]) -> str:
    """All of it for a terminal; unexplained differences with both sides."""
    lines = []
    for found in rows:
        for each in unexplained(found):
            lines += [f"{found['name']}, {each['way']}: {each['part']}: {each['place']}"]
            lines += [f"    directly: {_shown(each['direct'])}", f"    through:  {_shown(each['through'])}"]
    explained = _explained(rows)
    lines += [f"{explained[rule.title]} explained: {rule.title}" for rule in RULES if explained[rule.title]]
    return "\n".join([*lines, summary(rows)])


def _explained(rows: Sequence[Row]) -> Counter[str]:
    return Counter(each["explanation"] for found in rows for each in found["differences"] if each["explanation"])


def summary(rows: Sequence[Row]) -> str:
    """The numbers in one sentence."""
    ran = [found for found in rows if not found["absent"]]
    counts = [sum(found[member] for found in ran) for member in ("tools", "requests", "results")]
    bad = sum(len(unexplained(found)) for found in ran)
    return (
        f"{len(ran)} of {len(rows)} servers ran: {counts[0]} tools, {counts[1]} requests each way, of which "
        f"{counts[2]} are answered without an error; {bad} unexplained differences."
    )


def _table(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    rows = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |" for cells in lines]
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *rows])


def _remark(found: Row) -> str:
    said = [f"without {found['lacks']}"] if found["lacks"] else []
    never = sorted(set(found["never"].values()))
    said += [f"not called: {count} ({', '.join(never)})"] if (count := len(found["never"])) else []
    said += [f"{tool} not compared: {reason}" for tool, reason in found["varies"].items()]
    said += [f"unanswered directly too: {count}"] if (count := len(found["dropped"])) else []
    missing = [way for way in TITLES if way not in found["ways"]]
    said += [f"not measured: {', '.join(missing)}"] if missing else []
    return "; ".join(said)


def tables(rows: Sequence[Row]) -> dict[str, str]:
    """What ``docs/servers.md`` has between its marks, by mark."""
    ran = [found for found in rows if not found["absent"]]
    heads = ("server", "package", "version", "licence", "tools", "requests", "works", "remarks")
    explained = _explained(rows)
    return {
        "summary": summary(rows),
        "servers": _table(
            heads,
            [
                (
                    found["name"], f"{_PROGRAMS[found['registry']]} `{found['package']}`", found["version"],
                    found["licence"], found["tools"], found["requests"], works(found), _remark(found),
                )
                for found in ran
            ],
        ),
        "absent": _table(
            ("server", "package", "version", "why"),
            [
                (found["name"], f"{_PROGRAMS[found['registry']]} `{found['package']}`", found["version"], _why(found))
                for found in rows if found["absent"]
            ],
        ),
        "rules": _table(
            ("what differs", "how often", "the specification", "where"),
            [(rule.title, explained[rule.title], rule.sentence, f"`{rule.where}`") for rule in RULES],
        ),
    }  # fmt: skip


def _why(found: Row) -> str:
    if found["lacks"] and found["absent"].startswith("does not start"):
        return f"does not start without {found['lacks']}"
    return re.sub(r"\s+", " ", found["absent"])[:_SHORT]


def document(rows: Sequence[Row]) -> None:
    """Write the tables into the page."""
    text = DOCS.read_text(encoding="utf-8")
    for name, table in tables(rows).items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    DOCS.write_text(text, encoding="utf-8")
