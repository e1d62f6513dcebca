"""One module for each command: parse, call, print."""
