"""Measurements of speed and load: `python -m benchmarks`, or `tox -e bench`. Never a part of the tests."""
