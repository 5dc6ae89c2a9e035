"""Contract tests and fixtures for PML plugins.

Subclass the contract of your kind, give it your driver as a fixture, and pytest runs the same tests that the
first-party drivers pass. ``pytest --pml-contract`` runs them over whatever is installed.
"""
