"""NumPy, loaded so that its linear algebra keeps to one thread.

The products here are short: more threads would only wait for each other, and for the gateway. OpenBLAS looks at its
variable once, when it is loaded; the variable is put back at once, so that servers started later do not inherit it.
"""

from __future__ import annotations

import os

VARIABLE = "OPENBLAS_NUM_THREADS"

_before = os.environ.get(VARIABLE)
os.environ.setdefault(VARIABLE, "1")
try:
    import numpy as np
    from numpy.typing import NDArray
finally:
    if _before is None:
        os.environ.pop(VARIABLE, None)

__all__ = ["Array", "NDArray", "np"]

Array = NDArray[np.float32]
