"""``pml plugin new``; what it writes is held to its promises by tests/templates."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from pml_core.cli import main
from pml_dev.kinds import KINDS


@pytest.fixture
def new(place, installation):
    return lambda *words: main(["plugin", "new", *words])


@pytest.mark.parametrize("kind", KINDS)
def test_a_distribution_is_written_under_its_name(new, place, capsys, kind):
    assert new(kind, "office-hours") == 0
    folder = place.project / "pml-office-hours"
    document = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert document["project"]["name"] == "pml-office-hours"
    ((group, points),) = document["project"]["entry-points"].items()
    assert (group, list(points)) == (KINDS[kind].group, ["office_hours"])
    assert (folder / "src" / "pml_office_hours" / "py.typed").read_bytes() == b""
    said = capsys.readouterr().out
    assert "Next:" in said
    assert "cd pml-office-hours" in said
    assert "pip install -e . --group dev" in said


def test_it_asks_for_the_hook_specs_that_are_installed(new, place):
    from importlib.metadata import version

    new("tracer", "mine")
    document = tomllib.loads((place.project / "pml-mine" / "pyproject.toml").read_text(encoding="utf-8"))
    major, minor, *_ = (int(number) for number in version("pml-hookspecs").split("."))
    below = major + 1 if major else f"0.{minor + 1}"
    assert document["project"]["dependencies"] == [f"pml-hookspecs>={major}.{minor},<{below}"]


def test_a_kind_asks_for_the_libraries_that_it_imports(new, place):
    new("transport", "mine")
    text = (place.project / "pml-mine" / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'"pml-kit>=\d+\.\d+,<', text)


def test_the_folder_can_be_put_elsewhere_and_json_says_what_was_written(new, place, tmp_path, capsys):
    assert new("hooks", "mine", "--path", str(tmp_path / "deep" / "er"), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["folder"] == str(tmp_path / "deep" / "er" / "pml-mine")
    assert ".github/workflows/test.yml" in said["files"]
    assert all((tmp_path / "deep" / "er" / "pml-mine" / name).is_file() for name in said["files"])
    assert list(place.project.iterdir()) == []


def test_nothing_is_overwritten(new, place, capsys):
    (place.project / "pml-mine").mkdir()
    mine = place.write("pml-mine/README.md", "my own words")
    assert new("store", "mine") == 2
    assert "is not empty" in capsys.readouterr().err
    assert [mine.read_text(encoding="utf-8"), *mine.parent.iterdir()] == ["my own words", mine]


def test_a_file_or_a_link_in_its_place_is_left_alone(new, place, tmp_path, capsys):
    place.write("pml-one", "a file")
    (place.project / "pml-two").symlink_to(tmp_path, target_is_directory=True)
    assert new("store", "one") == new("store", "two") == 2
    assert "is no folder" in capsys.readouterr().err


def test_an_empty_folder_will_do(new, place):
    (place.project / "pml-mine").mkdir()
    assert new("store", "mine") == 0


@pytest.mark.parametrize("name", ["", "1st", "a__b", "_a", "a-", "class", "match", "a.b", "größe", "a/b", "x" * 33])
def test_a_name_that_no_plugin_can_have_is_refused(new, place, capsys, name):
    assert new("tracer", name) == 2
    assert "name" in capsys.readouterr().err
    assert list(place.project.iterdir()) == []


def test_a_name_that_is_taken_is_refused(new, place, installation, capsys):
    installation.add("acme", {"pml.store": {"mine": "acme:S"}})
    assert new("tracer", "mine") == 2
    assert "'mine' is taken: store driver 'mine' (acme 1.0) is installed" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_a_message(new, place, capsys):
    place.write("blocked", "a file")
    assert new("tracer", "mine", "--path", str(place.project / "blocked")) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_an_unknown_kind_is_refused_with_those_there_are(new, place, capsys):
    with pytest.raises(SystemExit):
        new("wrapper", "mine")
    assert "exposure-mode" in capsys.readouterr().err
