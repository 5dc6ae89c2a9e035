"""Ways to break a correct plan, each with what a pre-flight has to say of it and where."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plans import Made, Plan, leaves

from pml_hookspecs import CatalogEntry, replace


@dataclass
class Planted:
    """A plan with one fault."""

    kind: str
    plan: Plan
    codes: frozenset[str]
    """Any of these tells of the fault."""
    tasks: frozenset[str]
    """Paths of the steps that it can be told of."""
    down: set[str] = field(default_factory=set)
    """Servers that are down."""
    denied: set[str] = field(default_factory=set)
    """Tools that the caller may not have."""


Change = Callable[["Breaker", Plan], "tuple[Sequence[str], Sequence[str]] | None"]
KINDS: dict[str, Change] = {}
IN_SANDBOXES: set[str] = set()
"""Kinds that only what really runs code, or asks humans, can find."""
STOPPED = "policy.asks"
"""Stands for a step that the report says policy would stop for a human."""


def kind(name: str, *, sandboxes: bool = False) -> Callable[[Change], Change]:
    """Register a way to break plans: it gives codes and tasks, or None where the plan has nothing to break so."""

    def register(change: Change) -> Change:
        KINDS[name] = change
        if sandboxes:
            IN_SANDBOXES.add(name)
        return change

    return register


class Breaker:
    """Breaks plans by chance."""

    def __init__(self, entries: Sequence[CatalogEntry], chance: random.Random) -> None:
        self.entries, self.chance = entries, chance
        self.ids = {entry.id for entry in entries}
        self.down: set[str] = set()
        self.denied: set[str] = set()

    def break_(self, name: str, plan: Plan) -> Planted | None:
        """A copy of ``plan`` with a fault of that kind; None where that is not possible."""
        plan, self.down, self.denied = copy.deepcopy(plan), set(), set()
        told = KINDS[name](self, plan)
        if told is None:
            return None
        return Planted(name, plan, frozenset(told[0]), frozenset(told[1]), self.down, self.denied)

    def call(self, plan: Plan, fits: Callable[[Made], bool] = lambda _: True) -> Made | None:
        """Some call of the plan."""
        found = [one for one in plan.calls() if fits(one)]
        return self.chance.choice(found) if found else None

    def argument(self, plan: Plan, fits: Callable[[Mapping[str, Any]], bool]) -> tuple[Made, str] | None:
        """Some argument that is given by value, whose schema ``fits``."""
        found = [
            (one, name)
            for one in plan.calls()
            for name, value in one.arguments.items()
            if fits(properties(one).get(name, {})) and "{{" not in str(value)
        ]
        return self.chance.choice(found) if found else None

    def feed(self, plan: Plan) -> tuple[Made, Made] | None:
        """Two calls, the first with a declared output, the second after it with arguments."""
        calls = plan.calls()
        pairs = [
            (one, other)
            for i, one in enumerate(calls)
            for other in calls[i + 1 :]
            if one.entry and one.entry.definition.get("outputSchema") and other.arguments and "for_each" not in one.step
        ]
        return self.chance.choice(pairs) if pairs else None


def properties(made: Made) -> Mapping[str, Any]:
    """Of the tool's arguments."""
    assert made.entry is not None
    found = made.entry.definition["inputSchema"].get("properties", {})
    return {name: one for name, one in found.items() if isinstance(one, Mapping)}


def closed(made: Made) -> bool:
    """Whether the tool refuses other arguments."""
    assert made.entry is not None
    return made.entry.definition["inputSchema"].get("additionalProperties") is False


def free_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string"


@kind("unknown tool")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan)
    if made is None:
        return None
    made.tool = breaker.chance.choice(["warehouse:teleport", "tracker:summon_dragon", "no_such_tool", "x__y"])
    return ["tool.unknown"], [made.id]


@kind("misspelt tool")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan)
    if made is None:
        return None
    place = breaker.chance.randrange(made.tool.index(":") + 1 if ":" in made.tool else 1, len(made.tool))
    misspelt = made.tool[:place] + made.tool[place + 1 :]
    if misspelt.replace("__", ":", 1) in breaker.ids or misspelt.partition(":")[2] == "":
        return None
    made.tool = misspelt
    return ["tool.unknown"], [made.id]


@kind("missing required argument")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan, lambda one: any(n in one.arguments for n in required(one)))
    if made is None:
        return None
    del made.arguments[breaker.chance.choice([n for n in required(made) if n in made.arguments])]
    return ["argument.missing"], [made.id]


def required(made: Made) -> Sequence[str]:
    assert made.entry is not None
    return list(made.entry.definition["inputSchema"].get("required", ()))


@kind("missing argument in an object")
def _(breaker: Breaker, plan: Plan) -> Any:
    def depends_on(schema: Mapping[str, Any]) -> bool:
        return schema.get("type") == "object" and bool(schema.get("required"))

    if (found := breaker.argument(plan, depends_on)) is None:
        return None
    made, name = found
    made.arguments[name] = {k: v for k, v in made.arguments[name].items() if k != properties(made)[name]["required"][0]}
    return ["argument.missing"], [made.id]


@kind("wrong type")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (found := breaker.argument(plan, lambda s: isinstance(s.get("type"), str))) is None:
        return None
    made, name = found
    wrong = {"string": 17, "integer": "many", "number": "a lot", "boolean": "yes", "array": "one", "object": "it"}
    made.arguments[name] = wrong.get(properties(made)[name]["type"], [])
    return ["argument.type", "argument.choice"], [made.id]


@kind("wrong type deep inside")
def _(breaker: Breaker, plan: Plan) -> Any:
    places = [
        (one, holder, name)
        for one in plan.calls()
        for name_, value in one.arguments.items()
        if "{{" not in str(value) and isinstance(properties(one).get(name_, {}).get("type", "$ref"), str)
        for holder, name in inside(value)
    ]
    if not places:
        return None
    made, holder, name = breaker.chance.choice(places)
    holder[name] = {"not": "this"} if not isinstance(holder[name], dict) else 5
    return ["argument.type", "argument.choice", "argument.invalid"], [made.id]


def inside(value: Any) -> list[tuple[dict[str, Any], str]]:
    """Members of objects in a value, with their holders, where a schema knows them."""
    if isinstance(value, list):
        return [found for item in value for found in inside(item)]
    if not isinstance(value, dict):
        return []
    return [(value, name) for name in value] + [found for member in value.values() for found in inside(member)]


@kind("wrong choice")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (found := breaker.argument(plan, lambda s: "enum" in s and s.get("type") == "string")) is None:
        return None
    made, name = found
    made.arguments[name] = f"{made.arguments[name]}ish"
    return ["argument.choice"], [made.id]


@kind("unknown argument")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan, closed)
    if made is None:
        return None
    made.arguments[breaker.chance.choice(["verbose", "colour", "dryrun"])] = True
    return ["argument.unknown"], [made.id]


@kind("misspelt argument")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan, lambda one: any(len(n) > 4 and n not in required(one) for n in one.arguments))
    if made is None:
        return None
    name = next(n for n in made.arguments if len(n) > 4 and n not in required(made))
    if name not in properties(made):
        return None
    made.arguments[name[:-2] + name[-1]] = made.arguments.pop(name)
    return ["argument.unknown", "argument.undeclared"], [made.id]


@kind("out of range")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (found := breaker.argument(plan, lambda s: {"minimum", "maximum", "maxLength", "maxItems"} & s.keys())) is None:
        return None
    made, name = found
    schema = properties(made)[name]
    if "maximum" in schema:
        made.arguments[name] = int(schema["maximum"]) + 1
    elif "minimum" in schema:
        made.arguments[name] = int(schema["minimum"]) - 1
    elif "maxLength" in schema:
        made.arguments[name] = "x" * (schema["maxLength"] + 1)
    else:
        made.arguments[name] = ["x"] * (schema["maxItems"] + 1)
    return ["argument.range"], [made.id]


@kind("format violated")
def _(breaker: Breaker, plan: Plan) -> Any:
    known = ("date", "date-time", "email", "uri")
    if (found := breaker.argument(plan, lambda s: s.get("format") in known)) is None:
        return None
    made, name = found
    made.arguments[name] = breaker.chance.choice(["tomorrow", "31.12.2025", "not an address"])
    return ["argument.format"], [made.id]


@kind("pattern violated")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (found := breaker.argument(plan, lambda s: "pattern" in s)) is None:
        return None
    made, name = found
    made.arguments[name] = "42!"
    return ["argument.format"], [made.id]


@kind("reference to a missing task")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan, lambda one: bool(one.arguments))
    if made is None:
        return None
    name = breaker.chance.choice(list(made.arguments))
    made.arguments[name] = "{{" + breaker.chance.choice(["t99.id", "result", "t_0.items[0]"]) + "}}"
    return ["reference.no_task"], [made.id]


@kind("reference to a missing field")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (pair := breaker.feed(plan)) is None:
        return None
    one, other = pair
    assert one.entry is not None
    output = one.entry.definition["outputSchema"]
    paths = [path for path, _ in leaves(output, output)]
    path = breaker.chance.choice([f"{breaker.chance.choice(paths)}x" if paths else ".x", ".result.value", ".data[0]"])
    other.arguments[breaker.chance.choice(list(other.arguments))] = f"{{{{{one.id}{path}}}}}"
    return ["reference.missing", "reference.undeclared"], [other.id]


@kind("wrong type through a reference")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (pair := breaker.feed(plan)) is None:
        return None
    one, other = pair
    assert one.entry is not None
    output = one.entry.definition["outputSchema"]
    wanted = {n: s for n, s in properties(other).items() if n in other.arguments and isinstance(s.get("type"), str)}
    pairs = [
        (path, name)
        for path, leaf in leaves(output, output)
        for name, schema in wanted.items()
        if leaf["type"] != schema["type"] and {leaf["type"], schema["type"]} != {"integer", "number"}
    ]
    if not pairs:
        return None
    path, name = breaker.chance.choice(pairs)
    other.arguments[name] = f"{{{{{one.id}{path}}}}}"
    return ["reference.type"], [other.id]


@kind("text where a reference stands in text")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (pair := breaker.feed(plan)) is None:
        return None
    one, other = pair
    numbers = [n for n, s in properties(other).items() if s.get("type") in ("integer", "boolean", "array")]
    numbers = [n for n in numbers if n in other.arguments]
    if not numbers:
        return None
    other.arguments[breaker.chance.choice(numbers)] = f"about {{{{{one.id}}}}}"
    return ["argument.type"], [other.id]


@kind("cycle")
def _(breaker: Breaker, plan: Plan) -> Any:
    if len(plan.tasks) < 3:
        return None
    first, second = sorted(breaker.chance.sample(range(len(plan.tasks)), 2))
    one, other = plan.tasks[first], plan.tasks[second]
    one.depends_on.append(other.id)
    other.depends_on.append(one.id)
    return ["plan.cycle"], [task.id for task in plan.tasks]


@kind("needs a task that is not there")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.chance.choice(plan.tasks)
    made.depends_on.append(f"{made.id}_before")
    return ["reference.no_task"], [made.id]


@kind("the same id twice")
def _(breaker: Breaker, plan: Plan) -> Any:
    if len(plan.tasks) < 2:
        return None
    used = {word for one in plan.tasks for word in one.depends_on} | {plan.tasks[0].id}
    last = plan.tasks[-1]
    if last.id in used or last.id in str([one.arguments for one in plan.tasks]):
        return None
    last.id = plan.tasks[0].id
    return ["plan.duplicate_id", "plan.needs_itself"], [last.id]


@kind("item outside a loop")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan, lambda one: bool(one.arguments) and "for_each" not in one.step)
    if made is None:
        return None
    made.arguments[breaker.chance.choice(list(made.arguments))] = "{{item.name}}"
    return ["reference.no_item"], [made.id]


@kind("loop over what is no array")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (pair := breaker.feed(plan)) is None:
        return None
    one, other = pair
    other.step["for_each"] = f"{{{{{one.id}}}}}"
    return ["reference.type"], [other.id]


@kind("server down")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan)
    if made is None or made.entry is None:
        return None
    breaker.down.add(made.entry.server)
    return ["server.unavailable"], [one.id for one in plan.calls()]


@kind("forbidden tool")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan)
    if made is None or made.entry is None:
        return None
    breaker.denied.add(made.entry.id)
    return ["policy.denied"], [one.id for one in plan.calls() if one.entry and one.entry.id == made.entry.id]


@kind("Python that does not parse")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (made := _code(breaker, plan, "python")) is None:
        return None
    made.source = breaker.chance.choice(
        [
            f"{made.source}\nreturn (1,",
            f"if True\n    x = 1\n{made.source}",
            f"{made.source}\n  y = 2",
            "x = = 1",
            "return 'a",
        ]
    )
    return ["code.syntax"], [made.id]


@kind("TypeScript that does not parse", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    if (made := _code(breaker, plan, "typescript") or _code(breaker, plan, "javascript")) is None:
        return None
    made.source = breaker.chance.choice(
        [
            f"{made.source}\n}}",
            f"if (x {{\n{made.source}",
            f"{made.source}\nconst a = [1, 2;",
            "return 'a",
            "return `a ${b",
        ]
    )
    return ["code.syntax"], [made.id]


@kind("TypeScript with a word misplaced", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    """Brackets and quotes are right; whoever does not parse may not see it."""
    if (made := _code(breaker, plan, "typescript") or _code(breaker, plan, "javascript")) is None:
        return None
    wrong = ["const = 5;", "let x y = 3;", "const a = 1 +;", "for (const of x) {}", "x => => 1;", "if () {}", "1 = x;"]
    made.source = f"{breaker.chance.choice(wrong)}\n{made.source}"
    return ["code.syntax"], [made.id]


@kind("Python with an undefined name")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (made := _code(breaker, plan, "python")) is None:
        return None
    made.source = f"first = undefned_thing[0]\n{made.source}"
    return ["code.undefined"], [made.id]


@kind("field missing in the item of a loop")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan, lambda one: isinstance(one.step.get("for_each"), str) and "{{item" in str(one.arguments))
    if made is None:
        return None
    name = next(name for name, value in made.arguments.items() if "{{item" in str(value))
    made.arguments[name] = "{{item.no_such_field}}"
    return ["reference.missing", "reference.undeclared"], [made.id]


@kind("undoing with what is not there")
def _(breaker: Breaker, plan: Plan) -> Any:
    made = breaker.call(plan, lambda one: "compensate" in one.step)
    if made is None:
        return None
    undo = made.step["compensate"]
    name = next(iter(undo.arguments))
    made.step["compensate"] = replace(undo, arguments={name: undo.arguments[name].replace(".id", ".identifier")})
    return ["reference.missing", "reference.undeclared"], [made.id]


@kind("Python without its dependency")
def _(breaker: Breaker, plan: Plan) -> Any:
    coded = [one for one in plan.tasks if one.language == "python" and one.depends_on]
    if not coded:
        return None
    made = breaker.chance.choice(coded)
    made.depends_on.clear()
    return ["plan.missing_need"], [made.id]


@kind("Python that calls an unknown tool")
def _(breaker: Breaker, plan: Plan) -> Any:
    if (made := _code(breaker, plan, "python")) is None:
        return None
    made.source = f"await tools.tracker.list_isues(state='open')\n{made.source}"
    return ["tool.unknown"], [made.id]


@kind("budget too small")
def _(breaker: Breaker, plan: Plan) -> Any:
    calls = len(plan.calls())
    if calls < 2:
        return None
    plan.more["max_tool_calls"] = calls - 1
    return ["budget.tool_calls"], [""]


def _code(breaker: Breaker, plan: Plan, language: str) -> Made | None:
    found = [one for one in plan.tasks if one.language == language]
    return breaker.chance.choice(found) if found else None
