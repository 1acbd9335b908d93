"""Tests of the package kith; a package, so that its file names may occur in other folders too."""
