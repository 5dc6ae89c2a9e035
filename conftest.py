"""What holds for every test of the tree.

Run from the checkout, the folder ``pml_core/`` would be taken for the package of that name.
"""

import contextlib
import faulthandler
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import pml_core  # noqa: F401 - imported first, so that the installed package is the one that tests see

pytest_plugins = ["pytester"]
# Modules that tests of one package share; the installed ones come first.
HERE = Path(__file__).parent
sys.path += [str(folder) for folder in (*sorted(HERE.glob("plugins/*/tests")), HERE / "tests" / "kill")]

LIMIT_S = float(os.environ.get("PML_TEST_LIMIT_S", "1500"))
"""Of one test, and of what comes after the last one; what takes longer hangs, and all threads say where [s]. The
longest, which runs the contract of stores against all wrong ones, takes six minutes beside others; those that repeat
what they do as often as they are told may need more."""
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
    """Among several processes the tests of a file stay together: they share servers, and begin where others ended.

    In the order of ``testpaths``, which begins with the longest.
    """
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


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
