"""Every type of index of the library has its class here."""

import inspect

import kith
from kith import _kith
from kith._index import CLASSES


def test_every_index_type_has_a_class():
    assert set(CLASSES) == set(_kith.index_types())
    for name, its in CLASSES.items():
        assert getattr(kith, its.__name__) is its
        assert name in inspect.getdoc(kith.knn)
