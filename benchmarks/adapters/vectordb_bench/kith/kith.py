"""Kith in VectorDBBench: files in a folder in the place of a server.

Vectors are inserted into files of their own, optimize() builds one index of them, and each process that searches maps it.
"""

import os
import pathlib
import shutil
import uuid
from contextlib import contextmanager

import numpy as np

import kith

from ...filter import FilterOp
from ..api import VectorDB


class Kith(VectorDB):
    supported_filter_types = [FilterOp.NonFilter, FilterOp.NumGE, FilterOp.StrEqual]
    name = "Kith"
    thread_safe = True

    def __init__(
        self,
        dim,
        db_config,
        db_case_config,
        collection_name="vectors",
        drop_old=False,
        with_scalar_labels=False,
        **kwargs,
    ):
        self._dim, self._case, self._labelled = dim, db_case_config, with_scalar_labels
        self._folder = pathlib.Path(db_config["path"]) / collection_name
        self._index = self._ids = self._filter = self._allowed = None
        if drop_old:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def init(self):
        try:
            if (self._folder / "index.kith").exists():
                self._open()
            yield
        finally:
            self._index = self._allowed = None

    def _open(self):
        self._index = kith.load(self._folder / "index.kith")
        self._ids = np.load(self._folder / "ids.npy")
        self.prepare_filter(self._filter)

    def need_normalize_cosine(self):
        return False

    def insert_embeddings(self, embeddings, metadata, labels_data=None, tenant_labels_data=None, **kwargs):
        """A file a call, that appears whole: processes may insert side by side."""
        try:
            rows = np.asarray(embeddings, np.float32)
            labels = np.asarray(labels_data if labels_data is not None else [], np.str_)
            stem = self._folder / f"part-{os.getpid()}-{uuid.uuid4().hex}"
            with open(f"{stem}.tmp", "wb") as file:
                np.savez(file, rows=rows, ids=np.asarray(metadata, np.int64), labels=labels)
            os.replace(f"{stem}.tmp", f"{stem}.npz")
        except (OSError, ValueError) as error:
            return 0, error
        return len(rows), None

    def optimize(self, data_size=None):
        """Builds the index in the order of the ids, so that it is the same however it was inserted."""
        parts = [np.load(path) for path in sorted(self._folder.glob("part-*.npz"))]
        ids = np.concatenate([part["ids"] for part in parts])
        order = np.argsort(ids, kind="stable")
        rows = np.concatenate([part["rows"] for part in parts])[order]
        told = self._case.index_param()
        build = kith.BruteForce if told.pop("exact") else kith.Vamana
        build(rows, **told).save(self._folder / "index.kith")
        np.save(self._folder / "ids.npy", ids[order])
        if self._labelled:
            np.save(self._folder / "labels.npy", np.concatenate([part["labels"] for part in parts])[order])
        self._open()

    def prepare_filter(self, filters):
        """The rows that a case's filter lets pass, once for all of its searches."""
        self._filter, self._allowed = filters, None
        if filters is None or filters.type == FilterOp.NonFilter or self._ids is None:
            return
        if filters.type == FilterOp.NumGE:
            self._allowed = self._ids >= filters.int_value
        else:
            self._allowed = np.load(self._folder / "labels.npy") == filters.label_value

    def search_embedding(self, query, k=100, *args, **kwargs):
        found = self._index.search(
            np.asarray(query, np.float32), k, allowed=self._allowed, threads=1, **self._case.search_param()
        )
        rows = found.indices[0]
        return self._ids[rows[rows >= 0]].tolist()
