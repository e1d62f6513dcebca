"""A small shop: the domain that the demo and the examples speak about."""
