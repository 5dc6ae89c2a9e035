"""What holds for every test of the tree.

Run from the checkout, the folder ``pml_core/`` would be taken for the package of that name.
"""

import contextlib
import os

import pml_core  # noqa: F401 - imported first, so that the installed package is the one that tests see

pytest_plugins = ["pytester"]

# No limit of time for an example, nor for making one up: either would be a test of how busy the machine is. Chosen
# before any module of tests is imported, because what a test says of its own settings is added to these then.
with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, settings

    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("usual", patient)
    settings.register_profile("thorough", patient, max_examples=1000)
    settings.load_profile(os.environ.get("PML_HYPOTHESIS", "usual"))
