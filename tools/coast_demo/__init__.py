"""The first scene of `make demo`: where is the nearest coast? Answered by the kith program, checked, drawn."""
