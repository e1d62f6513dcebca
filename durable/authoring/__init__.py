"""What users write against: decorators, references, the context, and how values become JSON.

It describes workflows and steps; it never runs one, and knows neither Django nor a database.
"""
