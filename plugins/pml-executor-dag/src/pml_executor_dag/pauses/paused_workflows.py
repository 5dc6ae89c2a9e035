"""Workflows that wait for somebody, in the store until they are continued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, Outcome, Workflow
from pml_kit.plain import task_from, to_plain

if TYPE_CHECKING:
    from pml_hookspecs import Document, Documents, Session

COLLECTION = "dag.workflows"
WAITING, RUNNING, OVER = "waiting", "running", "over"


class WorkflowNotFoundError(InvalidArguments):
    """No workflow of this principal is kept under the id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowClaim:
    """The right to continue a workflow: only one client at a time has it."""

    id: str
    workflow: Workflow
    """With the outcomes known so far."""
    version: int
    value: Mapping[str, Any]
    expires_at: datetime | None


async def keep(
    documents: Documents, id_: str, workflow: Workflow, session: Session, *, part: bool, keep_s: float
) -> datetime:
    """Keep ``workflow``, whose ``known`` says how far it got, for the principal of ``session``.

    Args:
        documents: Where.
        id_: Under which id.
        workflow: What goes on later.
        session: Whose it is.
        part: Whether it is part of another workflow, and continued with that only.
        keep_s: How long it waits [s].

    Returns:
        When it is forgotten.
    """
    expires_at = datetime.now(UTC) + timedelta(seconds=keep_s)
    value = {"status": WAITING, "principal": session.principal, "part": part, "workflow": to_plain(workflow)}
    marks = {"status": WAITING, "principal": session.principal}
    await documents.put(COLLECTION, id_, value, marks=marks, expires_at=expires_at)
    return expires_at


async def take(documents: Documents, id_: str, session: Session, *, part: bool = False) -> WorkflowClaim:
    """Take the workflow that waits under ``id_``: of several who try, one gets it.

    Args:
        documents: Where.
        id_: Under which id.
        session: Who wants it. Another principal's is not found.
        part: Whether it is continued as part of another one.

    Raises:
        WorkflowNotFoundError: There is none.
        InvalidArguments: It is being continued, or it is over.
    """
    document = await documents.get(COLLECTION, id_)
    if document is None or document.value.get("principal") != session.principal:
        raise WorkflowNotFoundError(
            f"workflow_id: no workflow waits under the id {id_[:80]!r}; it may have been forgotten"
        )
    if problem := _problem(document, part=part):
        raise InvalidArguments(f"workflow_id: {problem}")
    value = {**document.value, "status": RUNNING}
    version = await documents.put(
        COLLECTION,
        id_,
        value,
        marks={**document.marks, "status": RUNNING},
        expires_at=document.expires_at,
        if_version=document.version,
    )
    if version is None:
        raise InvalidArguments(f"workflow_id: {_being_continued(id_)}")
    workflow = task_from(document.value["workflow"])
    if not isinstance(workflow, Workflow):
        raise TypeError(f"what is kept under {id_} is no workflow")
    return WorkflowClaim(id=id_, workflow=workflow, version=version, value=value, expires_at=document.expires_at)


async def put_back(documents: Documents, taken: WorkflowClaim) -> None:
    """Let ``taken`` wait on, because nothing of it ran."""
    value = {**taken.value, "status": WAITING}
    await _put(documents, taken, value)


async def let_go(documents: Documents, taken: WorkflowClaim, goes_on_as: str = "") -> None:
    """Forget what ``taken`` did; ``goes_on_as`` is the id that it waits under now, if it does."""
    value = {name: taken.value[name] for name in ("principal", "part")}
    await _put(documents, taken, {**value, "status": OVER, "goes_on_as": goes_on_as})


async def _put(documents: Documents, taken: WorkflowClaim, value: Mapping[str, Any]) -> None:
    marks = {"status": value["status"], "principal": value["principal"]}
    # Whoever wrote in between continued it under the same id.
    await documents.put(COLLECTION, taken.id, value, marks=marks, expires_at=taken.expires_at, if_version=taken.version)


def _problem(document: Document, *, part: bool) -> str:
    """Why nobody can continue it; ``""`` when somebody can."""
    status = document.value["status"]
    if status == OVER:
        later = document.value.get("goes_on_as")
        return f"{document.key!r} was continued, and waits as {later!r} now" if later else f"{document.key!r} is over"
    if status == RUNNING:
        return _being_continued(document.key)
    if document.value["part"] and not part:
        return f"{document.key!r} is part of another workflow; continue that one"
    return ""


def _being_continued(id_: str) -> str:
    return (
        f"{id_!r} is being continued already; if that was broken off, what it did then is not known: look, and send "
        "what is left as a new workflow"
    )


async def known_of(documents: Documents, id_: str, session: Session) -> Mapping[str, Outcome]:
    """Take what a part of a workflow did before it began to wait.

    Raises:
        InvalidArguments: It is not known any more, or somebody else is continuing it.
    """
    taken = await take(documents, id_, session, part=True)
    await let_go(documents, taken)
    return taken.workflow.known
