"""Correct plans, made by chance: graphs of calls, code, loops and workflows within, with references that find."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from values import NoValueError, arguments_of

from pml_hookspecs import CatalogEntry, CodeRun, Step, Task, ToolCall, Workflow

PYTHON = (
    "found = [row for row in {0}['items'] if row.get('state') != 'closed']\nreturn {{'n': len(found)}}",
    "total = 0\nfor one in ({0} or {{}}):\n    total += len(str(one))\nreturn f'{{total:>8}} {{{{x}}}}'",
    "async def half(x):\n    return x\nawait half(1)\nreturn {0}",
    "import re\nwords = re.findall(r'\\w+', str({0}))\nreturn {{w: words.count(w) for w in set(words)}}",
)
SCRIPT = (
    "const rows = {0}.items.filter((r: any) => r.state !== 'closed');\nreturn {{ n: rows.length }};",
    "// it's fine: }} ]\nconst text = `${{{0}.length}} of ${{`a${{1 + 1}}b`}}`;\nreturn text.replace(/[)\\]/]/g, '');",
    "let sum = 0;\nfor (const one of Object.keys({0})) {{ sum += one.length / 2; }}\nreturn sum /* ( */;",
    'const quoted = "a \\" }} b";\nreturn {{ quoted, all: {0} }};',
)
MOST_TRIES = 60


@dataclass
class Made:
    """One task of a plan that is still to be changed."""

    id: str
    entry: CatalogEntry | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    depends_on: list[str] = field(default_factory=list)
    language: str = ""
    source: str = ""
    inner: list[Made] = field(default_factory=list)
    step: dict[str, Any] = field(default_factory=dict)
    tool: str = ""
    """How the plan spells it."""

    def task(self) -> Task:
        """As the gateway has it."""
        depends_on, step = tuple(self.depends_on), Step(**self.step)
        if self.language:
            return CodeRun(id=self.id, language=self.language, source=self.source, depends_on=depends_on, step=step)
        if self.inner:
            return Workflow(id=self.id, tasks=tuple(one.task() for one in self.inner), depends_on=depends_on, step=step)
        return ToolCall(id=self.id, tool=self.tool, arguments=self.arguments, depends_on=depends_on, step=step)


@dataclass
class Plan:
    """A plan, with the catalog that it was made for."""

    tasks: list[Made]
    more: dict[str, Any] = field(default_factory=dict)

    def workflow(self) -> Workflow:
        """As the gateway has it."""
        return Workflow(id="plan", tasks=tuple(one.task() for one in self.tasks), **self.more)

    def calls(self) -> list[Made]:
        """Calls of tools at the top."""
        return [one for one in self.tasks if one.entry is not None]


def leaves(schema: Any, root: Any, path: str = "", depth: int = 0) -> list[tuple[str, Mapping[str, Any]]]:
    """Scalars in what fits a schema: ``(path, schema)``."""
    if not isinstance(schema, Mapping) or depth > 4:
        return []
    if "$ref" in schema:
        at = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            at = at[step]
        return leaves(at, root, path, depth)
    if schema.get("type") == "object":
        members = schema.get("properties", {}).items()
        return [leaf for name, one in members for leaf in leaves(one, root, f"{path}.{name}", depth + 1)]
    if schema.get("type") == "array":
        return leaves(schema.get("items"), root, f"{path}[0]", depth + 1)
    return [(path, schema)] if isinstance(schema.get("type"), str) else []


def alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether what fits ``one`` may be given where ``other`` is wanted."""
    if one.get("type") == "integer" and other.get("type") == "number":
        return True
    return one.get("type") == other.get("type") and one.get("enum") == other.get("enum")


class Planner:
    """Makes plans."""

    def __init__(self, entries: Sequence[CatalogEntry], chance: random.Random) -> None:
        self._entries, self._chance = entries, chance

    def plan(self, length: int) -> Plan:
        """A plan of ``length`` tasks at the top."""
        tasks: list[Made] = []
        while len(tasks) < length:
            id_ = f"t{len(tasks)}"
            draw = self._chance.random()
            if tasks and draw < 0.12:
                tasks.append(self._code(id_, tasks))
            elif len(tasks) > 1 and draw < 0.18:
                inner = [self._call(f"{id_}_{i}", []) for i in range(2)]
                tasks.append(Made(id=id_, inner=inner, depends_on=[tasks[-1].id]))
            else:
                tasks.append(self._call(id_, tasks))
        return Plan(tasks)

    def _call(self, id_: str, before: Sequence[Made]) -> Made:
        for _ in range(MOST_TRIES):
            entry = self._chance.choice(self._entries)
            try:
                arguments = arguments_of(entry, self._chance)
            except NoValueError:
                continue
            spelt = self._chance.choice([entry.id, entry.id.replace(":", "__", 1)])
            made = Made(id=id_, entry=entry, arguments=arguments, tool=spelt)
            if before:
                self._connect(made, before)
            self._dress(made, before)
            return made
        raise NoValueError

    def _connect(self, made: Made, before: Sequence[Made]) -> None:
        """Let some arguments come from earlier steps, and some steps only wait."""
        assert made.entry is not None
        if self._chance.random() < 0.3:
            made.depends_on.append(self._chance.choice(before).id)
        schema = made.entry.definition["inputSchema"]
        for name, wanted in schema.get("properties", {}).items():
            if name not in made.arguments or self._chance.random() < 0.4 or not isinstance(wanted, Mapping):
                continue
            source = self._chance.choice(before)
            if (reference := self._reference(source, wanted)) is not None:
                made.arguments[name] = reference

    def _reference(self, source: Made, wanted: Mapping[str, Any]) -> str | None:
        output = source.entry.definition.get("outputSchema") if source.entry is not None else None
        item = "[0]" if "for_each" in source.step else ""
        if output is None:
            plain = wanted.get("type") == "string" and not {"enum", "pattern", "format"} & wanted.keys()
            inside = f"see {{{{{source.id}}}}} \\{{{{x}}}}"
            alone = inside if source.inner or item else f"{{{{{source.id}}}}}"
            return self._chance.choice([alone, inside]) if plain else None
        fitting = [path for path, one in leaves(output, output) if alike(one, wanted)]
        return f"{{{{{source.id}{item}{self._chance.choice(fitting)}}}}}" if fitting else None

    def _dress(self, made: Made, before: Sequence[Made]) -> None:
        """Loops, conditions, retries, undoing and such."""
        draw = self._chance.random()
        if draw < 0.06:
            made.step["for_each"] = self._chance.choice([["a", "b"], [{"name": "x", "n": 1}, {"name": "y", "n": 2}]])
            self._with_item(made, "{{item}}" if made.step["for_each"][0] == "a" else "{{item.name}}")
        elif draw < 0.12:
            made.step["on_error"] = self._chance.choice(["skip", "continue"])
        elif draw < 0.16:
            made.step["approve"] = True
        elif draw < 0.22 and before:
            made.step["when"] = f"length({before[-1].id}.items || `[]`) > `0` || 'no task' == 'x'"
        elif draw < 0.30:
            self._loop(made, before)
        self._undoing(made)

    def _with_item(self, made: Made, reference: str) -> None:
        """Hand the item on where any text will do."""
        assert made.entry is not None
        for name, wanted in made.entry.definition["inputSchema"].get("properties", {}).items():
            plain = isinstance(wanted, Mapping) and wanted.get("type") == "string"
            if plain and not {"enum", "pattern", "format"} & wanted.keys() and name in made.arguments:
                made.arguments[name] = reference

    def _loop(self, made: Made, before: Sequence[Made]) -> None:
        """Over the items that an earlier step found."""
        for source in before:
            output = source.entry.definition.get("outputSchema") if source.entry is not None else None
            if output is None or "items" not in output.get("properties", {}) or source.step:
                continue
            made.step["for_each"] = f"{{{{{source.id}.items}}}}"
            fields = leaves(output["properties"]["items"]["items"], output)
            texts = [path for path, one in fields if alike(one, {"type": "string"})]
            if texts:
                self._with_item(made, f"{{{{item{self._chance.choice(texts)}}}}}")
            return

    def _undoing(self, made: Made) -> None:
        """Delete again what is created, where the tools for that are there."""
        assert made.entry is not None
        server, _, thing = made.entry.id.partition(":create_")
        delete = f"{server}:delete_{thing}"
        output = made.entry.definition.get("outputSchema")
        if thing and output is not None and any(entry.id == delete for entry in self._entries):
            undo = ToolCall(id="undo", tool=delete, arguments={f"{thing}_id": f"{{{{{made.id}.id}}}}"})
            made.step["compensate"] = undo

    def _code(self, id_: str, before: Sequence[Made]) -> Made:
        source = self._chance.choice(before)
        language = self._chance.choice(["python", "typescript", "javascript"])
        body = self._chance.choice(PYTHON if language == "python" else SCRIPT)
        if language == "javascript":
            body = body.replace("(r: any)", "(r)")
        return Made(id=id_, language=language, source=body.format(source.id), depends_on=[source.id])
