"""Meta-tools for agents that write code: ``run_code`` and ``describe_code_tools``."""
