"""The rig: databases, real processes and patience for tests. Tests use its fixtures."""
