"""What holds for every test of the tree.

Run from the checkout, the folder ``pml_core/`` would be taken for the package of that name.
"""

import contextlib
import faulthandler
import os
import subprocess
import sys
from collections.abc import Generator
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pytest

import pml_core  # noqa: F401 - imported first, so that the installed package is the one that tests see

pytest_plugins = ["pytester"]
# Modules that tests of one package share; the installed ones come first.
HERE = Path(__file__).parent
SHARING = (HERE / "tests" / name for name in ("deploy", "integration", "kill", "fleet"))
FOLDERS = (HERE / "pml_core" / "tests", *sorted(HERE.glob("plugins/*/tests")), *SHARING)
sys.path += [str(folder) for folder in FOLDERS]

LIMIT_S = float(os.environ.get("PML_TEST_LIMIT_S", "1500"))
"""Of one test, and of what comes after the last one; what takes longer hangs, and all threads say where [s]. The
longest, which runs the contract of stores against all wrong ones, takes six minutes beside others; those that repeat
what they do as often as they are told may need more."""
LONGEST = ("tests/selftest/test_store_contract.py", "tests/e2e/test_history.py", "tests/e2e/test_real_servers.py")
"""Files that take minutes; among several processes they begin."""
WAITING = ("tests/e2e/", "tests/integration/")
"""Begins files whose tests wait for processes that they start."""
_said_to = pytest.StashKey[int]()

# No limit of time for an example, nor for making one up: either would be a test of how busy the machine is. Chosen
# before any module of tests is imported, because what a test says of its own settings is added to these then.
with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, settings

    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("usual", patient)
    settings.register_profile("thorough", patient, max_examples=1000)
    settings.load_profile(os.environ.get("PML_HYPOTHESIS", "usual"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Among several processes the tests of a file stay together: they share servers, and begin where others ended."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """In a new checkout, have what is imported compiled by two processes, and not by each that will run tests."""
    compiled = any((HERE / "tests" / "e2e" / "__pycache__").glob("test_*"))
    if compiled or sys.dont_write_bytecode or config.args != config.getini("testpaths"):
        return
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    halves = config.args[::2], config.args[1::2]
    running = [subprocess.Popen([*command, *half], cwd=HERE, stdout=subprocess.DEVNULL) for half in halves]
    for process in running:
        process.wait()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among several processes, files whose tests wait alternate with those whose tests compute."""
    if not hasattr(config, "workerinput"):
        return
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    begin = [name for name in LONGEST if name in files]
    rest = [name for name in files if name not in begin]
    waiting = [name for name in rest if name.startswith(WAITING)]
    computing = [name for name in rest if not name.startswith(WAITING)]
    order = [*begin, *filter(None, chain.from_iterable(zip_longest(waiting, computing)))]
    items[:] = [item for name in order for item in files[name]]


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch the time; of several processes, in those that run tests."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    # The real one: tests have it taken away.
    config.stash[_said_to] = os.dup(sys.__stderr__.fileno())
    _limit(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test has the whole time, whatever those before it took."""
    _limit(item.config)
    try:
        return (yield)
    finally:
        _limit(item.config)


def _limit(config: pytest.Config) -> None:
    """From now on; the end of the process counts, as a thread may hold that up as well."""
    faulthandler.dump_traceback_later(LIMIT_S, exit=True, file=config.stash[_said_to])
