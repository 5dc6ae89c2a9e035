"""``pml console`` as its user starts it: a process, a link that works once, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import httpx2
import pytest

LINK = re.compile(r"http://\S+/console/enter\?token=(\S+)")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_link_opens_the_console_once(tmp_path, ending):
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"desk": {"command": sys.executable, "args": ["-c", ""]}}}))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "pml_core", "console", "--no-browser", "--config", str(config)],
        env={**kept, "PML_HOME": str(tmp_path / "home")}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        link = next(match for line in process.stdout if (match := LINK.search(line)))
        form = {"data": {"token": link[1]}, "timeout": 120}
        enter = link[0].partition("?")[0]
        assert httpx2.get(enter.replace("enter", ""), follow_redirects=True).url.path == "/console/login"
        with httpx2.Client() as mine, httpx2.Client() as other:
            assert mine.post(enter, **form).headers["location"] == "/console/"
            page = mine.get(enter.replace("enter", ""), timeout=120)
            assert (page.status_code, "desk" in page.text) == (200, True)
            assert other.post(enter, **form).status_code == 401
            assert other.post(enter.replace("enter", "login"), data={"token": "x"}, timeout=120).status_code == 401
    finally:
        process.send_signal(ending)
        _, said = process.communicate(timeout=120)
    assert "Traceback" not in said
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(enter)
