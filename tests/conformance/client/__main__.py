"""The program that the official client scenarios start as "the client", with the server's address as last argument.

``python tests/conformance/client --route direct URL`` plays a scenario with the official SDK, ``--route through`` with
a gateway between it and the server. Which scenario it is, and what it gives to its client, stands in the environment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys

from plays import play
from sides import Direct, Scenario, Through

SIDES = {"direct": Direct, "through": Through}


def main() -> int:
    """Play one scenario; 0 when the client got what it wanted, else 1, with the reason on standard error."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--route", choices=SIDES, required=True)
    parser.add_argument("url")
    chosen = parser.parse_args()
    scenario = Scenario(
        os.environ["MCP_CONFORMANCE_SCENARIO"],
        os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25"),
        chosen.url,
        json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
    )
    try:
        asyncio.run(play(scenario, SIDES[chosen.route](scenario)))
    except Exception as exc:
        sys.stderr.write(f"{type(exc).__name__}: {exc}\n")
        while isinstance(exc, BaseExceptionGroup):
            exc = exc.exceptions[0]
            sys.stderr.write(f"  {type(exc).__name__}: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
