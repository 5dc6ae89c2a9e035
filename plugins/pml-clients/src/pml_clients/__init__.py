"""Files that people keep: those of MCP clients read, and JSON, TOML and YAML changed with all else as it stands."""
