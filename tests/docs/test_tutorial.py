"""The tutorial, as a reader follows it: in an empty folder, with the wheels that are about to be published.

Takes some two minutes: it builds the wheels that ``pml`` and ``pml-testing`` need, installs them into an environment of
its own, and runs every command.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "plugins" / "first-plugin.md"
PART = re.compile(r"^<!-- (shell|file: (\S+)) -->\n+```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
ACTIVATE = ". .venv/bin/activate"
LIMIT_S = 300


def building():
    """What the lane ``downstream`` builds wheels with."""
    path = ROOT / "tests" / "downstream" / "conftest.py"
    spec = importlib.util.spec_from_file_location("building", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Of the gateway with its standard set, and of what tests plugins."""
    module = building()
    if given := os.environ.get("PML_DIST"):
        made = module.Built(Path(given).resolve())
    else:
        made = module.Built(tmp_path_factory.mktemp("dist"))
        folders = [one.folder for one in made.named("pml-gateway", "pml-testing")]
        work = tmp_path_factory.mktemp("unpacked")
        done = module.run(sys.executable, "-P", "-c", module.BUILD, made.folder, work, *folders)
        assert done.status == 0, done.said
    return [made.wheel(one) for one in made.named("pml-gateway", "pml-testing")]


class Shell:
    """One shell for all commands, as a reader has it."""

    def __init__(self, folder):
        out = ("PML_", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "UV_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(out)}
        # The reader's Python, of which an environment is made first.
        (folder.parent / "bin").mkdir()
        (folder.parent / "bin" / "python").symlink_to(sys._base_executable)
        path = os.pathsep.join((str(folder.parent / "bin"), os.defpath))
        self._process = subprocess.Popen(
            ["sh"],
            cwd=folder,
            env={**kept, "PATH": path, "TERM": "dumb", "COLUMNS": "200"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(LIMIT_S)

    def run(self, command):
        """What it prints. Fails when the command does."""
        watch = threading.Timer(LIMIT_S, self._process.kill)
        watch.start()
        try:
            self._process.stdin.write(f"{command}\nprintf '\\n@@done %s\\n' $?\n")
            self._process.stdin.flush()
            lines = []
            while not (line := self._process.stdout.readline()).startswith("@@done"):
                assert line, f"$ {command}\n{''.join(lines)}"
                lines.append(line)
        finally:
            watch.cancel()
        printed = "".join(lines).strip()
        assert line.split()[1] == "0", f"$ {command}\n{printed}"
        return printed


def pattern_of(text):
    """What is to be printed: ``…`` is anything."""
    return ".*?".join(re.escape(piece) for piece in text.strip().split("…"))


def test_every_block_of_the_tutorial_is_run_or_written():
    text = TUTORIAL.read_text(encoding="utf-8")
    assert len(PART.findall(text)) == len(re.findall(r"^```\w+$", text, re.MULTILINE)) >= 15


def test_the_tutorial_works_as_it_is_written(tmp_path, wheels):
    folder = tmp_path / "empty"
    folder.mkdir()
    ran = 0
    with Shell(folder) as shell:
        for _, file, text in PART.findall(TUTORIAL.read_text(encoding="utf-8")):
            if file:
                (folder / file).parent.mkdir(exist_ok=True)
                (folder / file).write_text(text, encoding="utf-8")
                continue
            for command, expected in COMMAND.findall(text):
                printed = shell.run(command)
                ran += 1
                if expected.strip():
                    found = re.fullmatch(pattern_of(expected), printed, re.DOTALL)
                    assert found, f"$ {command}\n{printed}\n--- instead of\n{expected}"
                if command == ACTIVATE:  # so that pip finds ours there already, and looks for none elsewhere
                    building().uv("pip", "install", "--quiet", "--python", folder / ".venv" / "bin" / "python", *wheels)
    assert ran > 25
