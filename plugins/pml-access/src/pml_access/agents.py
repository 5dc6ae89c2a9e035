"""Whose agents are, whom they are shared with, and whom each may call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CLIENT_PREFIX, Scope, replace
from pml_kit.shared.change import Write, change

from .keys import AGENT_PREFIX, SYSTEM, Keys, every

if TYPE_CHECKING:
    from pml_hookspecs import Document, Services, Session

    from .settings import Settings

AGENTS = "access.agents"
FRESH_S = 2.0
"""How old what is known of the store may be [s]."""
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """What is known of one agent."""

    owner: str = ""
    """``""``: everybody's."""
    shared_with: frozenset[str] = NONE
    permits: frozenset[str] = NONE

    def shown(self, agent: str, *, declared: bool) -> dict[str, Any]:
        """For people and programs."""
        said = {"owner": self.owner or None, "shared_with": sorted(self.shared_with), "permits": sorted(self.permits)}
        return {"agent": agent, **said, "declared": declared}


NO_RULE = Rule()


class ConfiguredRuleError(Exception):
    """A rule of an agent cannot be changed because the configuration has it."""


class Agents:
    """The rules of all agents: those of the settings, and those of the store."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._stored: Mapping[str, Rule] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self._has_keys = True
        self._failing = False
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Use these settings from now on; what they say of an agent is all that counts for it."""
        self.declared = {
            name: Rule(said.owner, frozenset(said.shared_with), frozenset(said.permits))
            for name, said in settings.agents.items()
        }
        self._merge()

    def _merge(self) -> None:
        self.rules: Mapping[str, Rule] = {**self._stored, **self.declared}

    # For those who cannot wait

    @property
    def known(self) -> bool:
        """Whether the store has been read."""
        return self._read_at is not None

    @property
    def alike(self) -> bool:
        """Whether nobody can be treated differently from anybody else."""
        return self.known and not self._has_keys and not self.rules

    def may_call(self, session: Session, agent: str) -> bool:
        """Whether ``session`` may call ``agent``; nobody may while the rules are not known."""
        if SYSTEM in session.scopes:
            return True
        if not self.known:
            return False
        if session.agent:
            return agent in self.rules.get(session.agent, NO_RULE).permits
        rule = self.rules.get(agent, NO_RULE)
        return not rule.owner or session.principal == rule.owner or session.principal in rule.shared_with

    # For those who can

    async def current(self) -> Mapping[str, Rule]:
        """Rules that are at most :data:`FRESH_S` old; older ones while the store cannot be read.

        Raises:
            Exception: The store's, when it could never be read.
        """
        if not self._is_fresh():
            async with self._reading:
                if not self._is_fresh():
                    await self._refresh()
        return self.rules

    def _is_fresh(self) -> bool:
        return self._read_at is not None and time.monotonic() - self._read_at < FRESH_S

    async def _refresh(self) -> None:
        try:
            await self.read()
        except Exception as exc:
            if not self._failing:
                self._services.log.warning("the store does not tell whose agents are", problem=repr(exc))
            self._failing = True
            if not self.known:
                raise

    async def read(self) -> None:
        """Look into the store."""
        documents = self._services.store.documents
        stored = {document.key: _rule(document.value) async for document in every(documents, AGENTS)}
        self._has_keys = await Keys(self._services).any()
        self._stored, self._read_at, self._failing = stored, time.monotonic(), False
        self._merge()

    async def scope(self, session: Session, *, results: bool) -> Scope:
        """Whose executions ``session`` may see.

        With the scope ``system`` everybody's. Else those of its principal, and besides, of an agent, its own, and in
        lists those of agents that it may call; of a person, those of agents that it owns or that are shared with it.
        """
        if SYSTEM in session.scopes:
            return Scope(principals=None)
        principals = frozenset({session.principal})
        if session.agent and results:
            return Scope(principals=principals, agents=frozenset({session.agent}))
        rules = await self.current()
        if session.agent:
            return Scope(principals=principals, agents=rules.get(session.agent, NO_RULE).permits | {session.agent})
        theirs = (name for name, rule in rules.items() if _is_theirs(rule, session.principal))
        return Scope(principals=principals, agents=frozenset(theirs))

    async def change(self, agent: str, **members: Any) -> Rule:
        """Change members of what the store says of ``agent``, each from what it is by a function; the rule then.

        Raises:
            ConfiguredRuleError: The settings say everything of this agent.
        """
        if agent in self.declared:
            raise ConfiguredRuleError(agent)

        def edit(document: Document | None) -> tuple[Rule, Write | None]:
            rule = NO_RULE if document is None else _rule(document.value)
            after = replace(rule, **{name: changed(getattr(rule, name)) for name, changed in members.items()})
            return after, None if after == rule else Write(_value(after))

        return await change(self._services.store.documents, AGENTS, agent, edit)


def _is_theirs(rule: Rule, principal: str) -> bool:
    return principal == rule.owner or (bool(rule.owner) and principal in rule.shared_with)


def _rule(value: Mapping[str, Any]) -> Rule:
    return Rule(value["owner"], frozenset(value["shared_with"]), frozenset(value["permits"]))


def _value(rule: Rule) -> dict[str, Any]:
    return {"owner": rule.owner, "shared_with": sorted(rule.shared_with), "permits": sorted(rule.permits)}


def problem_of(names: Sequence[str]) -> str:
    """What is wrong with names of people or agents; ``""`` when nothing is."""
    for name in names:
        if not name or not name.isprintable() or " " in name or len(name) > LONGEST_NAME:
            return f"{name!r} is no name: give 1 to {LONGEST_NAME} printable characters without spaces"
        if name == SYSTEM or name.startswith((AGENT_PREFIX, CLIENT_PREFIX)):
            taken = (
                f"{SYSTEM!r} is of system keys, {AGENT_PREFIX}… of agents' keys, {CLIENT_PREFIX}… of clients' own names"
            )
            return f"the name {name!r} is taken: {taken}"
    return ""


LONGEST_NAME = 200
