"""Within a phase, wrappers say in which order they run; names decide nothing."""

from __future__ import annotations

import json

from pml_core.cli import main

MODULE = """
from pml_hookspecs import Phase, hookimpl
class W:
    phase = Phase.AUDIT
    {says}
    async def __call__(self, task, run, call_next): return await call_next(task, run)
@hookimpl
def pml_wrap_executor(services): return [W()]
"""


FILTER = """
from pml_hookspecs import hookimpl
def keeps_all(entry, session): return True
@hookimpl
def pml_filter_tools(services): return [keeps_all]
"""


def test_the_chain_shows_the_filters_that_the_core_asks(place, installation, capsys):
    installation.add("sieve", {"pml.plugins": {"sieve": "sieve_module"}}, modules={"sieve_module": FILTER})
    assert main(["plugins", "chain"]) == 0
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
    assert rows[rows.index(["AUTHORIZE", "core", "Admission"]) + 1] == ["AUTHORIZE", "sieve", "keeps_all", "(filter)"]
    assert main(["plugins", "chain", "--json"]) == 0
    links = json.loads(capsys.readouterr().out)
    assert {"phase": "AUTHORIZE", "plugin": "sieve", "filter": "keeps_all"} in links


def test_the_chain_shows_what_was_said_and_the_doctor_what_cannot_be_had(place, installation, capsys):
    for name, says in (("mask", "before = ('ledger',)"), ("ledger", "after = ('masc',)")):
        installation.add(
            name, {"pml.plugins": {name: f"{name}_module"}}, modules={f"{name}_module": MODULE.format(says=says)}
        )
    assert main(["plugins", "chain"]) == 0
    shown = capsys.readouterr()
    assert "which wraps nothing here; did you mean 'mask'?" in shown.err
    rows = [line.split(maxsplit=3) for line in shown.out.splitlines() if "AUDIT" in line]
    assert [(row[1], row[3].strip()) for row in rows] == [("mask", "before ledger"), ("ledger", "after masc")]
    assert main(["plugins", "doctor", "--json"]) == 1
    lines = {line["subject"]: line for line in json.loads(capsys.readouterr().out)}
    assert "did you mean 'mask'?" in lines["order of wrappers"]["detail"]
