"""What a result of 56 MB takes of the gateway that stores it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .raw_gateway import Site
from .test_loop import MIB, rss_bytes

SERVER = Path(__file__).with_name("servers") / "rows.py"
COUNT = 200_000
SIZE_BYTES = 56_500_000
"""Of the answer on the wire."""
MOST = 3.0
"""Times the size, above what the gateway has when it has answered a small call; 2.5 measured. Of these, two are how it
comes and what is handed on of it, or that and its text, which is stored; what else was there twice is more than 3."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the highest memory of a process is told by Linux")
def test_a_large_result_is_not_held_more_than_three_times(tmp_path):
    command = f"[plugins.results]\nunbounded_modes = []\n[servers.big]\ncommand = {json.dumps(sys.executable)}\n"
    with Site(tmp_path).serving(f"{command}args = {json.dumps([str(SERVER)])}\n") as client:

        def rows(count):
            return client.call("call_tool", name="big:rows", arguments={"n": count})["result"]

        assert rows(3)["content"][0]["text"].startswith("[")
        rows(1000)  # a first preview, for what is imported and opened for it
        before = rss_bytes(client.process.pid, "VmHWM")
        preview = rows(COUNT)
        id = preview["_meta"]["pml/result"]["id"]
        took = (rss_bytes(client.process.pid, "VmHWM") - before) / SIZE_BYTES
        print(f"\n{took:.2f} times its size above {before / MIB:.0f} MiB")
        assert f"[{COUNT}]" in preview["content"][0]["text"]
        assert took <= MOST
        read = client.call("call_tool", name="read_result", arguments={"id": id, "path": f"[{COUNT - 1}].name"})
        assert read["result"]["content"][0]["text"] == f"name number {COUNT - 1}"
