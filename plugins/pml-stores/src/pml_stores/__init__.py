"""What stores have in common: a whole store in memory, and what stores on a database do the same way.

Import the modules; this one is empty, so that a plugin that is only looked at imports nothing more.
"""
