"""``[plugins.flows]``."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Literal, NamedTuple

from pml_hookspecs import setting

ARROW = "->"


class Rule(NamedTuple):
    """A flow that nobody looks at."""

    server: str
    """Pattern of the server that the value comes from."""
    tool: str
    """Pattern of the tool's id."""
    argument: str
    """Pattern of the argument; ``""`` for all, and for whether the tool is called."""

    def covers(self, server: str, tool: str, argument: str) -> bool:
        """Whether it is that flow; ``argument`` is ``""`` for whether the tool is called."""
        if not (fnmatchcase(server, self.server) and fnmatchcase(tool, self.tool)):
            return False
        return not self.argument or fnmatchcase(argument, self.argument)


def rule_of(text: str) -> Rule:
    """The rule that is written so.

    Raises:
        ValueError: It is none.
    """
    server, arrow, target = text.partition(ARROW)
    owner, colon, rest = target.strip().partition(":")
    tool, _, argument = rest.partition(".")
    if not (arrow and colon and server.strip() and owner and tool):
        raise ValueError(f"allow: {text!r} is not 'SERVER -> SERVER:TOOL' or 'SERVER -> SERVER:TOOL.ARGUMENT'")
    return Rule(server.strip(), f"{owner}:{tool}", argument)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What happens when words of an untrusted server would decide what a tool of another server does."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    action: Literal["ask", "deny", "off"] = setting(
        "ask", "What happens then: a human is asked, with the values and where they come from; it is refused; nothing."
    )
    conditions: bool = setting(
        default=True,
        description="Whether conditions (when) and loops (for_each) over such words count where a tool may destroy.",
    )
    allow: tuple[str, ...] = setting(
        (),
        "Flows that nobody looks at, as 'SERVER -> SERVER:TOOL' or 'SERVER -> SERVER:TOOL.ARGUMENT', each a pattern, "
        "such as 'github -> jira:create_*.project'.",
    )
    arguments: dict[str, tuple[str, ...]] = setting(
        dict,
        "Arguments that count, by a tool's id or a pattern for it, in place of those that their names, formats and the "
        "tool's annotations tell: 'bank:pay' = ['recipient']; none for a tool that harms nobody.",
    )
    matching: bool = setting(
        default=False,
        description="Single calls, too: whether long or unusual parts of their arguments stand in what untrusted "
        "servers answered the same client before.",
    )
    matching_characters: int = setting(8, "Shortest part that is looked for [characters].", ge=4)
    matching_bytes: int = setting(
        262_144, "Of what untrusted servers answered a client last, this much is looked through [bytes].", ge=1024
    )

    def __post_init__(self) -> None:
        """Refuse rules that cannot be read.

        Raises:
            ValueError: One of them.
        """
        self.rules()

    def rules(self) -> tuple[Rule, ...]:
        """What ``allow`` says."""
        return tuple(map(rule_of, self.allow))
