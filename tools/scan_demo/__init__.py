"""The second scene of `make demo`: the normals of a scanned building, by the kith program, checked and drawn."""
