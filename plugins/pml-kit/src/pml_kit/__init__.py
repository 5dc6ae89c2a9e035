"""What plugins share and the contract does not say. No plugin: nothing here is registered."""
