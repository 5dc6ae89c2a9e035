"""What tests of workflows share: a store for those that wait, and a run in which workflows really nest."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from pml_executor_dag import Dag, Settings
from pml_hookspecs import Document, ExecutionId, Failure, ServerStatus, Session, Status, ToolCall, Workflow, replace
from pml_kit.plain import to_plain
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, outcome


class Memory:
    """Documents, of which one that is written reads back as JSON does."""

    def __init__(self):
        self.kept = {}

    async def put(self, collection, key, value, *, marks=None, expires_at=None, if_version=None):
        await asyncio.sleep(0)
        before = self._found(collection, key)
        version = before.version if before else 0
        if if_version not in (None, version):
            return None
        now = datetime.now(UTC)
        self.kept[collection, key] = Document(
            key=key, value=to_plain(value), version=version + 1, marks=marks or {}, created_at=now, changed_at=now,
            expires_at=expires_at,
        )  # fmt: skip
        return version + 1

    async def get(self, collection, key):
        await asyncio.sleep(0)
        return self._found(collection, key)

    def _found(self, collection, key):
        found = self.kept.get((collection, key))
        return None if found is None or (found.expires_at and found.expires_at <= datetime.now(UTC)) else found

    def expire(self):
        """Let the time of everything be over."""
        past = datetime.now(UTC) - timedelta(seconds=1)
        self.kept = {key: replace(document, expires_at=past) for key, document in self.kept.items()}


class World:
    """Runs workflows within workflows as a gateway does; everything else as ``answer`` says."""

    def __init__(self, answer=None, *, settings=None, principal="local", **services):
        self.documents = Memory()
        # Tools of servers that are starting may be any.
        services.setdefault("catalog", FakeCatalog(servers=[ServerStatus(name="s", state="starting")]))
        self.services = FakeServices(store=SimpleNamespace(documents=self.documents), **services)
        self.dag = Dag(settings or Settings(), self.services)
        self.session = Session(key="test", principal=principal)
        self.answer = answer or self._ends_well
        self.paths, self.calls, self._ids = [], [], 0

    @staticmethod
    async def _ends_well(task, run):
        return outcome(task.id, {"content": [], "structuredContent": {"done": task.id}})

    async def execute(self, task, *, path="", parent=None, dry_run=False, session=None):
        """Run a workflow as a client's request."""
        run = self.run(path or task.id, parent, dry_run=dry_run, session=session)
        return await self.dag.execute(task, run)

    def run(self, path="test", parent=None, *, dry_run=False, session=None):
        """A run whose children are dispatched by this world."""
        self._ids += 1

        async def dispatch(task, above):
            self.paths.append(f"{path}/{task.id}")
            if isinstance(task, Workflow):
                return await self.execute(
                    task, path=f"{path}/{task.id}", parent=above, dry_run=dry_run, session=session
                )
            self.calls.append(task)
            return await self.answer(task, above)

        run = FakeRun(dispatch, session=session or self.session, dry_run=dry_run, parent=parent and parent.id)
        run.id = ExecutionId(f"01900000-0000-7000-8000-{self._ids:012}")
        return run

    def ran(self):
        """Ids of what was called, in order; forgotten then."""
        ids, self.calls = [task.id for task in self.calls], []
        return ids


@pytest.fixture
def world():
    """Makes a :class:`World`."""
    return World


class Make:
    """Short ways to write tasks and outcomes."""

    @staticmethod
    def call(id_, *depends_on, step=None, **arguments):
        more = {} if step is None else {"step": step}
        return ToolCall(id=id_, tool=f"s:{id_}", arguments=arguments, depends_on=depends_on, **more)

    @staticmethod
    def flow(*tasks, **more):
        return Workflow(id="w", tasks=tasks, **more)

    @staticmethod
    def structured(value):
        return {"content": [], "structuredContent": value}

    @staticmethod
    def failed(task, code="tool.failed", status=Status.ERROR, message="it broke", **more):
        return outcome(task.id, status=status, failure=Failure(code, message, **more))

    @staticmethod
    def waits(task, **details):
        failure = Failure(
            "approval.needed", "A human has to look.", details=details or {"approval_id": f"ap-{task.id}"}
        )
        return outcome(task.id, status=Status.INPUT_REQUIRED, failure=failure)

    @staticmethod
    def statuses(ended):
        return {task["id"]: task["status"] for task in ended.output["tasks"]}

    @staticmethod
    def results(ended):
        return {task["id"]: task for task in ended.output["tasks"]}


@pytest.fixture(scope="session")
def make():
    """Short ways to write tasks and outcomes."""
    return Make
