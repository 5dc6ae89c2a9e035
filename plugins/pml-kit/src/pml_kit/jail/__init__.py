"""The kernel jail: what the kernel keeps a sandboxed process from doing, whatever the sandbox itself lets through.

Linux only, without privileges and without help from other programs: Landlock for files, a seccomp filter for system
calls, resource limits, and no way back to the privileges that the process began without. A :class:`Jail` says what a
process may have; :meth:`Jail.preexec` puts it around one. :func:`walls` says which walls this machine can build, so
that a missing one is told of and not found out. Code in a jail gives way to other processes that want a processor.
:mod:`pml_kit.jail.container` is a program of somebody else's with all that it starts, and perhaps a network.
"""

from __future__ import annotations

from ._jail import Jail, limit_cpu, system_files
from ._walls import Wall, missing, walls

__all__ = ["Jail", "Wall", "limit_cpu", "missing", "system_files", "walls"]
