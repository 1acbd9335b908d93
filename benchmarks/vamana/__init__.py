"""Vamana beside hnswlib and faiss' HNSW: queries a second at equal recall, build time, memory."""
