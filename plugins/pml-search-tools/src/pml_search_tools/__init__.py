"""The meta-tools ``search_tools`` and ``call_tool``: find a tool that is not listed, and call it."""
