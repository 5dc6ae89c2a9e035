"""Code of a plan: what is wrong with it, which tools it calls, and what it would do."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from pml_hookspecs import CatalogEntry, CodeRun
from pml_kit.mcp.named_tools import named_in
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.offers import Verdict
from pml_kit.schema.members import properties, required

from .code import PYTHON, Call, CodeSummary, undefined, uses
from .code_checks import names_given
from .effects import NOTHING, UNKNOWN, Effects, of_tool, worst
from .facts import CodeFacts, PlanFacts
from .findings import Finding, error, warning
from .report import StepReport
from .shapes import SubSchema, branches
from .targets import Targets
from .tool_names import ToolNames

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Failure
    from pml_kit.offers.plan_graphs import PlanNode

CODE = "code"
IN_BRACES = re.compile(r"\{\{\s*([A-Za-z0-9_-]+)")
QUOTED = re.compile(r"['\"`]([A-Za-z_]\w*)['\"`]")
"""The name that a message of a compiler is about."""
WORDS = {"syntax": "parsed", "types": "types"}
"""How far code was looked at, as reports say it."""


class CodeFindings:
    """Finds what is wrong with the code of one plan."""

    def __init__(self, facts: PlanFacts, catalog: Catalog, targets: Targets, findings: list[Finding]) -> None:
        """What is wrong is added to ``findings``."""
        self._facts, self._catalog, self._targets, self._findings = facts, catalog, targets, findings
        self._named = ToolNames(catalog, facts.session)

    def look(self, node: PlanNode, made: StepReport) -> None:
        """One step about whose code, or what may be code in the end, was asked."""
        code_facts = self._facts.code_facts[node.path]
        if isinstance(node.task, CodeRun):
            self._own(node, node.task, code_facts, made)
        else:
            self._behind(node, code_facts, made)

    def _own(self, node: PlanNode, task: CodeRun, code_facts: CodeFacts, made: StepReport) -> None:
        found = self._read(node, code_facts, task.language, made)
        if found is None:
            return
        given, others = names_given(node, task)
        types = code_facts.verdict.checked == "types"
        for id_ in uses(found, others):
            self._findings.append(warning(*_missing_need(node, id_)))
        for name in () if types else undefined(found, {*given, *others}):
            message = f"nothing in the code, its inputs or its dependencies is called {name!r}"
            self._findings.append(warning("code.undefined", node.path, message, CODE))
        if task.folder is not None:
            made.effects = worst([made.effects, Effects(what="destroys")])

    def _behind(self, node: PlanNode, code_facts: CodeFacts, made: StepReport) -> None:
        """What a capability, or a tool that stands for one, comes to."""
        if code_facts.code is None:
            self._told(node, code_facts.verdict, frozenset())
            return
        said = made.effects
        self._read(node, code_facts, code_facts.code.language, made)
        if said.what != "unknown":
            made.effects = said

    def _read(self, node: PlanNode, code_facts: CodeFacts, language: str, made: StepReport) -> CodeSummary | None:
        """What is known of the code; None when it does not parse."""
        found, verdict, code = code_facts.read, code_facts.verdict, code_facts.code
        made.effects = UNKNOWN
        if found is None:
            return None
        made.checked, made.unchecked = WORDS.get(verdict.checked, found.checked), verdict.unchecked
        parsed = verdict.checked != "nothing"
        if found.problem and not parsed:
            message = f"is no {language}: {found.problem}{_braces(node, code)}"
            self._findings.append(error("code.syntax", node.path, message, CODE))
        lines = frozenset() if found.problem else self._calls(node, found, code, made)
        if code is not None and language != PYTHON and code.tools != ():
            self._named_in(node, code, made)
        self._told(node, verdict, lines, code)
        return None if found.problem else found

    def _calls(self, node: PlanNode, found: CodeSummary, code: CodeRun | None, made: StepReport) -> frozenset[int]:
        """Look at the calls in code; the lines of which something was said."""
        before = len(self._findings)
        entries = [self._called(node, call) for call in found.calls]
        known = [entry for entry in entries if entry is not None]
        made.calls = tuple(dict.fromkeys(entry.id for entry in known))
        if not found.reaches and len(known) == len(entries) and found.checked == "parsed":
            made.effects = worst([of_tool(entry) for entry in known])
        elif code is not None and code.tools == ():
            made.effects = NOTHING
        return frozenset(line for one in self._findings[before:] if (line := one.more.get("line")) is not None)

    def _named_in(self, node: PlanNode, code: CodeRun, made: StepReport) -> None:
        """Tools that stand in code which nobody reads here: it may call them."""
        found = [one for one in named_in(code.source, self._catalog) if self._catalog.allows(one, self._facts.session)]
        made.calls = tuple(dict.fromkeys(entry.id for entry in found))
        for entry in found:
            self._targets.server(node, entry, CODE, warning)

    def _told(self, node: PlanNode, verdict: Verdict, lines: Collection[int], code: CodeRun | None = None) -> None:
        """What the executor says, but for types on lines of which something better is said."""
        for level, failures in ((error, verdict.problems), (warning, verdict.doubts)):
            for failure in failures:
                line = failure.details.get("line")
                if (need := _needed(failure, node, code)) is not None:
                    self._findings.append(level(*_missing_need(node, need), line=line))
                    continue
                if not (failure.code == "code.type" and line in lines):
                    at = "" if line is None and not failure.code.startswith("code.") else CODE
                    places = {name: failure.details[name] for name in ("line", "column") if name in failure.details}
                    said = _said(failure) + (_braces(node, code) if failure.code == "code.syntax" else "")
                    self._findings.append(level(failure.code, node.path, said, at, **places))

    def _called(self, node: PlanNode, call: Call) -> CatalogEntry | None:
        """The tool that code names; what is wrong with the call is noted."""
        entry = self._named.tool(call)
        where = f" (line {call.line} of the code)"
        name = f"{call.server}:{call.tool}" if call.server else call.tool
        if entry is None:
            if (found := self._catalog.resolve(name, self._facts.session)) is not None:
                message = f"the tool {found.id!r} is not allowed here{where}"
                self._findings.append(error("policy.denied", node.path, message, CODE, line=call.line))
            else:
                self._findings.append(self._targets.missing(node, name, CODE, where))
            return None
        self._targets.server(node, entry, CODE)
        if call.arguments is not None:
            self._keywords(node, call, entry, where)
        return entry

    def _keywords(self, node: PlanNode, call: Call, entry: CatalogEntry, where: str) -> None:
        """Arguments that code gives by name, against the names that the tool knows."""
        schema = input_schema(entry)
        flats = None if schema is None else branches(SubSchema(schema, schema))
        given = call.arguments or frozenset()
        if flats is None or len(flats) != 1:
            return
        (flat,) = flats
        named = {name: of for name, of in properties(flat).items() if of is not False}
        for name in required(flat):
            if name not in given:
                message = f"{entry.id}: {name!r} is missing{where}"
                self._findings.append(error("code.type", node.path, message, CODE, line=call.line))
        if flat.get("additionalProperties") is False and "patternProperties" not in flat:
            for name in sorted(given - set(named)):
                message = f"{entry.id}: {name!r} is no argument of it{where}"
                self._findings.append(error("code.type", node.path, message, CODE, line=call.line))


def _needed(failure: Failure, node: PlanNode, code: CodeRun | None) -> str | None:
    """The task beside the code whose result is an undefined name there, as it does not depend on it; None without."""
    if code is None or not isinstance(node.task, CodeRun) or failure.code != "code.undefined":
        return None
    found = QUOTED.search(failure.message)
    return found[1] if found and found[1] in names_given(node, node.task)[1] else None


def _missing_need(node: PlanNode, id_: str) -> tuple[str, str, str, str]:
    message = f"the code reads {id_!r}, and does not depend on the task of that name; add it to depends_on"
    return "plan.missing_need", node.path, message, CODE


def _braces(node: PlanNode, code: CodeRun | None) -> str:
    """What to write instead of references, of code that has some."""
    named = [found[1] for found in IN_BRACES.finditer(code.source) if found[1] in node.graph.nodes] if code else []
    return f"; {{{{{named[0]}}}}} is not filled in within code: depends_on gives it the variable" if named else ""


def _said(failure: Failure) -> str:
    line = failure.details.get("line")
    return failure.message if line is None else f"{failure.message} (line {line} of the code)"
