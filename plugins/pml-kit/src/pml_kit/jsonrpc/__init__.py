"""JSON-RPC over whatever carries bytes: one end of a connection, and what it is made of."""
