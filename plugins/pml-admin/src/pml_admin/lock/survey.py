"""What servers list now, beside what was taken of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_admin.offline import OpenStore, assembly_of
from pml_admin.server_probe import probe
from pml_catalog.lock.guard import ToolChange, changes_of, take
from pml_catalog.lock.lock_file import LockError, LockFile, Locks
from pml_kit.command_line.start_progress import until_started
from pml_kit.errors import OperatorError

if TYPE_CHECKING:
    from pml_admin.server_probe import Probe
    from pml_settings.installation import Installation


@dataclass(slots=True)
class ServerSurvey:
    """One server."""

    name: str
    path: str
    """Its lock."""
    probe: Probe
    changes: Sequence[ToolChange] = ()
    """What is otherwise than was taken, or new; empty for a server that is not up."""
    gone: Sequence[str] = ()
    """Tools that were taken and are not listed any more."""
    taken: list[str] = field(default_factory=list)
    """Of the changes, those that are in the lock now."""

    @property
    def is_up(self) -> bool:
        """Whether it could be asked."""
        return self.probe.status.state == "up"

    @property
    def waiting(self) -> list[ToolChange]:
        """What is taken by nobody but a person."""
        return [one for one in self.changes if needs_review(one) and one.tool not in self.taken]

    def shown(self) -> dict[str, Any]:
        """As JSON."""
        changes = [
            {**one.shown(), "blocks": one.judgement.blocks, "taken": one.tool in self.taken} for one in self.changes
        ]
        about = {"server": self.name, "lock": self.path, "state": self.probe.status.state}
        problem = self.probe.status.reason
        return {**about, "problem": problem, "tools": len(self.probe.entries), "gone": [*self.gone], "changes": changes}


def needs_review(change: ToolChange) -> bool:
    """Whether a person has to look at it: it blocks its tool, or people would be asked less for it."""
    return change.judgement.blocks or change.judgement.safer_hints


class Survey:
    """All servers that are enabled, and the files that tell of them."""

    def __init__(self, locks: Locks, servers: Sequence[ServerSurvey]) -> None:
        """As they were found."""
        self.locks, self.servers = locks, servers

    @classmethod
    async def make(cls, installation: Installation) -> Survey:
        """Start every server, list what it has, compare, stop it.

        Raises:
            OperatorError: There is no place for a lock, or one cannot be read.
        """
        config = installation.config
        if not (paths := config.lock_paths()):
            raise OperatorError(
                "no server is configured in a file, beside which its lock would stand", "Add one: pml servers add"
            )
        locks = Locks(paths)
        for problem in locks.problems.values():
            raise OperatorError(problem)
        driver = partial(assembly_of(installation, OpenStore(), thorough=False).driver, "transport")
        found = []
        for name, one in (await probe(config, driver, until_started)).items():
            survey = ServerSurvey(name, str(paths[name]), one)
            if survey.is_up:
                trust, known = config.servers[name].trust, locks.locked(name)
                survey.changes = changes_of(name, locks, trust, one.entries, one.instructions)
                survey.gone = sorted({*(known.tools if known else ())} - {entry.name for entry in one.entries})
            found.append(survey)
        return cls(locks, found)

    def take(self, taken: Callable[[ServerSurvey, ToolChange], bool]) -> None:
        """Write what ``taken`` says of all that is otherwise.

        Raises:
            OperatorError: A file was changed meanwhile, or cannot be written.
        """
        files: dict[str, LockFile] = {}
        for server in filter(lambda one: one.is_up, self.servers):
            file = files.get(server.path) or self.locks.file_of(server.name)
            if file is None:
                continue
            wanted = partial(taken, server)
            made = take(self.locks.locked(server.name), server.probe.entries, server.changes, wanted)
            server.taken += [change.tool for change in server.changes if wanted(change)]
            files[server.path] = file.with_server(server.name, made)
        try:
            for file in files.values():
                file.write()
        except LockError as exc:
            raise OperatorError(str(exc)) from exc
