"""The one store: verbs as SQL text over a small seam. It returns plain records and knows no engine."""
