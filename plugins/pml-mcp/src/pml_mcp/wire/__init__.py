"""What both sides share of the protocol: a client as servers see it, streams, the way back."""
