"""What calls have taught of tools, for whoever shows tools."""
