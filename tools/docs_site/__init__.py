"""The pages of docs/, the README and references of Python and C++ as one site: python -m tools.docs_site."""
