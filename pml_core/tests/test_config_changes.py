from __future__ import annotations

import io
import json
import tomllib
from importlib import resources

import pytest
import yaml

from pml_core.cli import main
from pml_core.cli.setup import presets
from pml_core.settings.config import load
from pml_testing.commands import installed

HYBRID = """
from dataclasses import dataclass
from pml_hookspecs import setting
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    expose_meta_tools: bool = setting(True, "m")
    expose_underlying_tools: bool = setting(True, "u")
    apply_semantic_filter: bool = setting(True, "f")
    max_underlying_tools: int = setting(50, "n", ge=0)
    semantic_threshold: float = setting(0.6, "t", ge=0, le=1)
    whitelisted_tools: list[str] = setting(list, "w")
    blacklisted_tools: list[str] = setting(list, "b")
class Mode:
    settings_type = Settings
    def __init__(self, settings, services): pass
"""
BALANCED = {
    "expose_meta_tools": True,
    "expose_underlying_tools": True,
    "apply_semantic_filter": True,
    "max_underlying_tools": 20,
    "semantic_threshold": 0.7,
}


@pytest.fixture
def gateway(place, installation):
    """The modes that the presets name are installed."""
    installed(installation, place)
    points = {"pml.exposure_mode": dict.fromkeys(("hybrid", "full_proxy", "semantic"), "acme_modes:Mode")}
    installation.add("acme-modes", points, modules={"acme_modes": HYBRID})
    return place


@pytest.mark.seed("EXP-27", "EXP-28", "EXP-29", "EXP-30", "EXP-31")
def test_the_file_of_presets_is_as_the_original_has_it():
    text = resources.files("pml_core.cli.setup").joinpath("gateway-presets.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == {
        "meta_only": {"tools_exposure": "meta_only"},
        "hybrid_balanced": {"tools_exposure": "hybrid", "hybrid": BALANCED},
        "hybrid_permissive": {
            "tools_exposure": "hybrid",
            "hybrid": {**BALANCED, "max_underlying_tools": 50, "semantic_threshold": 0.5},
        },
        "full_proxy": {"tools_exposure": "full_proxy"},
    }


@pytest.mark.seed("EXP-32")
def test_the_clear_names_mean_presets(gateway):
    names = {alias: presets.named(alias, gateway.project).name for alias in ("migration", "balanced", "advanced")}
    assert names == {"migration": "full_proxy", "balanced": "hybrid_balanced", "advanced": "meta_only"}


@pytest.mark.seed("EXP-26", "EXP-33")
def test_a_preset_is_written_into_the_users_file_when_there_is_none_and_twice_is_once(gateway, capsys):
    assert main(["config", "--preset", "hybrid_balanced"]) == 0
    path = gateway.home / "config.yaml"
    text = path.read_text()
    assert yaml.safe_load(text) == {"gateway": {"tools_exposure": "hybrid", "hybrid": BALANCED}}
    config = load()
    assert (config.gateway.tools_exposure, config.tables["hybrid"]) == ("hybrid", BALANCED)
    out = capsys.readouterr().out
    assert '+  tools_exposure: "hybrid"' in out
    assert main(["config", "--preset", "hybrid_balanced"]) == 0
    assert "says so already" in capsys.readouterr().out
    assert path.read_text() == text
    assert list(gateway.home.iterdir()) == [path]


@pytest.mark.seed("EXP-33", "EXP-37")
def test_the_projects_file_comes_first_and_keeps_what_else_it_says_with_a_copy_beside_it(gateway, capsys):
    head = '# ours\n[gateway]\ntools_exposure = "full_proxy" # first weeks\n'
    text = head + '\n[plugins.hybrid]\nblacklisted_tools = ["a:*"]\n'
    path = gateway.write("pml.toml", text)
    assert main(["config", "--preset", "permissive"]) == 2
    assert "no such preset" in capsys.readouterr().err
    assert main(["config", "--preset", "hybrid_permissive", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    changed = path.read_text()
    assert changed.startswith('# ours\n[gateway]\ntools_exposure = "hybrid" # first weeks\n')
    assert tomllib.loads(changed)["plugins"]["hybrid"]["blacklisted_tools"] == ["a:*"]
    assert tomllib.loads(changed)["plugins"]["hybrid"]["max_underlying_tools"] == 50
    assert (done["preset"], done["written"], done["changed"]) == ("hybrid_permissive", True, True)
    assert [note for note in done["notes"] if "plugins.hybrid.intents" in note]
    [backup] = [one for one in gateway.project.iterdir() if one != path]
    assert (str(backup), backup.read_text()) == (done["backup"], text)


def test_a_source_that_comes_before_the_file_is_named(gateway, capsys):
    users = gateway.users("config.toml", '[gateway]\ntools_exposure = "full_proxy"\n')
    assert main(["config", "--preset", "meta_only", "--project"]) == 0
    out = capsys.readouterr().out
    assert f"gateway.tools_exposure is 'full_proxy' in {users}, which comes first" in out


@pytest.mark.parametrize(("option", "format"), [("--print", "toml"), ("--dry-run", "toml")])
def test_what_is_only_to_be_seen_writes_nothing(gateway, capsys, option, format):
    assert main(["config", "--preset", "hybrid_balanced", "--project", option]) == 0
    out = capsys.readouterr().out
    assert "semantic_threshold = 0.7" in out
    if option == "--print":
        assert tomllib.loads(out) == {"gateway": {"tools_exposure": "hybrid"}, "plugins": {"hybrid": BALANCED}}
    assert list(gateway.project.iterdir()) == []


def test_at_a_terminal_no_means_no(gateway, monkeypatch, capsys):
    at_a_terminal(monkeypatch, "n\n")
    assert main(["config", "--preset", "meta_only"]) == 1
    assert "Nothing is written." in capsys.readouterr().out
    assert list(gateway.home.iterdir()) == []


def test_a_preset_whose_mode_is_not_installed_is_refused_and_nothing_written(place, installation, capsys):
    installed(installation, place)
    assert main(["config", "--preset", "hybrid_balanced"]) == 2
    err = capsys.readouterr().err
    assert "nothing is written, because it would not fit" in err
    assert "no exposure_mode named 'hybrid'" in err
    assert list(place.home.iterdir()) == []


def test_a_mistake_that_is_there_already_is_no_hindrance(gateway, capsys):
    gateway.users("config.toml", '[gateway]\nstore = "none_such"\n')
    assert main(["config", "--preset", "meta_only"]) == 0


def test_presets_of_the_projects_and_the_users_own_are_listed_and_applied(gateway, capsys):
    (gateway.project / "config").mkdir()
    team = "team:\n  tools_exposure: hybrid\n  hybrid: {max_underlying_tools: 7}\n"
    gateway.write("config/gateway-presets.yaml", team)
    gateway.users("gateway-presets.yaml", "meta_only:\n  tools_exposure: semantic\n")
    assert main(["config", "presets", "--json"]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["team"]["values"] == {"gateway.tools_exposure": "hybrid", "plugins.hybrid.max_underlying_tools": 7}
    assert found["meta_only"]["mode"] == "semantic"
    assert found["full_proxy"]["aliases"] == ["migration"]
    assert main(["config", "--preset", "team", "--project"]) == 0
    assert load().tables["hybrid"] == {"max_underlying_tools": 7}
    assert main(["config", "presets"]) == 0
    assert "team" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["team: hybrid\n", "team: {}\n", "- team\n", "team: ["])
def test_a_file_of_presets_that_is_none_is_refused(gateway, capsys, text):
    gateway.users("gateway-presets.yaml", text)
    assert main(["config", "presets"]) == 2
    assert "gateway-presets.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--yes"], "--yes: means something only with --preset or --wizard"),
        (["--preset", "meta_only", "--answer", "use=purpose"], "only with --wizard"),
        (["--preset", "meta_only", "--to", "x.json"], "only TOML and YAML are written"),
        (["--preset", "hybrid_balanced", "--to", "odd.yaml"], "Write this there by hand"),
    ],
)
def test_what_makes_no_sense_is_said(gateway, capsys, words, said):
    gateway.write("odd.yaml", "? gateway\n: hybrid: {max_underlying_tools: 3}\n")
    gateway.write("x.json", "{}")
    assert main(["config", *words]) == 2
    assert said in capsys.readouterr().err


# The wizard


@pytest.mark.seed("EXP-34")
def test_the_wizard_runs_without_a_terminal_when_it_is_given_answers(gateway, capsys):
    answers = ["use=everyday", "intent=read and answer mail", "always=mail:read, mail:send", "never=mail:delete_*"]
    words = [word for answer in [*answers, "where=project"] for word in ("--answer", answer)]
    assert main(["config", "--wizard", *words, "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["preset"], done["answers"]["where"]) == ("hybrid_balanced", "project")
    assert tomllib.loads((gateway.project / "pml.toml").read_text()) == {
        "gateway": {"tools_exposure": "hybrid", "intent": "read and answer mail"},
        "plugins": {
            "hybrid": {
                **BALANCED,
                "whitelisted_tools": ["mail:read", "mail:send"],
                "blacklisted_tools": ["mail:delete_*"],
            }
        },
    }


@pytest.mark.parametrize(
    ("use", "mode"),
    [
        ("migration", "full_proxy"),
        ("development", "hybrid"),
        ("everyday", "hybrid"),
        ("purpose", "semantic"),
        ("production", "meta_only"),
    ],
)
def test_each_use_comes_to_a_mode(gateway, use, mode):
    path = gateway.write("answers.yaml", f"use: {use}\nnever: [a:b]\n")
    assert main(["config", "--wizard", "--answers", str(path), "--to", "pml.yaml"]) == 0
    written = yaml.safe_load((gateway.project / "pml.yaml").read_text())["gateway"]
    assert (written["tools_exposure"], written["hybrid"]["blacklisted_tools"]) == (mode, ["a:b"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is no terminal to ask at"),
        (["--answer", "use"], "expected QUESTION=ANSWER"),
        (["--answer", "us=migration"], "there is no question us"),
        (["--answer", "use=nothing"], "use cannot be 'nothing'"),
        (["--answer", "use=production", "--answer", "intent=x"], "intent means nothing with use=production"),
        (["--answers", "none.toml"], "none.toml: cannot be read"),
    ],
)
def test_the_wizard_says_what_it_cannot_do_and_writes_nothing(gateway, monkeypatch, capsys, words, said):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["config", "--wizard", *words]) == 2
    assert said in capsys.readouterr().err
    assert list(gateway.home.iterdir()) == []


def at_a_terminal(monkeypatch, text):
    terminal = io.StringIO(text)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)


@pytest.mark.seed("EXP-34")
def test_at_a_terminal_the_wizard_asks_and_takes_numbers_names_and_defaults(gateway, monkeypatch, capsys):
    at_a_terminal(monkeypatch, "9\n4\nread mail\n\nproject\ny\n")
    assert main(["config", "--wizard"]) == 0
    err = capsys.readouterr().err
    assert "What is PML for?" in err
    assert "Answer a number from 1 to 5, or a name." in err
    expected = {"gateway": {"tools_exposure": "semantic", "intent": "read mail"}}
    assert tomllib.loads((gateway.project / "pml.toml").read_text()) == expected


def test_the_end_of_input_ends_the_wizard_and_nothing_is_written(gateway, monkeypatch, capsys):
    at_a_terminal(monkeypatch, "1\n")
    assert main(["config", "--wizard"]) == 130
    assert "Nothing is written." in capsys.readouterr().err
    at_a_terminal(monkeypatch, "x\n" * 3)
    assert main(["config", "--wizard"]) == 2
    assert list(gateway.home.iterdir()) == []


# What is doubtful


@pytest.mark.seed("EXP-36")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "No servers are configured"),
        ('[gateway]\ntools_exposure = "full_proxy"', "full_proxy puts every tool"),
        ('[endpoints.ops]\ntools_exposure = "full_proxy"', "endpoints.ops.tools_exposure: full_proxy"),
        ('[gateway]\ntools_exposure = "semantic"', "gateway.intent: is empty, so semantic lists no tools"),
        ('[gateway]\ntools_exposure = "hybrid"', "or one by one in plugins.hybrid.intents"),
        ("{hybrid}expose_meta_tools = false", "what is not listed cannot be found"),
        ("{hybrid}expose_meta_tools = false\nexpose_underlying_tools = false", "both off: clients see nothing"),
        ('{hybrid}expose_underlying_tools = false\nwhitelisted_tools = ["git:a"]', "has no effect while"),
        ('{hybrid}max_underlying_tools = 0\nwhitelisted_tools = ["git:a"]', "names more tools than"),
        ("{hybrid}max_underlying_tools = 300", "over 100 tools fill a context"),
        ("{hybrid}semantic_threshold = 0", "filled up with tools that do not fit"),
        ("{hybrid}semantic_threshold = 1", "hardly any tool is listed"),
        ("[plugins.hybrid]\nsemantic_threshold = 0.5", "semantic_threshold has no effect"),
        ('{hybrid}whitelisted_tools = ["git:a"]\nblacklisted_tools = ["git:a"]', "'git:a' is in both lists"),
        ('{hybrid}whitelisted_tools = ["gti:a"]', "no server 'gti' is configured"),
        (
            '[plugins.hybrid]\nblacklisted_tools = ["delete_*"]',
            "so it fits nothing; write '*:delete_*'",
        ),
    ],
)
def test_what_is_legal_and_doubtful_is_a_warning_and_no_mistake(gateway, capsys, text, said):
    hybrid = '[gateway]\ntools_exposure = "hybrid"\n[plugins.hybrid]\n'
    server = '\n[servers.git]\ncommand = "git"\n' if said != "No servers are configured" else ""
    gateway.write("pml.toml", text.replace("{hybrid}", hybrid) + server)
    assert main(["config", "check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    assert [line for line in found["warnings"] if said in line]
    assert main(["config", "check", "--strict"]) == 1
    assert "Warning: " in capsys.readouterr().out


def test_a_configuration_that_is_meant_so_has_no_warnings(gateway, capsys):
    text = '[gateway]\ntools_exposure = "hybrid"\nintent = "mail"\n'
    text += '[plugins.hybrid]\nblacklisted_tools = ["git:rm", "*:x"]\n'
    gateway.write("pml.toml", text + '[servers.git]\ncommand = "git"\n')
    assert main(["config", "check", "--strict"]) == 0
    assert capsys.readouterr().out == "The configuration fits.\n"
