"""What the gateway hands to a plugin, and how a plugin asks it to run a task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from .raw import EMPTY

if TYPE_CHECKING:
    from datetime import datetime

    from .executor import Journal
    from .gateway import MetaTool
    from .offers import Key
    from .records import Trigger
    from .store import Store
    from .tasks import DryRun, Task
    from .types import Catalog, ExecutionId, Identity, Json, Outcome, Session

_T = TypeVar("_T")


class RunOptions(Struct, frozen=True, kw_only=True):
    """How whoever asks wants a task run; what is left out is as the gateway does it."""

    id: ExecutionId | None = None
    """To run it: an execution that began before, under a gateway that is gone, or that is recorded as pending, and goes
    on. To begin with it in the background: the id to give it; one that exists is not begun again. None for a new one.
    """
    intent: str = ""
    """What it is for; a workflow's own comes first. ``""`` when not said."""
    dry_run: DryRun | None = None
    """None: as the task or the configuration says."""
    trigger: Trigger = "agent"
    """What made it run."""
    agent: str = ""
    """Who acts for the principal; ``""`` for the session's client."""
    schedule: str = ""
    """Id of the schedule that triggered it; ``""`` for none."""
    meta: Mapping[str, Any] = EMPTY
    """As :attr:`Run.meta` gives it: what ``_meta`` of a client's request has for the gateway."""
    deadline: datetime | None = None
    """When it is cancelled [UTC]; None for never. This and the rest count only while somebody waits for the end."""
    journal: Journal | None = None
    """Keeps the outcomes of what the task dispatches."""
    progress: Callable[[float, float | None, str], None] | None = None
    """Hears what :meth:`Run.progress` is told; None when nobody wants to."""


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

    def find(self, key: Key[_T]) -> _T | None:
        """What is offered under ``key``: by the plugin that ``[gateway.providers]`` names, or the only one.

        Look it up when it is first used, and keep it: what is offered does not change while the gateway runs.

        Returns:
            None where nobody offers it, several plugins do and none is chosen, or plugins have not been asked yet.
        """
        ...

    def find_all(self, key: Key[_T]) -> Sequence[tuple[str, _T]]:
        """All that counts of what is offered under ``key``, each with its plugin's name, in the order of these names.

        What the gateway offers is that of the plugin ``core``. Empty where :meth:`find` gives None, unless the key says
        that all of several count.
        """
        ...

    async def run(self, task: Task, session: Session, options: RunOptions = RunOptions()) -> Outcome:
        """Run a task that no client waits for, through the same chain as all others.

        Args:
            task: What to run.
            session: For whom: what the filters refuse it is refused here.
            options: How.

        Raises:
            RuntimeError: The gateway has not started.
        """
        ...

    async def start(self, task: Task, session: Session, options: RunOptions = RunOptions()) -> ExecutionId:
        """As :meth:`run`, in the background: returns when it is durably recorded as pending.

        It is never lost silently: one that was under way when its gateway died is gone on with by another that finds
        it, if it is a workflow that is durable, and recorded as failed otherwise, with the reason. What is begun with a
        key ends at its next task once the key does not count any more (:class:`~pml_kit.offers.CurrentKeys`).

        A call is recorded as running when it begins; one of a tool that a plugin published, when that plugin says so:
        it may have to wait for its turn.

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

    def lists_changed(self) -> None:
        """Say that what an exposure mode picks may be something else now, although the catalog and the session are not.

        For a mode that depends on time or on history. All modes are asked again, and clients whose list differs are
        told (``notifications/tools/list_changed``). Does nothing before clients can connect.
        """
        ...

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Run a background task while the plugin is up.

        It is cancelled when the plugin goes down. An exception in it is logged and marks the plugin unhealthy; it
        reaches neither the gateway nor other plugins.
        """
        ...
