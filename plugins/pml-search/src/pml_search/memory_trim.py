"""Give memory that building an index took back to the system."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress


def give_back() -> None:
    """Have the C library return free memory, where it can be told so (glibc).

    Without it, arrays freed below others that are kept stay resident: 40 MB at 20,000 tools.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
