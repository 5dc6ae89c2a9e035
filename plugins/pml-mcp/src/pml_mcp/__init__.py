"""Both sides of the protocol: the clients that the gateway serves, and the servers that it asks for them."""
