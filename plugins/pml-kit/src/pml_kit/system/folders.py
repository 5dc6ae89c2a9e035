"""How much a folder holds that code writes into."""

from __future__ import annotations

import os

from pml_hookspecs import FolderSize


def size_of(folder: str, most_files: int) -> FolderSize:
    """What is below ``folder``; follows no link. Blocks.

    Args:
        folder: Its path. One that is not there is empty.
        most_files: Looks at no more names than one beyond these, so that the work is bounded. A folder in it that
            cannot be looked into counts as that many, since it may hold anything.
    """
    size_bytes = files = 0
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    files += 1
                    if files > most_files:
                        return FolderSize(size_bytes, files)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        size_bytes += _bytes(entry)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return FolderSize(size_bytes, most_files + 1)
    return FolderSize(size_bytes, files)


def _bytes(entry: os.DirEntry[str]) -> int:
    try:
        about = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return 0
    return max(about.st_size, getattr(about, "st_blocks", 0) * 512)
