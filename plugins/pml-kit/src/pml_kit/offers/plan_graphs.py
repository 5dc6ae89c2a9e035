"""What an executor makes of a plan before it runs any of it: its tasks, and what they need of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pml_hookspecs import Task, Workflow
    from pml_kit.references import Reference, Slot

ITEM, INDEX = "item", "index"
"""What references call the item of ``for_each`` and its number."""
EACH = frozenset({ITEM, INDEX})


@dataclass(slots=True, kw_only=True)
class PlanNode:
    """One task of a plan."""

    path: str
    """Ids joined by ``/``, those of the workflows that it is in first."""
    task: Task
    depends_on: tuple[str, ...] = ()
    """Ids of tasks beside it that it waits for, each once."""
    values: Sequence[Slot] = ()
    """Where references stand in its arguments or inputs."""
    each: Sequence[Slot] = ()
    """The same in ``for_each``, as the only thing in which the path is empty."""
    undo: Sequence[Slot] = ()
    """The same in the arguments or inputs of what undoes it."""
    known: bool = False
    """Its outcome is known; it does not run."""
    graph: PlanGraph
    """The workflow that it is in."""
    inner: PlanGraph | None = None
    """The tasks in it, where it is a workflow."""

    def references(self) -> Iterator[Reference]:
        """All of them, those of its undo last."""
        return (reference for slot in (*self.values, *self.each, *self.undo) for reference in slot.references)


@dataclass(slots=True, kw_only=True)
class PlanGraph:
    """The tasks of one workflow."""

    workflow: Workflow
    path: str = ""
    """Begins the paths of its tasks."""
    above: PlanNode | None = None
    """The task that the workflow is, where it is one of another workflow."""
    nodes: Mapping[str, PlanNode] = field(default_factory=dict)
    """By id, in plan order; of several with one id, the first."""
    external_ids: frozenset[str] = frozenset()
    """What can be referred to though no task here has that id."""
    layers: Sequence[Sequence[str]] = ()
    """Ids by how many steps they wait at least; without those that wait for each other."""

    def all_nodes(self) -> Iterator[PlanNode]:
        """Every task, those of workflows within after the workflow."""
        for node in self.nodes.values():
            yield node
            if node.inner is not None:
                yield from node.inner.all_nodes()
