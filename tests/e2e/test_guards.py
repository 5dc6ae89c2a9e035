"""A missing guard is a closed door: what is configured and cannot be had, in a gateway in a process of its own."""

from __future__ import annotations

import time

import pytest

from .raw_gateway import PATIENCE_S, Site

HIDDEN = """
import os
from importlib import metadata

every = metadata.distributions
metadata.distributions = lambda **given: [
    one for one in every(**given) if one.metadata["Name"] != os.environ["HIDDEN_DISTRIBUTION"]
]
"""
"""A sitecustomize that has a distribution look as if it were not installed."""
GUARDS = {
    "pml-access": "[plugins.access]\nrequired = true",
    "pml-approvals": '[plugins.approvals]\nrequire = ["*"]',
    "pml-limits": '[plugins.limits.rules.all]\nper = ["principal"]\nrate = "1/hour"',
    "pml-exposure-hybrid": '[plugins.hybrid]\nblacklisted_tools = ["*:pay"]',
    "pml-argument-validation": '[plugins.argument_validation]\nrefuse = ["*"]',
    "pml-presentation": '[plugins.presentation.tools."bank:pay"]\narguments = { amount = 1 }',
    "pml-dry-run": '[plugins.dry_run]\nlevel = "strict"',
}


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def without(site, distribution):
    folder = site.folder / "hiding"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDDEN)
    return {"PYTHONPATH": str(folder), "HIDDEN_DISTRIBUTION": distribution}


def refusal(site, more, **given):
    """What a gateway that does not start says."""
    with pytest.raises(AssertionError, match="the gateway has ended"), site.serving(more, **given):
        pass
    return site.log.read_text()


@pytest.mark.parametrize("strict", ["", "strict = true\n"])
@pytest.mark.parametrize("distribution", GUARDS)
@pytest.mark.attack("A missing guard is a closed door", "uninstall the plugin that reads the policy")
def test_settings_that_nobody_reads_keep_a_gateway_from_starting(site, distribution, strict):
    said = refusal(site, strict + GUARDS[distribution], environment=without(site, distribution))
    assert f"pip install {distribution}." in said
    assert "--allow-unknown" in said
    assert "Traceback" not in said


def test_whoever_says_so_goes_on_without(site):
    given = {"environment": without(site, "pml-limits"), "words": ["--allow-unknown"]}
    with site.serving(GUARDS["pml-limits"], **given) as client:
        client.ask("tools/list")
        assert not client.call("bank:pay", amount=1)["result"].get("isError")
    assert "no such plugin is installed" in site.log.read_text()


@pytest.mark.parametrize("name", ["limits", "pml-limits"])
@pytest.mark.attack("A missing guard is a closed door", "uninstall a plugin that needs no settings")
def test_what_is_required_has_to_be_there(site, name):
    said = refusal(site, f'required = ["{name}"]', environment=without(site, "pml-limits"))
    assert f"{name!r} is not installed" in said
    with site.serving(f'required = ["{name}"]') as client:
        assert client.ask("ping")["result"] == {}


def test_what_is_required_must_not_be_blocked(site):
    assert "blocked by [gateway] block" in refusal(site, 'required = ["limits"]\nblock = ["limits"]')


BROKEN = {
    "does not parse": "def broken(:\n",
    "cannot be imported": "import nothing_of_that_name\n",
    "has no hooks": "x = 1\n",
    "raises when it is asked for its wrappers": (
        "from pml_hookspecs import hookimpl\n@hookimpl\ndef pml_wrap_executor(services):\n    raise ValueError('no')\n"
    ),
    "raises when it is entered": (
        "from contextlib import asynccontextmanager\nfrom pml_hookspecs import hookimpl\n"
        "@asynccontextmanager\nasync def life():\n    raise ValueError('no')\n    yield\n"
        "@hookimpl\ndef pml_lifespan(services):\n    return [life()]\n"
    ),
}


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
@pytest.mark.attack("A missing guard is a closed door", "have a policy fail that stands in a file of the operator's")
def test_without_a_policy_that_failed_nothing_is_run(site, source):
    (site.folder / "policy.py").write_text(source)
    with site.serving('local = ["./policy.py"]') as client:
        client.ask("tools/list")
        for name, arguments in {
            "bank:pay": {"amount": 1},
            "call_tool": {"name": "bank:pay", "arguments": {"amount": 1}},
            "execute_workflow": {"workflow": {"tasks": [{"id": "a", "tool": "bank:pay", "arguments": {"amount": 1}}]}},
        }.items():
            answer = client.call(name, **arguments)
            assert "policy" in str(answer), answer
            assert "error" in answer or answer["result"]["isError"], answer
    assert not site.payments()
    assert "a guard failed; every call is refused" in site.log.read_text()


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
@pytest.mark.attack("A missing guard is a closed door", "have a policy fail where lists and routes are open to others")
def test_without_a_policy_that_failed_nothing_is_served_over_http(site, source):
    (site.folder / "policy.py").write_text(source)
    said = refusal(site, 'local = ["./policy.py"]', words=["--http", "127.0.0.1:0"])
    assert "'policy'" in said
    assert "nothing is served" in said
    assert "serving MCP at" not in said
    assert "Traceback" not in said


FILTERS = {
    "is async": "async def keep(entry, session):\n    return False\n",
    "is a generator": "def keep(entry, session):\n    yield False\n",
    "is async to call": (
        "class Keep:\n    async def __call__(self, entry, session):\n        return False\nkeep = Keep()\n"
    ),
    "is async within partial": (
        "import functools\nasync def all(more, entry, session):\n    return False\nkeep = functools.partial(all, 1)\n"
    ),
    "is nothing to call": "keep = 1\n",
}
OFFERED = "from pml_hookspecs import hookimpl\n{}@hookimpl\ndef pml_filter_tools(services):\n    return [keep]\n"


@pytest.mark.parametrize("source", FILTERS.values(), ids=FILTERS)
@pytest.mark.attack("A missing guard is a closed door", "have a filter answer with an object that is true")
def test_a_filter_that_is_no_plain_function_is_refused(site, source):
    (site.folder / "policy.py").write_text(OFFERED.format(source))
    said = refusal(site, 'local = ["./policy.py"]')
    assert "plugin 'policy'" in said
    assert "is no plain function" in said
    assert "Traceback" not in said


@pytest.mark.attack("A missing guard is a closed door", "have a filter answer with something else than True")
def test_only_true_keeps_a_tool(site):
    source = "async def late():\n    return False\n\ndef keep(entry, session):\n    return late()\n"
    (site.folder / "policy.py").write_text(OFFERED.format(source))
    with site.serving('local = ["./policy.py"]') as client:
        client.ask("tools/list")
        assert "refused by 'policy'" in str(client.call("bank:pay", amount=1))
    assert not site.payments()
    assert "neither True nor False" in site.log.read_text()


WRAPPER = """
from pml_hookspecs import Phase, hookimpl

class Policy:
    phase = Phase.AUTHORIZE

    async def __call__(self, task, run, call_next):
        {}

@hookimpl
def pml_wrap_executor(services):
    return [Policy()]
"""
JUDGEMENTS = {
    "raises": "raise ValueError('no')",
    "exits": "raise SystemExit(0)",
    "raises what is no Exception": "raise type('Odd', (BaseException,), {})()",
    "answers nothing": "return None",
}


@pytest.mark.parametrize("judgement", JUDGEMENTS.values(), ids=JUDGEMENTS)
@pytest.mark.attack("A missing guard is a closed door", "have a policy fail while it judges a call")
def test_a_policy_that_fails_while_it_judges_refuses(site, judgement):
    (site.folder / "policy.py").write_text(WRAPPER.format(judgement))
    with site.serving('local = ["./policy.py"]') as client:
        client.ask("tools/list")
        for _ in range(2):  # it ends nothing but the call
            refused = client.call("bank:pay", amount=1)["result"]
            assert refused["_meta"]["pml/failure"]["code"] == "wrapper.fault"
            assert "'policy'" in refused["content"][0]["text"]
    assert not site.payments()


@pytest.mark.attack("A missing guard is a closed door", "give a running gateway settings that nobody reads")
def test_a_running_gateway_keeps_what_it_has(site):
    with site.serving() as client:
        client.ask("tools/list")
        config = site.folder / "site.toml"
        config.write_text(config.read_text() + '\n[plugins.policy_of_somebody]\nforbid = ["*"]\n')
        until_s = time.monotonic() + PATIENCE_S
        while "the old one stays in force" not in (said := site.log.read_text()):
            assert time.monotonic() < until_s, said
            time.sleep(0.1)
        assert "pip install pml-policy-of-somebody" in said
