"""What can go wrong between the engine and its database, told apart by codes and never by message text."""

from __future__ import annotations


class StoreTrouble(Exception):
    """A statement did not do its work, or its answer was lost."""


class ConnectionTrouble(StoreTrouble):
    """The connection is gone; whether the last statement took effect is unknown."""


class TransientTrouble(StoreTrouble):
    """The database refused for the moment (deadlock, lock or statement timeout, busy, disk full); nothing was done."""
