"""PML plugin ``oauth``: people log in at an authorization server, and come with its access tokens."""
