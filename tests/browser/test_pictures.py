"""The command that takes the pictures of the documentation still makes each that a page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
COMMAND = Path(__file__).with_name("pictures.py")
LARGEST_BYTES = 120_000


def test_every_picture_of_the_console_is_made_anew(chromium, tmp_path):
    subprocess.run([sys.executable, str(COMMAND), "--folder", str(tmp_path)], check=True, timeout=300)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    texts = [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")]
    shown = {name for text in texts for name in re.findall(r"pictures/(console-[\w-]+\.webp)", text)}
    assert len(shown) > 4
    assert shown <= made.keys()
    assert {name for name, picture in made.items() if picture[8:12] != b"WEBP" or len(picture) > LARGEST_BYTES} == set()
