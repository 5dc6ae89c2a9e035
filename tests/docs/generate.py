"""Write what the documentation takes from the code: settings, commands, clients, hooks, their examples, and plugins.

    python tests/docs/generate.py            # write the files anew
    python tests/docs/generate.py --check    # say which are outdated; exit status 1 if any is

What is written depends on the distributions of this repository only, all of which have to be installed, and neither on
the machine nor on the version of Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from made import DOCS, Made
from made_attacks import attacks
from made_cli import cli
from made_clients import clients
from made_hooks import examples, hooks
from made_plugins import plugins
from made_settings import settings

COMMAND = "python tests/docs/generate.py"
PAGES: dict[str, Made] = {
    "reference/settings.md": settings,
    "reference/cli.md": cli,
    "reference/hooks.md": hooks,
    "reference/plugins.md": plugins,
    "reference/clients.md": clients,
    "reference/attacks.md": attacks,
    "plugins/hooks.md": examples,
}
HEAD = f"<!-- Made by {COMMAND}; what is changed here is lost. -->\n\n"


def text_of(page: str) -> str:
    """What a page is to say."""
    return HEAD + PAGES[page]().rstrip() + "\n"


def outdated() -> list[str]:
    """Pages that say something else than the code."""
    return [page for page in PAGES if not (DOCS / page).is_file() or _read(page) != text_of(page)]


def _read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def main() -> int:
    """Write or check; the exit status."""
    if "--check" in sys.argv[1:]:
        for page in (late := outdated()):
            sys.stderr.write(f"docs/{page} is outdated; run: {COMMAND}\n")
        return 1 if late else 0
    for page in PAGES:
        (DOCS / page).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / page).write_text(text_of(page), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
