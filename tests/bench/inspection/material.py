"""Public material: attacks and honest texts, read from folders of others."""

from __future__ import annotations

import ast
import json
import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_inspection.definitions import texts
from pml_kit.text.inspection import findings

POISONED = frozenset({"data_processor", "api_client", "analyzer", "formatter", "helper", "Summarizer", "Recommender"})
"""Of SAFE-T1001, by its own test, and of SAFE-T1402."""
READ_BY_MODELS = ("tool_description", "context_content")
SHORTEST = 20


@dataclass(frozen=True)
class Case:
    """One text, or all texts of one server."""

    name: str
    group: str
    """What is in one half together."""
    attack: bool
    found: bool
    shown: str = ""
    text: str = ""
    """All of it, for other scanners; empty where it is known in a gateway only."""


def halves(cases: list[Case], seed: int, groups: list[str]) -> tuple[list[Case], list[Case]]:
    """Cut by groups, all of which are given."""
    groups = sorted(groups)
    random.Random(seed).shuffle(groups)
    first = {*groups[: (len(groups) + 1) // 2]}
    return [case for case in cases if case.group in first], [case for case in cases if case.group not in first]


def own_halves(cases: list[Case], seed: int) -> tuple[list[Case], list[Case]]:
    """Attacks and honest ones, each cut by the seed."""
    kinds = [[case for case in cases if case.attack is attack] for attack in (True, False)]
    parts = [halves(kind, seed, [case.group for case in kind]) for kind in kinds]
    return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]


def case_of(name: str, group: str, text: str, *, attack: bool) -> Case:
    return Case(name, group, attack, bool(findings(text)), text[:100].replace("\n", " "), text)


def own_cases(path: Path) -> list[Case]:
    """Of PML's authors; the group says of which kind one is, and its number."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        case_of(f"{kind}[{number}] {one.get('class', '')}".strip(), f"{kind}{number:03}", one["text"], attack=attack)
        for kind, attack in (("attacks", True), ("honest", False))
        for number, one in enumerate(document[kind])
    ]


def cases_of_dvmcp(folder: Path) -> list[Case]:
    """The challenges whose attack is in words: what tools are described by, and what resources and tools answer."""
    made = []
    for path in sorted(folder.glob("challenges/*/challenge*/server.py")):
        spoken = list(said(ast.parse(path.read_text(encoding="utf-8"))))
        hits = [f"{one.rule}: {one.excerpt}" for text in spoken for one in findings(text)]
        name = path.parent.name
        made.append(Case(name, name, name in IN_WORDS, bool(hits), "; ".join(hits)[:200], "\n\n".join(spoken)))
    return made


IN_WORDS = frozenset({"challenge2", "challenge4", "challenge5", "challenge10"})
"""Tool poisoning, a definition that changes, tool shadowing, and all at once. In the others the attacker is whoever
writes to the server, or permissions, secrets and code that is run are at stake."""


def said(tree: ast.AST) -> Iterator[str]:
    """Texts of a server's source: of its tools and resources, and whatever it may answer with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > SHORTEST:
            yield node.value


def cases_of_safe_mcp(folder: Path) -> list[Case]:
    """Test logs with text that a model would read, and whether it is an attack: SAFE-T1001, 1008, 1401 and 1402."""
    made = []
    for path in sorted(folder.glob("techniques/*/test-logs.json")):
        technique = path.parent.name
        if technique not in ("SAFE-T1001", "SAFE-T1008", "SAFE-T1401", "SAFE-T1402"):
            continue
        for number, (entry, attack) in enumerate(labelled(_document(path), attack=None)):
            text = next((entry[key] for key in READ_BY_MODELS if isinstance(entry.get(key), str)), None)
            if text is None and isinstance(entry.get("metadata"), dict):
                text = entry["metadata"].get("description")
            if text is not None:
                wrong = entry.get("tool_name") in POISONED if attack is None else attack
                made.append(case_of(f"{technique}[{number}]", technique, text, attack=wrong))
    return made


def _document(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def labelled(value: Any, *, attack: bool | None) -> Iterator[tuple[dict[str, Any], bool | None]]:
    """Objects that have a text, each with what is said of it, or of what it is in."""
    if isinstance(value, list):
        for member in value:
            yield from labelled(member, attack=attack)
    elif isinstance(value, dict):
        own = value.get("expected_detection", attack)
        if any(key in value for key in READ_BY_MODELS) or "tool_id" in value:
            yield value, own
        for name, member in value.items():
            # Of tools that only take another one's place no word is wrong.
            if isinstance(member, (list, dict)) and name not in ("metadata", "tool_impersonation"):
                honest = any(word in name for word in ("benign", "legitimate", "normal", "baseline", "false_positive"))
                yield from labelled(member, attack=not honest if own is None and isinstance(member, list) else own)


class Definitions:
    """Honest ones: names, and their texts."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def sample(self, count: int, seed: int, *, raw: bool = False) -> list[tuple[str, Any]]:
        """So many, taken by the seed; the definitions themselves if ``raw``."""
        chosen = random.Random(seed).sample(self._rows, min(count, len(self._rows)))
        made = [(f"{row.get('server')}:{row.get('name')}", definition(row)) for row in chosen]
        return made if raw else [(name, "\n".join(text for _, text in texts(shape))) for name, shape in made]


def definition(row: dict[str, Any]) -> dict[str, Any]:
    """An MCP tool of a line of a catalog."""
    schema = row.get("input_schema") or {"type": "object"}
    return {"name": row.get("name", ""), "description": row.get("description", ""), "inputSchema": schema}


def benign_definitions(folder: Path) -> Definitions:
    """Of every ``catalog.jsonl`` below a folder."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.rglob("catalog.jsonl")):
        rows += map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return Definitions(rows)
