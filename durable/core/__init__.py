"""Rules that need nothing but the standard library: errors, states, time, retries and identities.

Nothing here reads a file, a socket or a database, and nothing here knows Django.
"""
