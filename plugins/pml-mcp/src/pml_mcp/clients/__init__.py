"""The side of the gateway that clients talk to, in both eras of the protocol."""
