"""Lets servers judge the arguments of their tools, and says beside their errors what the input schema forbids."""
