"""Arguments against a tool's input schema, where some of them are not known yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import replace
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.offers.presentation import fixed_of, same_json
from pml_kit.references import Path, Reference, Slot, path_text
from pml_kit.schema.members import part_at, properties
from pml_kit.schema.validation import Validator

from .coercion import may_be_taken, reads_as
from .findings import Finding, error, warning
from .message_text import a, did_you_mean, either, kind, listed, nearest, short
from .references import ValueScan
from .shapes import MissingPath, SubSchema, branches, clash, follow

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

    from pml_hookspecs import CatalogEntry

MOST_KEPT = 4096
"""Compiled schemas; the ones not used for longest go first."""
MOST_READ = 200
MOST_FOUND = 20
"""Findings in one set of arguments."""
MOST_CHARACTERS = 200
OF_THE_WHOLE = frozenset(
    ("additionalProperties", "maxItems", "maxProperties", "minItems", "minProperties", "required", "type")
)
"""Keywords that look at which members there are, not at their values."""
CODES = {
    "required": "argument.missing",
    "additionalProperties": "argument.unknown",
    "unevaluatedProperties": "argument.unknown",
    "type": "argument.type",
    "enum": "argument.choice",
    "const": "argument.choice",
    "format": "argument.format",
    "pattern": "argument.format",
    **dict.fromkeys(
        (
            "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
            "minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems",
        ),
        "argument.range",
    ),
}  # fmt: skip
OTHER = "argument.invalid"


class ArgumentProblem(NamedTuple):
    """An argument that does not fit the schema."""

    code: str
    path: Path
    message: str
    open: bool = False
    """Whether a server may take it all the same."""
    sure: bool = True
    """False when it is only known from what was seen before."""


ArgumentEcho = Callable[[Reference], SubSchema | MissingPath]
"""What a reference will find."""


class Schemas:
    """Compiled input schemas, by the digest of the definition."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def of(self, entry: CatalogEntry) -> Any:
        """The validator; a text that says why there is none; None when the tool has no schema."""
        if entry.digest in self._kept:
            self._kept.move_to_end(entry.digest)
            return self._kept[entry.digest]
        made = _compiled(input_schema(entry))
        if entry.digest:
            self._kept[entry.digest] = made
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return made


def _compiled(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return None
    try:
        return Validator(schema, formats=True)
    except ValueError as exc:
        return str(exc).partition("\n")[0][:MOST_CHARACTERS]


def check(
    task: str, entry: CatalogEntry, validator: Any, scanned: ValueScan, given: ArgumentEcho, name: str = "arguments"
) -> list[Finding]:
    """Everything that is wrong with the arguments of one call.

    Args:
        task: Path of the task.
        entry: The tool.
        validator: Of its input schema, from :class:`Schemas`.
        scanned: The arguments, with the references in them.
        given: What references find; those that find nothing are told elsewhere.
        name: What the arguments are called in places.
    """
    schema = input_schema(entry)
    if isinstance(validator, str):
        message = f"the input schema of {entry.id} cannot be used, so its arguments are not checked: {validator}"
        return [warning("schema.unusable", task, message)]
    if validator is None or not isinstance(schema, Mapping):
        return []
    if not validator.admits(scanned.value):
        message = f"the arguments for {entry.id} are more than can be checked in a moment"
        return [warning("argument.unchecked", task, message, name)]
    try:
        found = islice(_all_wrong(validator, scanned, schema), MOST_FOUND)
        wrong = [*found, *_handed_on(scanned.slots, SubSchema(schema, schema), given)]
    except (ValueError, RecursionError) as exc:
        return [warning("argument.unchecked", task, f"the arguments for {entry.id} cannot be checked: {exc}", name)]
    return [_told(task, one, name) for one in [*wrong, *_unnamed(scanned.value, schema)]]


def without_fixed(
    task: str, entry: CatalogEntry, scanned: ValueScan, name: str = "arguments"
) -> tuple[ValueScan, list[Finding]]:
    """The arguments without those that the gateway's configuration fixes, and what is wrong with these."""
    given = [one for one in fixed_of(entry) if one in scanned.value]
    if not given:
        return scanned, []
    wrong = [one for one in given if not same_json(scanned.value[one], fixed_of(entry)[one])]
    message = f"is fixed for {entry.id} in the gateway's configuration; leave it out"
    found = [error("argument.fixed", task, message, f"{name}{path_text((one,))}") for one in wrong]
    value = {one: of for one, of in scanned.value.items() if one not in given}
    slots = tuple(slot for slot in scanned.slots if slot.path[0] not in given)
    return replace(scanned, value=value, slots=slots), found


def _told(task: str, wrong: ArgumentProblem, name: str) -> Finding:
    # Servers differ in what they take for a date or an address; the gateway itself does not check formats.
    level = warning if wrong.code in ("argument.format", "argument.undeclared") or not wrong.sure else error
    made = level(wrong.code, task, wrong.message, f"{name}{path_text(wrong.path)}")
    return replace(made, open=wrong.open)


def _all_wrong(validator: Any, scanned: ValueScan, schema: Mapping[str, Any]) -> Iterator[ArgumentProblem]:
    if not validator.is_valid(scanned.value):
        errors = islice(validator.iter_errors(scanned.value), MOST_READ)
        yield from _of_errors(_relevant(errors, scanned.slots), scanned.slots, schema)


def _relevant(errors: Iterable[ValidationError], slots: Sequence[Slot]) -> list[ValidationError]:
    """Those that no unknown value can be to blame for."""
    return [one for one in errors if not any(_excuses(slot, one) for slot in slots)]


def _excuses(slot: Slot, found: ValidationError) -> bool:
    here = tuple(found.instance_path)
    if here[: len(slot.path)] == slot.path:
        if not slot.whole and found.kind.name == "type":
            # The text around the reference makes it a string, whatever it finds.
            return "string" in found.kind.as_dict()["types"]
        return True
    return slot.path[: len(here)] == here and found.kind.name not in OF_THE_WHOLE


def _of_errors(
    errors: Iterable[ValidationError], slots: Sequence[Slot], schema: Mapping[str, Any]
) -> Iterator[ArgumentProblem]:
    for found in errors:
        path, name, facts = tuple(found.instance_path), found.kind.name, found.kind.as_dict()
        code = CODES.get(name, OTHER)
        if name == "required":
            missing = facts["property"]
            declared = properties(part_at(schema, found.schema_path[:-1]))
            message = f"is missing; expected {_expected(declared, missing)}"
            yield ArgumentProblem(code, (*path, missing), message, "default" in _mapping(declared.get(missing)))
        elif name in ("additionalProperties", "unevaluatedProperties"):
            for unknown in facts["unexpected"][:MOST_FOUND]:
                there: Any = found.instance
                known = [one for one in properties(part_at(schema, found.schema_path[:-1])) if one not in there]
                near = did_you_mean(unknown, known)
                hint = near or (f"; not given yet: {listed(known)}" if known else "")
                yield ArgumentProblem(code, (*path, unknown), f"unknown{hint}", not near)
        elif name in ("anyOf", "oneOf") and facts.get("context"):
            yield from _of_choice(found, facts["context"], slots, schema)
        else:
            within = any(slot.path == path for slot in slots)
            yield ArgumentProblem(code, path, _plain(found, facts), within or may_be_taken(found, schema))


def _plain(found: ValidationError, facts: Mapping[str, Any]) -> str:
    name, value = found.kind.name, found.instance
    if name == "type":
        return f"must be {either(facts['types'])}, not {kind(value)}"
    if name == "enum":
        near = (
            nearest(value, [one for one in facts["options"] if isinstance(one, str)]) if isinstance(value, str) else []
        )
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"must be one of {listed(map(short, facts['options']))}; not {short(value)}{hint}"
    if name == "const":
        return f"must be {short(facts['expected_value'])}, not {short(value)}"
    if name == "format":
        return f"must be {a(str(facts['format']))}; {short(value)} is none"
    text: str = found.message
    return text if len(text) <= MOST_CHARACTERS else f"{name} is not kept by {short(value)}"


def _of_choice(
    found: ValidationError,
    context: Sequence[Sequence[ValidationError]],
    slots: Sequence[Slot],
    schema: Mapping[str, Any],
) -> Iterator[ArgumentProblem]:
    """What is wrong with the nearest of several allowed forms; the types allowed when it is none of them."""
    here = list(found.instance_path)
    forms = [_relevant(form, slots) for form in context if form]
    if any(not form for form in forms):
        return
    near = [form for form in forms if not any(e.kind.name == "type" and list(e.instance_path) == here for e in form)]
    if near:
        fewest: list[ValidationError] = min(near, key=len)
        yield from _of_errors(fewest, slots, schema)
        return
    types = {name for form in forms for e in form if e.kind.name == "type" for name in e.kind.as_dict()["types"]}
    wanted = either(types) if types else "one of the allowed forms"
    message = f"must be {wanted}, not {kind(found.instance)}"
    taken = may_be_taken(found, schema) or reads_as(found.instance, types)
    yield ArgumentProblem("argument.type", tuple(here), message, taken)


def _expected(declared: Mapping[str, Any], name: str) -> str:
    type_ = _mapping(declared.get(name)).get("type")
    if isinstance(type_, list):
        return either(map(str, type_))
    return a(type_) if isinstance(type_, str) else "a value"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _unnamed(value: Mapping[str, Any], schema: Mapping[str, Any]) -> list[ArgumentProblem]:
    """Arguments that an open schema lets pass, though they look like another one that is not given."""
    flats = branches(SubSchema(schema, schema))
    if flats is None or len(flats) != 1 or flats[0].get("additionalProperties", True) not in (True, {}):
        return []
    named = properties(flats[0])
    free = [name for name in named if name not in value]
    found = [(name, nearest(name, free, least=0.75)) for name in value if name not in named] if free else []
    return [
        ArgumentProblem("argument.undeclared", (name,), f"is not declared by the tool; did you mean {near[0]!r}?")
        for name, near in found
        if near
    ]


def _handed_on(slots: Sequence[Slot], into: SubSchema, given: ArgumentEcho) -> Iterator[ArgumentProblem]:
    """Results of earlier steps that cannot fit where they are put."""
    for slot in slots:
        wanted = follow(into, slot.path)
        if isinstance(wanted, MissingPath):
            continue
        if (reference := slot.whole) is None:
            if options := _none_of(slot, wanted):
                shown = listed(map(short, options))
                yield ArgumentProblem(
                    "argument.choice", slot.path, f"must be one of {shown}; {short(slot.text)} is none"
                )
            continue
        value = given(reference)
        if isinstance(value, SubSchema) and (reason := clash(value, wanted)):
            yield ArgumentProblem("reference.type", slot.path, f"{reference.text} {reason}", sure=value.sure)


def _none_of(slot: Slot, wanted: SubSchema) -> Sequence[Any]:
    """The values that a text may have, if it is none of them by how it begins and ends; else empty."""
    options: list[Any] = []
    for flat in branches(wanted) or [{}]:
        values = [flat["const"]] if "const" in flat else flat.get("enum")
        if not isinstance(values, list):
            return []
        options += values
    begin, end = (part if isinstance(part, str) else "" for part in (slot.parts[0], slot.parts[-1]))
    fits = (isinstance(one, str) and one.startswith(begin) and one.endswith(end) for one in options)
    return [] if any(fits) else options
