"""A vector store of LlamaIndex: exact, in memory, saved to one file. Needs llama-index-core.

>>> from llama_index.core.schema import TextNode
>>> from llama_index.core.vector_stores.types import VectorStoreQuery
>>> store = KithVectorStore()
>>> added = store.add([TextNode(id_="a", text="cat", embedding=[1.0, 0.0]), TextNode(id_="b", text="kite", embedding=[0.0, 1.0])])
>>> found = store.query(VectorStoreQuery([0.6, 0.8], similarity_top_k=1))
>>> found.ids, [node.get_content() for node in found.nodes]
(['b'], ['kite'])
"""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
    from llama_index.core.schema import BaseNode
    from llama_index.core.storage.docstore.utils import doc_to_json, json_to_doc
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import build_metadata_filter_fn
except ImportError as error:  # pragma: no cover
    raise ImportError("kith.compat.llama_index needs llama-index-core; run: pip install llama-index-core") from error

from .._errors import InvalidArgument, IoError
from .._index import METRICS, BruteForce, _integer, name_of
from .._whole import whole_file

__all__ = ["KithVectorStore"]

_MMR_PREFETCH = 4  # candidates for each node asked for, as LlamaIndex's own stores have it
Vectors = NDArray[np.float32]


class KithVectorStore(BasePydanticVectorStore):  # type: ignore[misc,unused-ignore]
    """Nodes and their embeddings (float32) in memory, searched exactly by :class:`kith.BruteForce`.

    The index is built by the first search after a change. Any number of threads may use one store. Of LlamaIndex's modes of
    a query there are ``DEFAULT`` and ``MMR``; filters are LlamaIndex's own, with all of their operators and conditions.

    Args:
        metric: as for :func:`kith.knn`. Similarities of answers: for ``"cosine"`` 1 minus the distance, for others its
            negative (of ``"inner_product"`` the inner product itself). The higher, the nearer.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    metric: str = "cosine"

    _lock: Any = PrivateAttr()
    _nodes: dict[str, tuple[Any, Vectors]] = PrivateAttr()
    _built: tuple[BruteForce, list[tuple[Any, Vectors]]] | None = PrivateAttr()

    def __init__(self, metric: str = "cosine") -> None:
        BruteForce(
            np.ones((1, 1), np.float32), metric=name_of(metric, "metric", METRICS)
        )  # refuses one that is not known
        super().__init__(metric=metric)
        self._lock, self._nodes, self._built = threading.RLock(), {}, None

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex knows the class."""
        return "KithVectorStore"

    @property
    def client(self) -> BruteForce | None:
        """The index over all nodes, or None where there are none."""
        built = self._index()
        return None if built is None else built[0]

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self._nodes)

    def __bool__(self) -> bool:
        """True: LlamaIndex writes ``store or another``, and means no store, not one without nodes."""
        return True

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Adds nodes that have embeddings; one whose id is there takes the place of the older. Returns their ids.

        Raises:
            InvalidArgument: embeddings of another length than the store's.
            ValueError: a node without an embedding.
        """
        rows = [np.array(node.get_embedding(), np.float32) for node in nodes]
        with self._lock:
            dim = next((len(vector) for _, vector in self._nodes.values()), len(rows[0]) if rows else 0)
            for number, row in enumerate(rows):
                if row.shape != (dim,) or dim == 0:
                    raise InvalidArgument(
                        f"the embedding of node {number} has the shape {row.shape}, those of the store ({dim},)"
                    )
            for node, row in zip(nodes, rows, strict=True):
                self._nodes[node.node_id] = _copy(node), row
            self._built = None
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Removes the nodes of a document."""
        self._remove(lambda node: node.ref_doc_id == ref_doc_id)

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Removes the nodes of these ids that the filters let pass; None for any."""
        self._remove(_passing(node_ids, None, filters))

    def clear(self) -> None:
        """Removes all nodes."""
        self._remove(lambda node: True)

    def _remove(self, gone: Any) -> None:
        with self._lock:
            self._nodes = {name: held for name, held in self._nodes.items() if not gone(held[0])}
            self._built = None

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes of these ids that the filters let pass, with their embeddings; None for any."""
        passes = _passing(node_ids, None, filters)
        with self._lock:
            return [_copy(node, vector) for node, vector in self._nodes.values() if passes(node)]

    def get(self, text_id: str) -> list[float]:
        """The embedding of a node.

        Raises:
            KeyError: there is none of that id.
        """
        embedding: list[float] = self._nodes[text_id][1].tolist()
        return embedding

    def _index(self) -> tuple[BruteForce, list[tuple[Any, Vectors]]] | None:
        with self._lock:
            if self._built is None and self._nodes:
                held = list(self._nodes.values())
                self._built = BruteForce(np.stack([vector for _, vector in held]), metric=self.metric), held
            return self._built

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The ``similarity_top_k`` nodes nearest to ``query_embedding``, of those that ``node_ids``, ``doc_ids`` and
        ``filters`` let pass. ``MMR`` takes, of four times as many, those that differ among themselves (Carbonell and
        Goldstein 1998): ``mmr_threshold`` 1 asks for the nearest, 0 for the most different; ``mmr_prefetch_factor=`` for
        another number than four.

        Raises:
            InvalidArgument: another mode, no embedding or one of another length, ``similarity_top_k`` below 1.
        """
        mmr = query.mode == VectorStoreQueryMode.MMR
        if not mmr and query.mode != VectorStoreQueryMode.DEFAULT:
            raise InvalidArgument(f"mode {query.mode.value!r} is not there; use 'default' or 'mmr'")
        if query.query_embedding is None:
            raise InvalidArgument("the query has no embedding; the store searches vectors only")
        count = _integer(query.similarity_top_k, "similarity_top_k")
        if count < 1:
            raise InvalidArgument(f"similarity_top_k is {count}; use at least 1")
        built = self._index()
        if built is None:
            return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])
        index, held = built
        allowed = None
        if query.node_ids is not None or query.doc_ids is not None or query.filters is not None:
            passes = _passing(query.node_ids, query.doc_ids, query.filters)
            allowed = np.array([passes(node) for node, _ in held], np.bool_)
        wanted = count if not mmr else int(count * kwargs.get("mmr_prefetch_factor", _MMR_PREFETCH))
        vector = np.asarray(query.query_embedding, np.float32)
        distances, indices = index.search(vector, min(max(wanted, count), len(held)), allowed=allowed)
        found = [(row, far) for row, far in zip(indices[0].tolist(), distances[0].tolist(), strict=True) if row >= 0]
        if mmr and found:
            vectors = [held[row][1].tolist() for row, _ in found]
            _, chosen = get_top_k_mmr_embeddings(
                vector.tolist(), vectors, similarity_top_k=count, mmr_threshold=query.mmr_threshold
            )
            found = [found[number] for number in chosen]
        bias = 1.0 if self.metric == "cosine" else 0.0
        return VectorStoreQueryResult(
            nodes=[_copy(held[row][0]) for row, _ in found],
            similarities=[bias - far for _, far in found],
            ids=[held[row][0].node_id for row, _ in found],
        )

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Writes nodes and vectors to one file, whole or not at all (on a local disk; elsewhere as ``fs`` does it).

        Raises:
            InvalidArgument: metadata that JSON cannot hold.
            IoError: the file cannot be written.
        """
        with self._lock:
            held = list(self._nodes.values())
        try:
            text = json.dumps({"metric": self.metric, "nodes": [doc_to_json(node) for node, _ in held]}).encode()
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"metadata that JSON cannot hold: {error}") from None
        vectors = np.stack([vector for _, vector in held]) if held else np.empty((0, 0), np.float32)
        described = np.frombuffer(text, np.uint8)
        path = os.fspath(persist_path)
        try:
            if _is_local(fs):
                os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)  # as LlamaIndex's stores do
                with whole_file(path) as temporary, open(temporary, "wb") as file:
                    np.savez(file, vectors=vectors, store=described)
            else:
                made = io.BytesIO()
                np.savez(made, vectors=vectors, store=described)
                fs.pipe_file(path, made.getvalue())
        except OSError as error:
            raise IoError(f"cannot write '{path}': {error.strerror or error}") from None

    @classmethod
    def from_persist_path(cls, persist_path: str, fs: Any = None) -> KithVectorStore:
        """A store that :meth:`persist` has written.

        Raises:
            IoError: the file is missing, truncated, corrupt or foreign.
        """
        path = os.fspath(persist_path)
        try:
            with (
                open(path, "rb") if _is_local(fs) else fs.open(path, "rb") as file,
                np.load(file, allow_pickle=False) as npz,
            ):
                vectors, told = npz["vectors"], json.loads(npz["store"].tobytes())
            store = cls(told["metric"])
            for entry, vector in zip(told["nodes"], vectors, strict=True):
                node = json_to_doc(entry)
                store._nodes[node.node_id] = node, np.asarray(vector, np.float32)
        except OSError as error:
            raise IoError(f"cannot read '{path}': {error.strerror or error}") from None
        except (ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise IoError(f"'{path}' is no saved store, or damaged: {error}") from None
        return store

    @classmethod
    def from_persist_dir(
        cls, persist_dir: str = "./storage", namespace: str = "default", fs: Any = None
    ) -> KithVectorStore:
        """The same where LlamaIndex's ``StorageContext.persist`` has put it."""
        name = f"{namespace}__vector_store.json"
        return cls.from_persist_path(f"{persist_dir.rstrip('/')}/{name}", fs)


def _copy(node: Any, vector: Vectors | None = None) -> Any:
    """Whoever is given it may change it. The embedding is kept apart."""
    copied = node.model_copy(deep=True)
    copied.embedding = None if vector is None else vector.tolist()
    return copied


def _is_local(fs: Any) -> bool:
    protocol = getattr(fs, "protocol", "file")
    return fs is None or "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def _passing(node_ids: Any, doc_ids: Any, filters: MetadataFilters | None) -> Any:
    """Whether a node may be found."""
    nodes, documents = set(node_ids or ()), set(doc_ids or ())  # LlamaIndex means any by an empty list, too

    def passes(node: Any) -> bool:
        if nodes and node.node_id not in nodes:
            return False
        if documents and node.ref_doc_id not in documents:
            return False
        return filters is None or _match(filters, node.metadata)

    return passes


def _match(filters: MetadataFilters, metadata: dict[str, Any]) -> bool:
    """LlamaIndex's evaluation of a filter, and filters within filters, which it leaves out."""
    matches = [
        _match(each, metadata)
        if isinstance(each, MetadataFilters)
        else build_metadata_filter_fn(lambda _: metadata, MetadataFilters(filters=[each]))("")
        for each in filters.filters
    ]
    if not matches or filters.condition in (None, FilterCondition.AND):
        return all(matches)
    return any(matches) if filters.condition == FilterCondition.OR else not any(matches)
