"""What MkDocs does besides: each distribution's README is a page, and links between both worlds lead there."""  # noqa: INP001 - MkDocs loads it by its path

from __future__ import annotations

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
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Have links lead to pages, whichever world they come from; what has no page is named."""
    pages = readmes()
    sources = {made: source for source, made in pages.items()}
    here = page.file.src_uri
    source = sources.get(here, f"docs/{here}")
    fenced = ""
    lines = []
    for line in markdown.splitlines():
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
