"""Follows values through plans and code, and stops those that may not decide."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    PluginTask,
    ServerRequest,
    ToolCall,
    Workflow,
    replace,
    split_tool_id,
)
from pml_kit.offers import STATIC_CHECKS, required

from .arguments import Arguments, reach_of
from .caller_words import CallerWords
from .flow import Flow, lines, refused, told
from .scopes import NONE, Origin, Scope, Taint, Tracer, named_in
from .untrusted_answers import UntrustedAnswers

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, ExecutionId, Outcome, Run, Services, Task
    from pml_kit.offers import Words
    from pml_kit.references import Path

    from .scopes import Origins
    from .settings import Settings

CHECK_S = 1.0
"""How long it may take to find out which code a capability is [s]."""
NOTHING = Workflow(id="", tasks=())
MOST_FOLDERS = 1000
"""Folders of programs of which it is known what was read in them."""


class Follower:
    """Keeps, for each task that runs others, what came from untrusted servers; asks or refuses where that decides."""

    def __init__(self, services: Services, settings: Settings, levels: Callable[[], Mapping[str, Words]]) -> None:
        """``levels`` are those of the servers as they are configured now."""
        self._services, self._settings, self._levels = services, settings, levels
        self._tracer = Tracer(services.catalog)
        self._scopes: dict[ExecutionId, Scope] = {}
        self._lines: dict[ExecutionId, Sequence[str]] = {}
        self._folders: OrderedDict[str, Origins] = OrderedDict()
        self._arguments = Arguments(settings)
        self._answers = UntrustedAnswers(settings) if settings.matching else None

    def of(self, execution: ExecutionId) -> Sequence[str]:
        """See :class:`pml_kit.offers.Flows`."""
        return self._lines.get(execution, ())

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Hand on what no untrusted server has to do with; most calls are such."""
        above = None if run.parent is None else self._scopes.get(run.parent)
        if above is not None:
            if task.id in above.plain:
                return call_next(task, run)
            return self._followed(task, run, call_next, above)
        if isinstance(task, ToolCall):
            known = self._answers
            return call_next(task, run) if known is None else self._matched(task, run, call_next, known)
        levels = {} if isinstance(task, ServerRequest) else self._levels()
        if all(words == "trusted" for words in levels.values()):
            return call_next(task, run)
        scope = Scope(task, levels, CallerWords(task, run.intent))
        scope.base = self._base(task, run, scope, NONE)
        return self._inside(task, run, call_next, scope)

    def _followed(self, task: Task, run: Run, call_next: CallNext, above: Scope) -> Awaitable[Outcome]:
        if isinstance(task, ServerRequest):
            return self._requested(task, run, call_next, above)
        taint = self._tracer.taint(above, task, run.session)
        flows = self._flows(task, taint, above) if taint.values or taint.control else ()
        scope = self._scope(task, run, above, taint)
        if scope is None and isinstance(above.task, Workflow):
            # Who needs the result waits for it: it may be told of now, which costs no coroutine.
            above.add(task, self._tracer.result(above, task, taint, None))
            return self._judged(task, run, call_next, flows) if flows else call_next(task, run)
        return self._taken_up(task, run, call_next, above, taint, scope, flows)

    async def _requested(self, task: ServerRequest, run: Run, call_next: CallNext, above: Scope) -> Outcome:
        outcome = await call_next(task, run)
        if above.levels.get(task.server, "trusted") != "trusted":
            above.add(task, frozenset({Origin(task.server, task.name)}))
        return outcome

    async def _taken_up(
        self,
        task: Task,
        run: Run,
        call_next: CallNext,
        above: Scope,
        taint: Taint,
        scope: Scope | None,
        flows: Sequence[Flow],
    ) -> Outcome:
        """Run a task and take up what came of it."""

        async def inside(task: Task, run: Run) -> Outcome:
            return await (call_next(task, run) if scope is None else self._inside(task, run, call_next, scope))

        try:
            return await (self._judged(task, run, inside, flows) if flows else inside(task, run))
        finally:
            above.add(task, self._tracer.result(above, task, taint, scope))

    async def _judged(self, task: Task, run: Run, call_next: CallNext, flows: Sequence[Flow]) -> Outcome:
        if self._settings.action == "deny":
            return refused(task, flows)
        if run.dry_run:
            return told(await call_next(task, run), flows)
        self._lines[run.id] = lines(flows)
        try:
            return await call_next(replace(task, step=replace(task.step, approve=True)), run)
        finally:
            del self._lines[run.id]

    async def _inside(self, task: Task, run: Run, call_next: CallNext, scope: Scope) -> Outcome:
        """Run a task that may run others."""
        self._scopes[run.id] = scope
        self._tracer.prepare(scope, run.session)
        try:
            if isinstance(task, CapabilityRun) and run.dry_run:
                await self._look_into(task, run, scope)
            return await call_next(task, run)
        finally:
            del self._scopes[run.id]
            if isinstance(task, CodeRun) and task.folder is not None:
                self._keep(task.folder, scope.base | scope.read)

    def _keep(self, folder: str, origins: Origins) -> None:
        if origins:
            self._folders[folder] = self._folders.pop(folder, NONE) | origins
        if len(self._folders) > MOST_FOLDERS:
            self._folders.popitem(last=False)

    def _base(self, task: Task, run: Run, scope: Scope, given: Origins) -> Origins:
        """What a task knows when it begins: what it is given, and what programs left in its folder.

        What code has read before it began anew, a journal tells it: of that nobody hears here.
        """
        if not isinstance(task, CodeRun):
            return given
        if task.folder is not None:
            given |= self._folders.get(task.folder, NONE)
        return given | frozenset(named_in(scope, task)) if run.durable else given

    def _scope(self, task: Task, run: Run, above: Scope, taint: Taint) -> Scope | None:
        if isinstance(task, ToolCall):
            entry = self._services.catalog.get(task.tool)
            if entry is None or not entry.own:
                return None
        base, words = self._base(task, run, above, taint.origins), above.words
        if isinstance(above.task, CapabilityRun) and isinstance(task, CodeRun):
            words = CallerWords(replace(task, inputs={}) if base else task, "", words)
        elif not base and not isinstance(above.task, Workflow):
            words = CallerWords(task, "", words)
        return Scope(task, above.levels, words, base, taint.control, self._tracer.each_of(above, task, run.session))

    async def _look_into(self, task: CapabilityRun, run: Run, scope: Scope) -> None:
        """Take up what the code of a capability reads, where it is not run."""
        verdict = await required(self._services, STATIC_CHECKS).check(task, run.session, within_s=CHECK_S)
        if isinstance(verdict.becomes, CodeRun):
            scope.read |= self._tracer.result(scope, verdict.becomes, Taint(), None)

    def _flows(self, task: Task, taint: Taint, scope: Scope) -> list[Flow]:
        if self._settings.action == "off" or not isinstance(task, (ToolCall, PluginTask)):
            return []
        tool = task.tool if isinstance(task, ToolCall) else task.type
        given: Mapping[str, Any] = task.arguments if isinstance(task, ToolCall) else task.inputs
        entry = self._services.catalog.get(task.tool) if isinstance(task, ToolCall) else None
        found: dict[Any, Flow] = {}
        for path, origins in taint.values:
            foreign = self._foreign(origins, tool, scope)
            if not foreign:
                continue
            for place, leaf in self._arguments.counting(tool, entry, *_part(given, path)):
                left = self._not_allowed(foreign, tool, place)
                if left and not scope.words.has(leaf):
                    before = found[place].origins if place in found else NONE
                    found[place] = Flow(tool, place, leaf, left | before)
        if taint.control and self._settings.conditions and reach_of(entry) == "destroy":
            control = self._not_allowed(self._foreign(taint.control, tool, scope), tool, ())
            if control and self._arguments.chosen(tool) != ():
                found[None] = Flow(tool, None, None, control)
        return list(found.values())

    def _foreign(self, origins: Origins, tool: str, scope: Scope) -> Origins:
        """Without those of the tool's own server, unless strangers write there."""
        server = split_tool_id(tool)[0]
        if not any(one.server == server for one in origins):
            return origins
        return frozenset(one for one in origins if one.server != server or scope.levels.get(one.server) == "strangers")

    def _not_allowed(self, origins: Origins, tool: str, place: Sequence[str | int]) -> Origins:
        rules = self._settings.rules() if origins and self._settings.allow else ()
        name = next((key for key in place if isinstance(key, str)), "")

        def allowed(one: Origin) -> bool:
            return any(rule.covers(one.server, tool, name) for rule in rules)

        return frozenset(one for one in origins if not allowed(one)) if rules else origins

    async def _matched(self, task: ToolCall, run: Run, call_next: CallNext, known: UntrustedAnswers) -> Outcome:
        levels = self._levels()
        scope = Scope(task, levels, CallerWords(NOTHING, run.intent))
        taint = known.taint(task, run.session, levels)
        flows = self._flows(task, taint, scope)
        outcome = await (self._judged(task, run, call_next, flows) if flows else call_next(task, run))
        known.take(task, run.session, levels, outcome)
        return outcome


def _part(given: Any, path: Path) -> tuple[Path, Any]:
    """What stands at ``path``, and the path; everything, where nothing stands there."""
    at = given
    for key in path:
        try:
            at = at[key]
        except (LookupError, TypeError):
            return (), given
    return path, at
