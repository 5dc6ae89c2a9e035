"""Differences that the specification allows, each with its sentence. All others are mistakes of the gateway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from comparing import OWN, Difference, is_list

_NO_METHOD = -32601


@dataclass(frozen=True)
class Rule:
    """Why a difference is as it should be."""

    title: str
    holds: Callable[[Difference], bool]
    sentence: str
    """What the specification says."""
    where: str
    """The page of the specification, under ``specification/2025-11-25``."""


def explanation(found: Difference) -> Rule | None:
    """The rule that explains a difference; ``None`` for none."""
    return next((rule for rule in RULES if rule.holds(found)), None)


def _greeting(found: Difference) -> bool:
    """The server's own words, and more after them."""
    is_it = found.part == "initialize" and found.path == ("instructions",)
    return is_it and str(found.through or "").startswith(str(found.direct or ""))


def _more(found: Difference) -> bool:
    return found.part == "initialize" and found.path[0] == "capabilities" and found.direct in (None, False)


def _version(found: Difference) -> bool:
    return found.part == "initialize" and found.path == ("protocolVersion",)


def _empty(found: Difference) -> bool:
    where = ("capabilities", "experimental")
    return found.part == "initialize" and found.path == where and not found.direct and found.through is None


def _not_negotiated(found: Difference) -> bool:
    return is_list(found.part) and not found.path and found.direct.get("error", {}).get("code") == _NO_METHOD


def _own_resource(found: Difference) -> bool:
    resource = found.path[1] if len(found.path) == 2 else ""
    return is_list(found.part) and found.direct is None and str(resource).startswith(OWN)


def _order(found: Difference) -> bool:
    return is_list(found.part) and found.path == ("order",) and sorted(found.direct) == sorted(found.through)


def _own_meta(found: Difference) -> bool:
    """Members under the gateway's own names, and nothing else."""
    if found.direct is not None or "_meta" not in found.path:
        return False
    named = found.path[found.path.index("_meta") + 1 :]
    names = named[:1] or tuple(found.through)
    return all(str(name).startswith("pml/") for name in names)


def _note(found: Difference) -> bool:
    return found.part.startswith("tools/call ") and found.path == ("note",) and found.direct is None


RULES: tuple[Rule, ...] = (
    Rule(
        "the gateway's own name and greeting",
        _greeting,
        "The server MUST respond with its own capabilities and information",
        "basic/lifecycle",
    ),
    Rule(
        "what the gateway can do besides",
        _more,
        "The server MUST respond with its own capabilities and information",
        "basic/lifecycle",
    ),
    Rule(
        "the revision that is agreed on",
        _version,
        "If the server supports the requested protocol version, it MUST respond with the same version",
        "basic/lifecycle",
    ),
    Rule(
        "experimental features that are declared, and are none",
        _empty,
        "experimental: Describes support for non-standard experimental features",
        "basic/lifecycle",
    ),
    Rule(
        "a list that the server does not have, and the gateway has",
        _not_negotiated,
        "Both parties MUST: ... Only use capabilities that were successfully negotiated",
        "basic/lifecycle",
    ),
    Rule(
        "resources of the gateway itself",
        _own_resource,
        "Resources allow servers to share data that provides context to language models",
        "server/resources",
    ),
    Rule(
        "the order of a list",
        _order,
        "To discover available tools, clients send a tools/list request: the answer is a list of tools, known by name; "
        "no order is asked for",
        "server/tools",
    ),
    Rule(
        "what the gateway notes in _meta under its own name",
        _own_meta,
        "The _meta property/parameter is reserved by MCP to allow clients and servers to attach additional metadata to "
        "their interactions",
        "basic",
    ),
    Rule(
        "what the gateway notes after an error, where the arguments do not fit the schema",
        _note,
        "Tool Execution Errors contain actionable feedback that language models can use to self-correct and retry with "
        "adjusted parameters",
        "server/tools",
    ),
)
