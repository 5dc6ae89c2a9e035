"""Notebook cells on real folders: ``cell_execute`` and its companions, and the command ``pml notebook``."""
