"""The site is built without a warning, its links lead somewhere, and its pages fetch nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

FETCHES = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
LINKS_ONLY = {"canonical", "prev", "next", "alternate"}
"""Relations that a browser does not fetch."""
LARGEST_BYTES = 120_000


class Page(HTMLParser):
    """What a page refers to."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.links, self.pictures, self.anchors = [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "img":
            self.pictures.append((given.get("src", ""), given.get("alt")))
        if tag in FETCHES and (target := given.get(FETCHES[tag])) and given.get("rel") not in LINKS_ONLY:
            self.fetched.append(target)


@pytest.fixture(scope="module")
def site(root, tmp_path_factory):
    """Where it was built, as the lane does it, with no network to be had."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    words = ["build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *words],
        capture_output=True,
        check=False,
        cwd=root,
        encoding="utf-8",
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    found = {path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(found) > 60
    return found


def test_no_page_fetches_anything_from_elsewhere(pages):
    foreign = {
        (name, target)
        for name, page in pages.items()
        for target in page.fetched
        if urlsplit(target).scheme not in ("", "data") or target.startswith("//")
    }
    assert foreign == set()


def test_no_style_fetches_anything_from_elsewhere(site):
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path


def test_every_link_leads_to_a_page_and_a_place_in_it(site, pages):
    lost = []
    for name, page in pages.items():
        for link in (one for one in page.links if name != "404.html" and urlsplit(one).scheme == ""):
            target, anchor = urldefrag(urljoin(f"/{name}", link))
            path = unquote(target).lstrip("/") or "index.html"
            if path in pages:
                if anchor and unquote(anchor) not in pages[path].anchors | {"__top"}:
                    lost.append(f"{name}: {link}")
            elif not (site / path).exists():
                lost.append(f"{name}: {link}")
    assert lost == []


def test_what_a_page_fetches_is_there(site, pages):
    lost = []
    for name, page in pages.items():
        for target in (one for one in page.fetched if name != "404.html" and urlsplit(one).scheme == ""):
            path = unquote(urlsplit(urljoin(f"/{name}", target)).path).lstrip("/")
            if not (site / path).is_file():
                lost.append(f"{name}: {target}")
    assert lost == []


def test_every_picture_says_in_words_what_it_shows(pages):
    shown = [(name, target, alt) for name, page in pages.items() for target, alt in page.pictures]
    assert shown
    assert [one for one in shown if len((one[2] or "").split()) < 4] == []


def test_every_picture_is_shown_and_small(root, pages):
    shown = {target.rpartition("/")[2] for page in pages.values() for target, _ in page.pictures}
    kept = {path.name: path.stat().st_size for path in (root / "docs" / "pictures").iterdir()}
    assert kept.keys() == shown
    assert {name: size for name, size in kept.items() if size > LARGEST_BYTES} == {}


def test_links_to_elsewhere_are_addresses(pages):
    schemes = {"https", "http", "mailto", ""}
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            assert parts.scheme in schemes, f"{name}: {link}"
            if parts.scheme.startswith("http"):
                assert re.fullmatch(r"[\w.-]+\.[a-z]+|127\.0\.0\.1|localhost", parts.hostname or ""), f"{name}: {link}"
                assert not re.search(r"[\s<>\"`]", link), f"{name}: {link}"


def test_every_distribution_has_a_page(root, pages):
    for path in root.glob("plugins/*/README.md"):
        assert f"packages/{path.parent.name}.html" in pages


def test_sources_of_examples_are_no_files_of_the_site(site):
    assert list(site.rglob("*.py")) == []
    assert list(site.rglob("*.toml")) == []
