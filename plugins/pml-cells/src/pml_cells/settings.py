"""The settings, ``[plugins.cells]``."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import FolderSize, setting

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.cells]``."""

    folder: str = setting("", "Folder of all sessions. Empty: notebooks in the folder PML_HOME, or in ~/.pml.")
    listed: bool = setting(False, "Whether the meta-tool modes list the tools; unlisted, they can be called by name.")
    max_timeout_s: float = setting(3600.0, "Longest time that a cell may be given [s].", ge=0.05, le=604800)
    max_cells: int = setting(500, "Cells of one notebook.", ge=2, le=100_000)
    max_cell_bytes: int = setting(1 << 20, "Size of one cell [bytes].", ge=1024, le=1 << 28)
    max_sessions: int = setting(10_000, "Notebooks of all principals together.", ge=1, le=1_000_000)
    max_principal_sessions: int = setting(500, "Notebooks of one principal.", ge=1, le=1_000_000)
    max_notebook_bytes: int = setting(256 * MIB, "What the folder of one notebook may hold [bytes].", ge=65536)
    max_notebook_files: int = setting(5000, "Files and folders in the folder of one notebook.", ge=16, le=1_000_000)
    max_principal_bytes: int = setting(2048 * MIB, "What all folders of one principal may hold [bytes].", ge=65536)
    max_principal_files: int = setting(50_000, "Files and folders of one principal.", ge=16, le=10_000_000)

    def room(self, others: FolderSize) -> FolderSize:
        """What the folder of a notebook may hold where its owner's ``others`` hold so much."""
        return FolderSize(
            max(min(self.max_notebook_bytes, self.max_principal_bytes - others.bytes), 0),
            max(min(self.max_notebook_files, self.max_principal_files - others.files), 0),
        )
