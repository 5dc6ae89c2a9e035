"""Tools that ask what ran: ``list_recent_executions`` and ``get_execution_result``."""
