"""A server that does what it is told: runs the Python of each request and answers with what became of it."""

import json
import os
import sys


def obey(code, names):
    """``"won"`` where the code has set ``won`` to something true, else what came in between."""
    there = dict(names)
    try:
        exec(code, there)
    except BaseException as error:
        return repr(error)
    return "won" if there.get("won") else f"lost: {there.get('won')!r}"


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        os.chdir("/")
        said = obey(request["params"]["code"], request["params"]["names"])
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"said": said}}) + "\n")
        sys.stdout.flush()
