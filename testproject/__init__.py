"""A small Django project that uses durable: for the demo, for trying things out and for the tests."""
