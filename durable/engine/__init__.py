"""The imperative shell: one verb per file. It performs what bodies ask for and writes it through the store."""
