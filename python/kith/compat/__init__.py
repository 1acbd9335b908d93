"""Classes of other libraries under their names, answered by Kith: ``from kith.compat import faiss``."""
