"""The deterministic turn: from a history and an operation to an answer, or to "must be done".

This room runs bodies and answers them from history. It performs nothing itself: what must be done goes to the shell.
"""
