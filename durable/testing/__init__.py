"""What tests need to stand between the engine and the world. Nothing in production imports it."""
