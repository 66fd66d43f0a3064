"""Loaders of clips and images; the root of the package exports them."""
