"""How much memory a process uses, for where the kernel does not limit that by itself."""

from __future__ import annotations

import os
import sys

_ENOUGH_BYTES = 128


class Memory:
    """Looks at one process, often: on Linux its file stays open, as to open it is most of the work."""

    def __init__(self, pid: int) -> None:
        """Take the process's id."""
        self._pid, self._file = pid, -1
        if sys.platform == "linux":
            try:
                self._file = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._pid = -1

    def resident_bytes(self) -> int | None:
        """Resident memory [bytes]; None when the process is gone, or nothing here can tell."""
        try:
            if self._file >= 0:
                return int(os.pread(self._file, _ENOUGH_BYTES, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
            return None if self._pid < 0 else _elsewhere(self._pid)
        except (OSError, IndexError, ValueError):
            return None

    def close(self) -> None:
        """Look no more."""
        if self._file >= 0:
            os.close(self._file)
        self._pid = self._file = -1


def _elsewhere(pid: int) -> int | None:
    try:
        import psutil  # type: ignore[import-untyped]
    except ImportError:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None
