"""An agent's command line: ``lasting_agent.py FOLDER NAME SECONDS`` notes all the while that it runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

if __name__ == "__main__":
    folder, (name, lasts_s) = Path(sys.argv[1]), sys.argv[2].split()
    ends_s = time.monotonic() + float(lasts_s)
    with (folder / f"{name}.run").open("a") as file:
        while time.monotonic() < ends_s:
            file.write(f"{time.monotonic()}\n")
            file.flush()
            time.sleep(0.02)
    sys.stdout.write(f"{name} is done")
