"""Everything before the gateway starts: install the servers, make what they work on, write the configuration."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from . import environments, servers
from .materials import Materials, make_files, make_repository
from .problem import DemoError
from .progress import Steps
from .servers import DemoServer, Environment


class DemoSetup:
    """Installs what is wanted and possible; what had to be left out is told in :attr:`notes`."""

    def __init__(self, materials: Materials, steps: Steps, *, node: bool) -> None:
        self._materials, self._steps, self._node = materials, steps, node
        self._folders: dict[Environment, Path] = {}
        self.servers: list[DemoServer] = []
        """Servers in the configuration, in the order they are shown."""
        self.notes: list[str] = []

    async def run(self) -> None:
        """Do it all.

        Raises:
            DemoError: A server that the demo needs could not be installed, or git failed.
        """
        make_files(self._materials)
        wanted = [servers.TIME, servers.SQLITE]
        jobs = [self._install(servers.PYTHON), self._install(servers.PYTHON_MCP_1)]
        if shutil.which("git") is None:
            self.notes.append("git is not installed, so the git server is left out")
        else:
            wanted.insert(1, servers.GIT)
            jobs.append(make_repository(self._materials))
        if self._node:
            jobs.append(self._install_node())
        await _all(jobs)
        wanted += [s for s in servers.NODE_SERVERS if s.environment in self._folders]
        self.servers = wanted
        configuration = servers.configuration(wanted, self._folders, self._materials)
        self._materials.config.write_text(json.dumps(configuration, indent=2))

    async def _install(self, environment: Environment) -> None:
        known = environments.installed(environment)
        if known is not None:
            self._folders[environment] = known
            return
        with self._steps.step(f"Install the MCP servers {', '.join(environment.servers)}"):
            self._folders[environment] = await environments.install(environment)

    async def _install_node(self) -> None:
        """Node's servers are extras: the demo goes on without them."""
        try:
            await environments.node_version()
            await self._install(servers.NODE)
        except DemoError as exc:
            reason = str(exc).partition("\n")[0].rstrip(":")
            self.notes.append(f"the servers written for Node are left out: {reason}")


async def _all(jobs: list[Coroutine[Any, Any, None]]) -> None:
    """Run all at once; the first failure cancels the others and is raised."""
    failure: DemoError | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(job)
    except* DemoError as failures:
        failure = next(e for e in failures.exceptions if isinstance(e, DemoError))
    if failure is not None:
        raise failure
