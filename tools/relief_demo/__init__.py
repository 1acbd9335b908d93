"""The relief demo: see __main__.py."""
