"""Embedders for PML's search: a model in a folder, or an OpenAI-compatible endpoint. Nothing is downloaded."""
