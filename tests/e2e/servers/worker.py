"""An agent CLI in print mode, as far as a gateway can tell: reads what to do, prints events, ends.

``fail WHY`` fails; ``wait FILE`` goes on when the file is there. Whatever it is told, it writes into ``worker.log``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

POLL_S = 0.02


def say(**event) -> None:
    """One event, as a line of JSON."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Do one thing."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    message = sys.stdin.read().strip()
    with (folder / "worker.log").open("a") as log:
        log.write(f"{name}: {message}\n")
    verb, _, rest = message.partition(" ")
    say(type="system", model="m-1")
    usage = {"input_tokens": 12000, "output_tokens": 500}
    said = [{"type": "text", "text": f"I look into it: {message}"}, {"type": "tool_use", "name": "Read"}]
    say(type="assistant", message={"content": said, "usage": usage})
    while verb == "wait" and not (folder / rest).exists():
        time.sleep(POLL_S)
    failed = verb == "fail"
    say(
        type="result",
        is_error=failed,
        result=rest if failed else f"{name} did: {message}",
        total_cost_usd=0.25,
        usage=usage,
        modelUsage={"m-1": {"contextWindow": 200000}},
    )


if __name__ == "__main__":
    main()
