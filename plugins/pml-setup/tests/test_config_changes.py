from __future__ import annotations

import io
import json
import tomllib

import pytest
import yaml

from pml_clients.configuration import presets
from pml_core.cli import main
from pml_settings.config import load
from pml_testing.commands import installed

BALANCED = {
    "expose_meta_tools": True,
    "expose_underlying_tools": True,
    "apply_semantic_filter": True,
    "max_underlying_tools": 20,
    "semantic_threshold": 0.7,
}


@pytest.fixture
def kept():
    return ("pml-setup", *(f"pml-exposure-{mode}" for mode in ("full-proxy", "hybrid", "semantic")))


@pytest.fixture
def gateway(place, installation):
    """The modes that the presets name are installed."""
    installed(installation, place)
    points = {"pml.presets": {"meta_only": "pml_exposure_meta_only:presets.toml"}}
    installation.add("acme-presets", points)
    return place


def test_the_presets_are_as_the_original_has_them(gateway):
    found = {}
    for preset in presets.known(gateway.project).values():
        tree = found.setdefault(preset.name, {})
        for keys, value in preset.values.items():
            (tree.setdefault(keys[1], {}) if keys[0] == "plugins" else tree)[keys[-1]] = value
    assert found == {
        "meta_only": {"tools_exposure": "meta_only"},
        "hybrid_balanced": {"tools_exposure": "hybrid", "hybrid": BALANCED},
        "hybrid_permissive": {
            "tools_exposure": "hybrid",
            "hybrid": {**BALANCED, "max_underlying_tools": 50, "semantic_threshold": 0.5},
        },
        "full_proxy": {"tools_exposure": "full_proxy"},
    }
    assert list(found) == ["meta_only", "hybrid_balanced", "hybrid_permissive", "full_proxy"]


def test_the_clear_names_mean_presets(gateway):
    names = {alias: presets.named(alias, gateway.project).name for alias in ("migration", "balanced", "advanced")}
    assert names == {"migration": "full_proxy", "balanced": "hybrid_balanced", "advanced": "meta_only"}


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


def test_a_preset_whose_mode_is_not_installed_is_refused_and_nothing_written(gateway, place, capsys):
    (place.project / "config").mkdir()
    place.write("config/gateway-presets.yaml", "odd: {tools_exposure: odd_mode}\n")
    assert main(["config", "--preset", "odd"]) == 2
    err = capsys.readouterr().err
    assert "nothing is written, because it would not fit" in err
    assert "no exposure_mode named 'odd_mode'" in err
    assert [path.name for path in place.home.iterdir() if not path.name.startswith("trusted")] == []


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
