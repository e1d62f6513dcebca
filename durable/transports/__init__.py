"""Transports carry messages between instances. They do not know each other."""
