"""What sandboxes share: nested calls, the bridge to a child process, typed stubs, and the kernel jail.

A library for sandbox plugins, not a plugin. Import from its modules: :mod:`.calls`, :mod:`.inputs` and
:mod:`.outcomes` for any sandbox, :mod:`.bridge` for one that runs code in a child process, :mod:`.stubs` for types of
tools, :mod:`.jail` for the walls.
"""
