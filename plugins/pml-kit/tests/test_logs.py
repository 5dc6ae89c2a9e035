from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from pml_kit.system.logs import Logs
from pml_kit.system.redaction import MASK, Redactor
from pml_testing.fakes import FakeLog


def redactor(*secrets: str) -> Redactor:
    made = Redactor()
    made.learn(secrets)
    return made


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)


def test_lines_go_to_standard_error_and_nothing_to_standard_output():
    done = run("from pml_kit.system.logs import Logs; Logs().get(plugin='p').warning('hello', n=5)")
    assert done.stdout == ""
    assert "hello" in done.stderr
    assert "n=5" in done.stderr
    assert "plugin=p" in done.stderr


def test_structlog_is_not_imported_until_something_is_said_and_rich_never():
    run(
        "import sys\nfrom pml_kit.system.logs import Logs\n"
        "log = Logs('warning').get().bind(a=1)\nlog.info('not said')\n"
        "assert 'structlog' not in sys.modules\nlog.warning('said')\nassert 'structlog' in sys.modules\n"
        "assert 'rich' not in sys.modules"
    )


def test_rich_stays_as_it_was_when_it_is_in_use_already():
    run(
        "import sys, rich\nfrom pml_kit.system.logs import Logs\nLogs().get().warning('said')\n"
        "assert sys.modules['rich'] is rich\nassert 'rich.traceback' not in sys.modules"
    )


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_plugin_can_ask_what_would_be_written(level):
    numbers = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
    log = Logs(level).get()
    assert {m: log.is_enabled_for(n) for m, n in numbers.items()} == {
        m: n >= numbers[level] for m, n in numbers.items()
    }


@pytest.mark.parametrize(("level", "said"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_threshold_decides_what_is_written(level, said, capsys):
    log = Logs(level, "json").get()
    for method in ("debug", "info", "warning", "error"):
        getattr(log, method)("line")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["level"] for line in lines] == ["debug", "info", "warning", "error"][-said:]


def test_json_lines_have_time_level_event_and_fields(capsys):
    Logs("info", "json").get(plugin="p").bind(server="s").info("hello", n=5)
    captured = capsys.readouterr()
    line = json.loads(captured.err)
    assert captured.out == ""
    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "info", "event": "hello", "plugin": "p", "server": "s", "n": 5}


def test_binding_more_does_not_change_the_logger_it_came_from(capsys):
    log = Logs("info", "json").get(a=1)
    log.bind(b=2).info("x")
    log.info("y")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert ("b" in first, "b" in second) == (True, False)


@pytest.mark.parametrize("form", ["console", "json"])
def test_an_exception_comes_with_its_traceback(form, capsys):
    log = Logs("info", form).get()
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed", plugin="p")
    err = capsys.readouterr().err
    assert "failed" in err
    assert "Traceback" in err
    assert "ValueError: broken" in err


class Holder:
    """Shows its secret."""

    def __repr__(self) -> str:
        return "Holder(hunter22)"


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize(
    "value",
    [
        "x hunter22",
        ["hunter22"],
        {"hunter22": {"a": ("hunter22",)}},
        ValueError("hunter22"),
        Holder(),
        {"hunter22"},
        b"hunter22",
    ],
    ids=["text", "list", "mapping", "exception", "object", "set", "bytes"],
)
def test_secrets_are_taken_out_of_whatever_is_logged(form, value, capsys):
    Logs("info", form, redactor("hunter22")).get().info("event", value=value)
    err = capsys.readouterr().err
    assert "event" in err
    assert "hunter22" not in err


def test_secrets_are_taken_out_of_events_bound_fields_and_tracebacks(capsys):
    log = Logs("info", "console", redactor("hunter22")).get(bound="hunter22")
    try:
        raise ValueError("hunter22")
    except ValueError:
        log.exception("event hunter22")
    err = capsys.readouterr().err
    assert "hunter22" not in err
    assert err.count(MASK) >= 3


def test_every_level_that_a_plugin_is_tested_with_is_there(capsys):
    log = Logs("debug").get()
    for level in ("debug", "info", "warning", "error", "exception", "critical"):
        getattr(FakeLog(), level)("said", n=1)
        getattr(log, level)("said", n=1)
    assert capsys.readouterr().err.count("said") == 6


def test_a_gateway_that_can_open_no_file_says_so_all_the_same():
    done = run(
        "import os, resource\n"
        "from pml_kit.system.logs import Logs\n"
        "from pml_kit.system.redaction import Redactor\n"
        "redactor = Redactor()\nredactor.learn(['hush-hush-1234'])\n"
        "log = Logs(redactor=redactor).get(plugin='p')\n"
        "most = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, most[1]))\n"
        "log.error('too many open files', key='hush-hush-1234')\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, most)\n"
        "log.warning('it goes on')\n"
    )
    first, second = done.stderr.splitlines()
    assert first == f"[error] too many open files plugin='p' key={MASK!r}"
    assert "it goes on" in second
    assert "plugin=p" in second
