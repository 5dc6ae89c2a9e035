"""Run from the checkout, the folder ``pml_core/`` would be taken for the package of that name."""

import pml_core  # noqa: F401 - imported first, so that the installed package is the one that tests see

pytest_plugins = ["pytester"]
