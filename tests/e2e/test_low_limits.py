"""A gateway that may open few files: what does not fit is refused in words, and the rest goes on."""

from __future__ import annotations

import asyncio
import sys

import pytest

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the descriptors that a gateway needs are counted on Linux"),
]
OPEN_FILES = 40
"""Enough for a gateway without servers and a few pieces of code, not for eight."""
AT_ONCE = 8
CODE = {
    "deno": ("typescript", "await new Promise((done) => setTimeout(done, 1000)); return 1"),
    "monty": ("python", "import time\ntime.sleep(1)\nreturn 1"),
    "cpython": ("python", "import time\ntime.sleep(1)\nreturn 1"),
}


@pytest.fixture
def bounded(site, monkeypatch):
    """A site without servers, whose gateway may open few files."""
    serve = type(site).serve
    words = ["/bin/sh", "-c", f'ulimit -n {OPEN_FILES}; exec "$@"', "sh"]
    monkeypatch.setattr(type(site), "serve", lambda site, *options: [*words, *serve(site, *options)])
    site.configure()
    return site


@pytest.mark.attack("Jail", "run eight pieces of code at once in a gateway that may open few files")
@pytest.mark.parametrize("engine", CODE)
async def test_what_finds_no_descriptor_is_refused_in_words(bounded, engine):
    language, code = CODE[engine]
    choice = f'gateway.executors={{"code.python" = "{engine}"}}'
    chosen = ["--set", choice] if language == "python" else []
    async with bounded.connect(*chosen, listed=False) as client:
        asked = [client.call_tool("run_code", {"language": language, "code": code}) for _ in range(AT_ONCE)]
        answers = await asyncio.gather(*asked)
        said = [bounded.text_of(answer) for answer in answers]
        assert set(said) - {"1"}, "all eight fit, so nothing was tried"
        for text in set(said) - {"1"}:
            assert text.startswith("The gateway has too many files open to start a sandbox.")
        for _ in range(OPEN_FILES + 10 if engine == "deno" else 3):
            answer = await client.call_tool("run_code", {"language": language, "code": "return 2"})
            assert bounded.text_of(answer) == "2"
    assert "Traceback" not in bounded.log.read_text()
