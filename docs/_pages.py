"""What MkDocs does besides.

Each distribution's README is a page, and links between both worlds lead there; so is the changelog, with what is not
released yet; and recordings of terminals are shown.
"""  # noqa: INP001 - MkDocs loads it by its path

from __future__ import annotations

import html
import importlib.util
import json
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PACKAGES = "packages"
CHANGELOG = "changelog.md"
RECORDING = re.compile(r"^<!-- recording: (\S+) -->$")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(`{3,}|~{3,})")


def readmes() -> dict[str, str]:
    """Path of each README in the repository, and that of its page in the site."""
    every = [*ROOT.glob("plugins/*/README.md"), *ROOT.glob("examples/**/README.md")]
    every += [ROOT / folder / "README.md" for folder in ("hookspecs", "pml_core", "tests")]
    return {found.relative_to(ROOT).as_posix(): _page(found) for found in sorted(every) if found.is_file()}


def _page(readme: Path) -> str:
    names = {"hookspecs": "pml-hookspecs", "pml_core": "pml-core", "tests": "pml-testing"}
    folder = readme.parent
    name = names.get(folder.name, folder.name)
    if folder.parent.name == "examples":
        name = f"example-{name}"
    return f"{PACKAGES}/{name}.md"


def on_files(files: Files, config: Any) -> Files:
    """Add the READMEs."""
    for source, page in readmes().items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, CHANGELOG, content=changelog()))
    return files


def changelog() -> str:
    """What is not released yet, as a release would render it, above what is."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "release.py")
    if spec is None or spec.loader is None:
        raise ImportError("release.py cannot be loaded")
    release = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(release)
    before = release.CHANGELOG.read_text(encoding="utf-8") if release.CHANGELOG.exists() else release.TITLE
    if not any(release.fragments(folder) for folder in release.folders()):
        return str(before)
    told = f"{release.TITLE}\n{release.section('Not released yet')}{before.removeprefix(release.TITLE)}"
    # A fragment's links are relative to it, wherever that is.
    return LINK.sub(lambda found: found[0] if "://" in found[2] else found[1], told)


def recording(cast: Path) -> str:
    """A recording of a terminal as HTML: all of its text, and what a script needs to play it."""
    events = [
        (at, text.replace("\r\n", "\n"))
        for at, _, text in map(json.loads, cast.read_text(encoding="utf-8").splitlines()[1:])
    ]
    told = "".join(text for _, text in events)
    data = json.dumps(events, ensure_ascii=False).replace("<", "\\u003c")
    return (
        f'<div class="recording"><pre><code>{html.escape(told)}</code></pre>'
        '<div class="controls" hidden><button type="button">Play</button>'
        '<input type="range" min="0" step="any" aria-label="Position in the recording"><output></output></div>'
        f'<script type="application/json">{data}</script></div>'
    )


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Have links lead to pages, whichever world they come from; what has no page is named."""
    pages = readmes()
    sources = {made: source for source, made in pages.items()}
    here = page.file.src_uri
    source = sources.get(here, f"docs/{here}")
    fenced = ""
    lines = []
    for line in markdown.splitlines():
        if found := RECORDING.match(line):
            lines.append(recording(ROOT / posixpath.dirname(source) / found[1]))
            continue
        mark = FENCE.match(line.lstrip())
        if mark and (not fenced or line.lstrip().startswith(fenced)):
            fenced = "" if fenced else mark[1]
        lines.append(line if fenced or mark else LINK.sub(lambda f: _led(f, source, here, pages, files), line))
    return "\n".join(lines)


def _led(found: re.Match[str], source: str, here: str, pages: dict[str, str], files: Files) -> str:
    text, target, anchor = found[1], found[2], found[3] or ""
    if not target or "://" in target or target.startswith("mailto:"):
        return found[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    candidates = [path, f"{path}/README.md", f"{path}/index.md"]
    for one in candidates:
        uri = pages.get(one) or (one.removeprefix("docs/") if one.startswith("docs/") else "")
        if uri and (file := files.get_file_from_path(uri)) is not None and not file.inclusion.is_excluded():
            return f"[{text}]({posixpath.relpath(uri, posixpath.dirname(here) or '.')}{anchor})"
    if (ROOT / path).exists():  # a file of the repository that is no page
        return f"{text} (`{path}`)" if path not in text else text
    return found[0]
