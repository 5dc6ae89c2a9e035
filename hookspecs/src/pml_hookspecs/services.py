"""What the gateway hands to a plugin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .access import AccessEvent, Identity
    from .executor import Journal, Run, Suggestion
    from .exposure_mode import Embedder, Views
    from .foresight import Verdict
    from .gateway import MetaTool
    from .records import Trigger
    from .store import Scope, Store
    from .tasks import DryRun, Task
    from .types import Catalog, CatalogEntry, ExecutionId, Json, Outcome, Session


class Services(Protocol):
    """Everything a plugin may use. One instance per plugin: name, settings and log are already scoped to it.

    Usable from the plugin's constructor on, except where noted.
    """

    @property
    def plugin(self) -> str:
        """The plugin's own name."""
        ...

    @property
    def log(self) -> Any:
        """Structlog logger bound to ``plugin=<name>``; writes to standard error, secrets taken out."""
        ...

    @property
    def settings(self) -> Any:
        """The validated ``[plugins.<name>]`` table, an instance of the plugin's ``settings_type``; None without one."""
        ...

    @property
    def catalog(self) -> Catalog:
        """The live catalog. Empty until the servers are up."""
        ...

    @property
    def store(self) -> Store:
        """The active store. Not available to stores themselves.

        Raises:
            RuntimeError: Asked for before the store is up.
        """
        ...

    @property
    def views(self) -> Views:
        """What clients are shown."""
        ...

    @property
    def embedder(self) -> Embedder | None:
        """The model that embeds texts; None when no plugin brings one, or the gateway has not started."""
        ...

    async def suggest(self, intent: str, run: Run, *, limit: int = 3) -> Sequence[Suggestion]:
        """Plans for ``intent`` from all who make plans, best first. One that fails is logged and left out."""
        ...

    async def run(  # noqa: PLR0913 - each is one thing that executions differ in
        self,
        task: Task,
        session: Session,
        *,
        id: ExecutionId | None = None,
        intent: str = "",
        dry_run: DryRun | None = None,
        trigger: Trigger = "agent",
        agent: str = "",
        schedule: str = "",
        journal: Journal | None = None,
    ) -> Outcome:
        """Run a task that no client waits for, through the same chain as all others.

        Args:
            task: What to run.
            session: For whom: what the filters refuse it is refused here.
            id: An execution that began before, under a gateway that is gone, or that is already recorded as pending:
                its record goes on. None for a new one.
            intent: What it is for; a workflow's own comes first.
            dry_run: None as the gateway is configured.
            trigger: What made it run.
            agent: Who acts for the principal; ``""`` for the session's client.
            schedule: Id of the schedule that triggered it.
            journal: Keeps the outcomes of the workflow's tasks.

        Raises:
            RuntimeError: The gateway has not started.
        """
        ...

    async def start(
        self,
        task: Task,
        session: Session,
        *,
        id: ExecutionId | None = None,
        intent: str = "",
        dry_run: DryRun | None = None,
        trigger: Trigger = "agent",
        agent: str = "",
        schedule: str = "",
    ) -> ExecutionId:
        """As :meth:`run`, in the background: returns when it is durably recorded as pending.

        It is never lost silently: one that was under way when its gateway died is gone on with by another that finds
        it, if it is a workflow that is durable, and recorded as failed otherwise, with the reason. What is begun with a
        key ends at its next task once the key does not count any more (:class:`~pml_hookspecs.CurrentKeys`).

        A call is recorded as running when it begins; one of a tool that a plugin published, when that plugin says so:
        it may have to wait for its turn.

        Args:
            task: What to run.
            session: For whom.
            id: To give it; one that exists is not begun again. None for a new one.
            intent: As with :meth:`run`.
            dry_run: As with :meth:`run`.
            trigger: What made it run.
            agent: Who acts for the principal; ``""`` for the session's client.
            schedule: Id of the schedule that triggered it.

        Raises:
            RuntimeError: The gateway has not started.
            Exception: The store's, when it cannot be recorded; nothing runs then.
        """
        ...

    async def stop(self, id: ExecutionId) -> bool:
        """Cancel what :meth:`start` began, wherever it runs. Who may do so is the caller's matter.

        Returns:
            Whether it was under way.
        """
        ...

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """What can be told of ``task`` without running it, by the executor that would run it.

        Of a tool that stands for a task, of that task. Nothing is known of calls of servers' tools, nor where the
        executor is no :class:`~pml_hookspecs.foresight.Checker`; one that there is not is a problem.

        Args:
            task: Of its inputs only the names count.
            session: For whom.
            within_s: Longest time [s]; what would have taken longer is left out.

        Raises:
            RuntimeError: The gateway has not started.
        """
        ...

    def judges(self, entry: CatalogEntry) -> bool:
        """Whether calls of a tool are refused here when their arguments do not fit its input schema.

        False where no wrapper is a :class:`~pml_hookspecs.foresight.Judge` of it: then its server decides.

        Raises:
            RuntimeError: The gateway has not started.
        """
        ...

    async def would_ask(self, task: Task, above: Run) -> Sequence[str]:
        """Why humans would have to look before ``task`` runs for real, outermost wrapper first; empty when none would.

        A wrapper that fails to tell counts as one that would ask, and is logged.

        Args:
            task: Of a tool that stands for a task, that task is meant.
            above: The execution that would dispatch it.

        Raises:
            RuntimeError: The gateway has not started.
        """
        ...

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key ``token`` is, by the plugins that know keys; None when none of them does.

        Raises:
            UnauthenticatedError: It is refused, or a key is needed and there is none.
        """
        ...

    async def report_access(self, event: AccessEvent) -> None:
        """Tell those who watch it (``pml_access_watchers``) that somebody was refused, or told of executions.

        For what no wrapper sees. Returns when they have heard it; never raises.
        """
        ...

    async def scope(self, session: Session, *, results: bool = False) -> Scope:
        """Whose executions ``session`` may see: as the plugins say that know keys.

        Without any: all with the scope ``system``, else those of the session's principal.

        Args:
            session: Who asks.
            results: False for lists and summaries, True for one execution with its output.

        Raises:
            UnauthenticatedError: A key is needed and there is none.
        """
        ...

    def session(self, identity: Identity, *, endpoint: str = "default", client: str = "") -> Session:
        """The session of a caller that is no MCP client, such as one of a route."""
        ...

    def redact(self, value: Json) -> Json:
        """``value`` without the secrets that the gateway knows, for what is kept or shown.

        Executions are rid of them by the gateway itself.
        """
        ...

    def publish(self, server: str, tools: Sequence[MetaTool]) -> None:
        """Make ``tools`` all that ``server`` has, as if it were a server with these tools that runs in this plugin.

        They are found by search, listed and called as those of any server, under ``<server>:<name>``.

        Args:
            server: Its name. Belongs to the plugin that uses it first.
            tools: What it has now; ``listed`` and ``aliases`` mean nothing here.

        Raises:
            ValueError: The name is a configured server's, or another plugin's.
        """
        ...

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Run a background task while the plugin is up.

        It is cancelled when the plugin goes down. An exception in it is logged and marks the plugin unhealthy; it
        reaches neither the gateway nor other plugins.
        """
        ...
