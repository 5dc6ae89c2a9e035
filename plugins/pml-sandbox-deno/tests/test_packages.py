"""Packages that npm has installed beside a folder, or in it, made by hand here; real ones are in tests/e2e."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pml_kit.jail
from pml_hookspecs import Status

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="packages are there inside a kernel jail only"),
]
SOURCE = """
import { twice } from "modern";
import { name } from "@scoped/one/deep";
import old from "old";
import typed from "modern/data.json" with { type: "json" };
const late = await import("npm:old");
console.log(twice(4), name, old.three, typed.five, late.default.three);
"""


def package(folder: Path, name: str, about: dict[str, object], **files: str) -> None:
    place = folder / "node_modules" / name
    place.mkdir(parents=True)
    (place / "package.json").write_text(json.dumps({"name": name, "version": "1.0.0", **about}))
    for file, text in files.items():
        (place / file.replace("__", ".")).write_text(text)


def install(folder: Path) -> None:
    modern = {"type": "module", "exports": {".": "./index.js", "./data.json": "./data.json"}}
    package(folder, "modern", modern, index__js="export * from './more.js'", data__json='{"five": 5}')
    (folder / "node_modules/modern/more.js").write_text("export const twice = (n) => 2 * n;")
    exports = {"exports": {"./deep": "./deep.mjs"}}
    package(folder, "@scoped/one", exports, deep__mjs="export const name = 'scoped';")
    index = "const path = require('node:path'); module.exports = { three: require('./three') }"
    package(folder, "old", {"main": "index.js"}, index__js=index, three__js="module.exports = 3")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "book"
    made.mkdir()
    yield made
    made.chmod(0o700)


@pytest.mark.parametrize("where", ["beside", "in it"])
async def test_packages_that_are_installed_are_imported(run, folder: Path, where: str) -> None:
    install(folder.parent if where == "beside" else folder)
    ended = await run(SOURCE, program=True, tools=(), folder=str(folder))
    assert ended.output == {"stdout": "8 scoped 3 5 3\n", "stderr": "", "exit_code": 0}


async def test_packages_in_the_folder_come_first(run, folder: Path) -> None:
    for where, word in ((folder.parent, "beside"), (folder, "inside")):
        package(where, "which", {"type": "module", "main": "a.js"}, a__js=f"export default '{word}'")
    ended = await run("import it from 'which'; console.log(it)", program=True, tools=(), folder=str(folder))
    assert ended.output["stdout"] == "inside\n"


@pytest.mark.attack("Jail", "change an installed package, for whoever imports it next")
@pytest.mark.parametrize("where", ["beside", "in it"])
async def test_packages_are_only_read(run, folder: Path, where: str) -> None:
    place = folder.parent if where == "beside" else folder
    install(place)
    before = {path: path.read_bytes() for path in place.rglob("node_modules/**/*") if path.is_file()}
    source = """
import fs from "node:fs";
const top = %s;
const tries = [
  () => Deno.writeTextFileSync(`${top}/old/three.js`, "module.exports = 4"),
  () => Deno.writeTextFileSync(`${top}/new.js`, ""),
  () => Deno.mkdirSync(`${top}/new`),
  () => Deno.removeSync(`${top}/old`, { recursive: true }),
  () => Deno.renameSync(top, "moved"),
  () => Deno.renameSync(`${top}/old/three.js`, "moved.js"),
  () => Deno.truncateSync(`${top}/old/three.js`),
  () => Deno.linkSync(`${top}/old/three.js`, "hard.js"),
  () => fs.chmodSync(`${top}/old/three.js`, 0o777),
  () => fs.appendFileSync(`${top}/old/three.js`, "x"),
];
for (const one of tries) { try { one(); console.log("through", String(one)); } catch (_) { /* good */ } }
"""
    top = json.dumps("../node_modules" if where == "beside" else "node_modules")
    ended = await run(source % top, program=True, tools=(), folder=str(folder))
    assert ended.output == {"stdout": "", "stderr": "", "exit_code": 0}
    assert {path: path.read_bytes() for path in place.rglob("node_modules/**/*") if path.is_file()} == before


@pytest.mark.attack("Jail", "read packages of others, which Deno itself lets any code read that has packages")
async def test_packages_elsewhere_are_not_read(run, folder: Path, tmp_path_factory) -> None:
    install(folder.parent)
    other = tmp_path_factory.mktemp("other")
    package(other, "theirs", {"main": "a.js"}, a__js="module.exports = 'secret'")
    (other / "plain.json").write_text('"secret"')
    (folder.parent / "node_modules" / "link").symlink_to(other)
    source = f"""
import {{ createRequire }} from "node:module";
const require = createRequire(import.meta.url);
const other = {json.dumps(str(other))};
for (const path of [other + "/node_modules/theirs/a.js", "link/plain.json", other + "/plain.json"]) {{
  try {{ console.log(require(path)); }} catch (_) {{ /* good */ }}
  try {{ console.log((await import(path)).default); }} catch (_) {{ /* good */ }}
  try {{ console.log(Deno.readTextFileSync(path)); }} catch (_) {{ /* good */ }}
}}
"""
    ended = await run(source, program=True, tools=(), folder=str(folder))
    assert ended.output == {"stdout": "", "stderr": "", "exit_code": 0}


async def test_a_link_in_place_of_packages_is_none(run, folder: Path, tmp_path_factory) -> None:
    other = tmp_path_factory.mktemp("other")
    install(other)
    (folder / "node_modules").symlink_to(other / "node_modules")
    source = "import { twice } from 'modern'; console.log(twice(1))"
    ended = await run(source, program=True, tools=(), folder=str(folder))
    assert 'Import "modern" not a dependency' in ended.output["stderr"]


async def test_without_a_jail_that_keeps_files_there_are_none(run, folder: Path, monkeypatch) -> None:
    """Deno alone would let the code read every folder of that name on the machine."""
    install(folder.parent)
    monkeypatch.setattr(pml_kit.jail.Jail, "keeps_files", lambda _: False)
    source = "import { twice } from 'modern'; console.log(twice(1))"
    ended = await run(source, program=True, tools=(), folder=str(folder))
    assert 'Import "modern" not a dependency' in ended.output["stderr"]


@pytest.mark.parametrize("installed", [True, False], ids=["some packages", "none"])
@pytest.mark.parametrize(
    ("specifier", "advice"),
    [
        ("left-pad", "npm install --prefix FOLDER left-pad (for a notebook, pml notebook show tells FOLDER)"),
        ("@a/b/c", "npm install --prefix FOLDER @a/b (for a notebook"),
        ("https://example.com/x.ts", "Code has no network."),
        ("jsr:@std/x", "Code has no network."),
    ],
)
async def test_what_is_not_there_comes_with_advice_that_can_be_followed(
    run, folder: Path, specifier: str, advice: str, *, installed: bool
) -> None:
    if installed:
        install(folder)
    ended = await run(f"import x from '{specifier}'; x", program=True, tools=(), folder=str(folder))
    assert advice in ended.output["stderr"]
    assert "deno add" not in ended.output["stderr"]
    assert ended.output["exit_code"] == 1


async def test_code_that_is_no_program_is_told_that_it_has_none(run) -> None:
    ended = await run("return await import('left-pad')", tools=())
    assert (ended.status, ended.failure.code) == (Status.ERROR, "code.raised")
    assert 'Import "left-pad" not a dependency. Only cells of notebooks have packages' in ended.failure.message
    assert "blob:" not in ended.failure.message
