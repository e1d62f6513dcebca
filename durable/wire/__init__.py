"""What processes in other languages send and expect: names of keys and shapes, byte for byte.

Nothing here knows Django, a broker or what a message will be used for.
"""
