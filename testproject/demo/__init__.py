"""The demo: a real worker is killed in the middle of its work, and nothing is lost or done twice."""
