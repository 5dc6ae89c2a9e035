"""The site at the widths of a telephone and of a laptop: nothing is cut off, every picture shows, recordings play."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTHS = (390, 1280)
CUT_OFF = """width => {
    const scrolls = one => {
        for (let box = one.parentElement; box && box !== document.body; box = box.parentElement)
            if (['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) return true;
        return false;
    };
    const found = [];
    if (document.documentElement.scrollWidth > width) found.push('the page');
    for (const one of document.querySelectorAll('.md-content *')) {
        const edges = one.getBoundingClientRect();
        if (edges.width && edges.right > width + 1 && !scrolls(one)) found.push(one.outerHTML.slice(0, 100));
    }
    for (const one of document.querySelectorAll('.md-content pre > code'))
        if (one.scrollWidth > one.clientWidth + 1 && /[─│┌└├]/.test(one.textContent))
            found.push('a drawing: ' + one.textContent.slice(0, 60));
    for (const one of document.querySelectorAll('.md-content img'))
        if (!one.complete || !one.naturalWidth) found.push('no picture: ' + one.getAttribute('src'));
    return found;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    return folder


@pytest.fixture
def reader(chromium):
    page = chromium.new_page()
    page.set_default_timeout(60_000)
    yield page
    page.close()


def test_no_page_is_cut_off(site, reader):
    found, seen = {}, 0
    for path in sorted(site.rglob("*.html")):
        reader.goto(path.as_uri())
        seen += 1
        for width in WIDTHS:
            reader.set_viewport_size({"width": width, "height": 900})
            if wrong := reader.evaluate(CUT_OFF, width):
                found[f"{path.relative_to(site)} at {width} px"] = wrong[:3]
    assert seen > 60
    assert found == {}


def test_the_recording_plays_and_stops_where_it_is_told_to(site, reader):
    reader.goto((site / "guides" / "migration.html").as_uri())
    screen, controls = reader.locator(".recording pre"), reader.locator(".recording .controls")
    whole = screen.inner_text()
    assert "pml config --preset advanced" in whole
    controls.locator("input").fill("0")
    assert len(screen.inner_text()) < 10
    controls.locator("button").click()
    reader.wait_for_function("document.querySelector('.recording pre').textContent.length > 20")
    controls.locator("button").click()
    stopped = screen.inner_text()
    assert len(stopped) < len(whole)
    reader.wait_for_timeout(300)
    assert screen.inner_text() == stopped
    controls.locator("input").fill(controls.locator("input").get_attribute("max"))
    assert screen.inner_text() == whole


def test_the_recording_is_read_without_a_script(site, chromium):
    page = chromium.new_page(java_script_enabled=False)
    page.goto((site / "guides" / "migration.html").as_uri())
    assert "pml config --preset advanced" in page.locator(".recording pre").inner_text()
    assert page.locator(".recording .controls").is_hidden()
    page.close()
