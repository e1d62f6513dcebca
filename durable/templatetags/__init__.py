"""Template tags, where Django looks for them."""
