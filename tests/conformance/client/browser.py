"""Stands for a human with a browser who agrees to everything: opens an address and goes where it leads."""

from __future__ import annotations

import sys
from urllib.request import urlopen

if __name__ == "__main__":
    urlopen(sys.argv[1], timeout=30).close()
