"""What ran, on this machine's disk before it is answered, until the store has it: a killed process loses none of it.

Each line is the row of an execution, or says that a server is about to be asked. Written without waiting for the disk:
what the kernel was given outlives the process, not the machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from pml_hookspecs import ExecutionRecord, Failure, RawObject, Scope, Status, encode
from pml_kit.identifiers import gateway_name
from pml_kit.json_line import well_formed

if TYPE_CHECKING:
    from pml_hookspecs import Executions, Run, Store, ToolCall

WRITTEN = "core.journal"
"""Collection of documents: one for each gateway, whose writing shows that what was recorded before is in the store."""
LOOK_S = 1.0
"""How often what the store has by now is dropped [s]."""
ADOPTION_S = 5.0
"""How often it is looked for what gateways left that are gone [s]."""
KEPT = timedelta(days=1)
MOST_BYTES = 1 << 30
"""Longest that a file gets while the store is away [bytes]."""
MOST_BEGUN = 10_000
AT_ONCE = 64
OPEN = ("pending", "running")
EVERYONE = Scope(principals=None)
LOST = Failure(
    "execution.lost",
    "The gateway went down while the server was asked: nobody knows whether it was done. Arguments were not kept.",
)


def _plain(value: Any) -> Any:
    return msgspec.Raw(value.raw) if type(value) is RawObject else dict(value)


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


def _line(value: Any) -> bytes:
    try:
        return _encode(value)
    except (UnicodeEncodeError, OverflowError):
        # Half of a surrogate pair, as a server writes a text that it cut in two; or a number beyond 64 bits.
        return well_formed(encode(msgspec.to_builtins(value, enc_hook=dict)))


_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Journal:
    """The files of this process in a folder that belongs to one store, and those of others that are gone."""

    def __init__(self, store: Store, log: Any) -> None:
        """Nothing is written before :meth:`keep`."""
        self._store, self._log = store, log
        self._file = -1
        self._path = Path()
        self._number = self._size = 0
        self._closed: tuple[int, Path] | None = None
        """The file that nothing more is written to, until the store has what is in it."""
        self._begun: dict[str, bytes] = {}
        """What was said of calls that have not ended, by execution: each file says it anew."""
        self._later = store.executions.record

    @property
    def executions(self) -> Executions:
        """The store's, with what is recorded there in the journal first."""
        return cast("Executions", _JournalExecutions(self, self._store.executions))

    def begins(self, task: ToolCall, run: Run) -> None:
        """A server is about to be asked."""
        if self._file >= 0:
            session = run.session
            said = (run.id, run.parent, task.tool, session.principal, session.actor, session.endpoint, run.dry_run)
            self._begun[run.id] = line = _line((*said, datetime.now(UTC)))
            if len(self._begun) > MOST_BEGUN:
                del self._begun[next(iter(self._begun))]
            self._write(line)

    def record(self, record: ExecutionRecord) -> None:
        """Keep a row, and have the store write it soon."""
        if self._file >= 0:
            self._begun.pop(record.id, None)
            self._write(_line(record))
        self._later(record)

    def put(self, record: ExecutionRecord) -> Awaitable[None]:
        """Have the store write a row at once: there is no need of a line for it."""
        self._begun.pop(record.id, None)
        return self._store.executions.put(record)

    def _write(self, line: bytes) -> None:
        if self._size > MOST_BYTES:
            return
        try:
            self._size += os.write(self._file, line + b"\n")
        except OSError as exc:
            self._size = MOST_BYTES + 1
            self._log.error("the journal cannot be written; rows are in memory until the store has them", why=str(exc))

    # What goes on beside the calls

    async def keep(self) -> None:
        """Keep the journal: drop what the store has, and give it what gateways left that are gone. Never ends."""
        place = await self._place()
        if place is None:
            return
        await asyncio.to_thread(self._begin_file, place)
        looks = 0
        while True:
            with suppress(Exception):  # the store says itself what is wrong with it
                if looks % round(ADOPTION_S / LOOK_S) == 0:
                    await self._adopt(place)
                await self._drop()
            looks += 1
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        """End; what the store does not have yet stays for the next gateway."""
        if self._file < 0:
            return
        with suppress(Exception):
            while self._closed or self._size:
                await self._drop()
            self._path.unlink()
            await self._store.documents.delete(WRITTEN, gateway_name())
        os.close(self._file)
        self._file = -1

    async def _place(self) -> Path | None:
        """The folder for this store; None where it keeps nothing itself, or files cannot be locked."""
        try:
            import fcntl  # noqa: F401 - not everywhere

            health = await self._store.health()
            named = health.get("path") or health.get("database")
            if not isinstance(named, str) or named == ":memory:":
                return None
            folder = (
                Path(os.environ.get("PML_HOME") or Path.home() / ".pml")
                / "journal"
                / hashlib.sha256(named.encode()).hexdigest()[:16]
            )
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (ImportError, OSError) as exc:
            self._log.warning("there is no journal", problem=str(exc))
            return None
        return folder

    def _begin_file(self, folder: Path) -> None:
        self._number += 1
        path = folder / f"{gateway_name()}-{self._number}.rows"
        hidden = path.with_suffix(".new")
        file = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        _lock(file)
        hidden.rename(path)  # others see it locked
        if self._file >= 0:
            self._closed = (self._file, self._path)
        self._file, self._path, self._size = file, path, 0
        if self._begun:
            with suppress(OSError):
                os.write(file, b"\n".join((*self._begun.values(), b"")))

    async def _drop(self) -> None:
        if self._closed is None and self._size:
            self._begin_file(self._path.parent)
        if self._closed is None:
            return
        until = datetime.now(UTC) + KEPT
        # Durable when it returns, and so is what was recorded before.
        await self._store.documents.put(WRITTEN, gateway_name(), {"files": self._number}, expires_at=until)
        (file, path), self._closed = self._closed, None
        path.unlink(missing_ok=True)
        os.close(file)

    async def _adopt(self, folder: Path) -> None:
        left: dict[str, list[Path]] = {}
        for path in await asyncio.to_thread(lambda: sorted(folder.glob("*.rows"))):
            left.setdefault(path.name.rpartition("-")[0], []).append(path)
        left.pop(gateway_name(), None)
        for paths in left.values():
            with suppress(FileNotFoundError):  # another gateway has been faster
                await self._adopt_files(paths)

    async def _adopt_files(self, paths: Sequence[Path]) -> None:
        """All files of one gateway together, if it is gone: what begins in one may end in another."""
        with ExitStack() as files:
            for path in paths:
                file = os.open(path, os.O_RDWR)
                files.callback(os.close, file)
                if not (_lock(file) and path.exists()):
                    return
            await self._give_to_store(await asyncio.to_thread(lambda: b"\n".join(path.read_bytes() for path in paths)))
            for path in paths:
                path.unlink()

    async def _give_to_store(self, text: bytes) -> None:
        rows = [*_rows(text).values()]
        for first in range(0, len(rows), AT_ONCE):
            await asyncio.gather(*map(self._give, rows[first : first + AT_ONCE]))
        if rows:
            self._log.warning("the history has what a gateway left that is gone", rows=len(rows))

    async def _give(self, row: ExecutionRecord) -> None:
        found = await self._store.executions.get(row.id, EVERYONE)
        if found is None or (found.status in OPEN and row.status not in OPEN and row.failure != LOST):
            await self._store.executions.put(row)


class _JournalExecutions:
    """As much of :class:`pml_hookspecs.Executions` as records."""

    def __init__(self, journal: Journal, executions: Executions) -> None:
        self.record, self.put, self.get = journal.record, journal.put, executions.get


def _lock(file: int) -> bool:
    """Hold a file as long as this process has it open; False when another one does."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _rows(text: bytes) -> Mapping[str, ExecutionRecord]:
    """The last row of each execution; of one that was only begun, that it is lost. A line cut in two is none."""
    found: dict[str, ExecutionRecord] = {}
    for line in text.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            row = _record(line) if line[:1] == b"{" else _lost(msgspec.json.decode(line))
            if row.failure != LOST or row.id not in found:
                found[row.id] = row
    return found


def _record(line: bytes) -> ExecutionRecord:
    members = _raw(well_formed(line))
    values = {name: msgspec.json.decode(raw) for name, raw in members.items()}
    for name in ("request", "response"):
        if isinstance(values[name], dict):
            values[name] = RawObject(bytes(members[name]))
    if values["failure"] is not None:
        values["failure"] = Failure(**values["failure"])
    if values["status"] not in OPEN:
        values["status"] = Status(values["status"])
    began_at, calls = datetime.fromisoformat(values["started_at"]), tuple(values["tool_calls"])
    return ExecutionRecord(**{**values, "started_at": began_at, "tool_calls": calls})


def _lost(said: Sequence[Any]) -> ExecutionRecord:
    id, parent, tool, principal, actor, endpoint, dry_run, at = said
    return ExecutionRecord(
        id=id,
        parent=parent,
        kind="tool",
        target=tool,
        principal=principal,
        agent=actor,
        endpoint=endpoint,
        dry_run=dry_run,
        status=Status.ERROR,
        started_at=datetime.fromisoformat(at),
        duration_ms=0,
        failure=LOST,
    )
