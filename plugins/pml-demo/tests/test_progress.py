"""Progress on a terminal and elsewhere."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from pml_demo.progress import Steps


def test_elsewhere_than_on_a_terminal_every_step_is_two_lines():
    console = Console(file=io.StringIO(), width=40)
    with Steps(console, live=False) as steps, steps.step("Install something with a long name, longer than a line"):
        pass
    began, ended = console.file.getvalue().splitlines()
    assert began.endswith("longer than a line …")
    assert re.search(r"longer than a line: \d+\.\d s$", ended)
    assert list(steps.took_s) == ["Install something with a long name, longer than a line"]


def test_on_a_terminal_what_was_shown_is_gone_at_the_end():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with Steps(console, live=True) as steps, steps.step("Start"):
        pass
    assert "Start" in console.file.getvalue()
    assert console.file.getvalue().rstrip("\n").endswith("\x1b[2K")


@pytest.mark.parametrize("live", [True, False])
def test_a_step_that_fails_is_not_counted_and_says_so(live):
    console = Console(file=io.StringIO(), force_terminal=live, width=80)
    with Steps(console, live=live) as steps, pytest.raises(RuntimeError), steps.step("Start"):
        raise RuntimeError
    assert steps.took_s == {}
    if not live:
        assert console.file.getvalue().endswith("Start: stopped\n")
