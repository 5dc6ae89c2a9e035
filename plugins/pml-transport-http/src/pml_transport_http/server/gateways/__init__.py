"""The other gateways on the same store: where they are, and sessions that go on when theirs has gone."""
