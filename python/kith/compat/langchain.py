"""A vector store of LangChain's, searched exactly by Kith: ``pip install langchain-core``.

>>> from kith.compat.langchain import KithVectorStore
>>> from langchain_core.embeddings import DeterministicFakeEmbedding
>>> store = KithVectorStore(DeterministicFakeEmbedding(size=8))
>>> store.add_texts(["a tree", "a graph"], [{"page": 1}, {"page": 2}], ids=["1", "2"])
['1', '2']
>>> [document.page_content for document in store.similarity_search("a graph", k=1)]
['a graph']
>>> [document.id for document in store.similarity_search("a graph", k=2, filter={"page": 1})]
['1']
"""

from __future__ import annotations

import json
import os
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
except ImportError as error:  # pragma: no cover
    raise ImportError("kith.compat.langchain needs langchain-core; run: pip install langchain-core") from error

from .._errors import InvalidArgument, IoError
from .._index import METRICS, BruteForce, _integer, name_of
from .._whole import whole_file

__all__ = ["KithVectorStore"]

#: Which documents may be found: a function of a document, or values that its metadata must have.
Filter = Callable[[Document], bool] | Mapping[str, Any] | None
Vectors = NDArray[np.float32]


class KithVectorStore(VectorStore):  # type: ignore[misc,unused-ignore]
    """Documents and their embeddings (float32) in memory, searched exactly by :class:`kith.BruteForce`.

    The index is built by the first search after a change. Any number of threads may use one store.

    Args:
        embedding: what makes vectors of texts.
        metric: as for :func:`kith.knn`. Scores of answers are distances in this metric: the lower, the nearer.
    """

    def __init__(self, embedding: Embeddings, metric: str = "cosine") -> None:
        self._embedding = embedding
        self._metric = name_of(metric, "metric", METRICS)
        BruteForce(np.ones((1, 1), np.float32), metric=metric)  # refuses one that is not known
        self._lock = threading.RLock()
        self._documents: dict[str, tuple[Document, Vectors]] = {}
        self._built: tuple[BruteForce, list[tuple[Document, Vectors]]] | None = None

    @property
    def embeddings(self) -> Embeddings:
        """What makes vectors of texts."""
        return self._embedding

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._documents)

    def add_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None, *, ids: Any = None
    ) -> list[str]:
        """Embeds texts and adds them; one whose id is there takes the place of the older. Returns their ids.

        Args:
            texts: what is embedded.
            metadatas: one for each text, or None.
            ids: one for each text, None for one that is made up; or None for all.

        Raises:
            InvalidArgument: other numbers of metadatas or ids, embeddings of another length than the store's.
        """
        texts = list(texts)
        for what, given in (("metadatas", metadatas), ("ids", ids)):
            if given is not None and len(given) != len(texts):
                raise InvalidArgument(
                    f"{what} has {len(given)} entries, there are {len(texts)} texts; give one for each"
                )
        return self._add(texts, self._embedding.embed_documents(texts), metadatas, ids)

    def _add(self, texts: list[str], vectors: Any, metadatas: Any, ids: Any) -> list[str]:
        if not texts:
            return []
        rows = np.asarray(vectors, np.float32)
        if rows.ndim != 2 or len(rows) != len(texts):
            raise InvalidArgument(
                f"the embeddings of {len(texts)} texts have the shape {rows.shape}; one each is needed"
            )
        names = [str(uuid4()) if name is None else name for name in (ids or [None] * len(texts))]
        with self._lock:
            dim = next((len(vector) for _, vector in self._documents.values()), rows.shape[1])
            if rows.shape[1] != dim:
                raise InvalidArgument(f"embeddings have {rows.shape[1]} values, those of the store {dim}")
            for number, name in enumerate(names):
                metadata = dict(metadatas[number]) if metadatas else {}
                document = Document(id=name, page_content=texts[number], metadata=metadata)
                self._documents[name] = document, rows[number]
            self._built = None
        return names

    def delete(self, ids: list[str] | None = None) -> bool:
        """Removes documents, all for None; ids that are not there are passed over."""
        with self._lock:
            for name in list(self._documents) if ids is None else ids:
                self._documents.pop(name, None)
            self._built = None
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents of these ids, without those that are not there."""
        with self._lock:
            return [_copy(self._documents[name][0]) for name in ids if name in self._documents]

    def _nearest(self, vector: Any, k: int, filter: Filter) -> list[tuple[Document, float, Vectors]]:
        count = _integer(k, "k")
        if count < 1:
            raise InvalidArgument(f"k is {count}; use at least 1")
        with self._lock:
            if not self._documents:
                return []
            if self._built is None:
                held = list(self._documents.values())
                self._built = BruteForce(np.stack([vector for _, vector in held]), metric=self._metric), held
            index, held = self._built
        allowed = None if filter is None else np.array([_passes(document, filter) for document, _ in held], np.bool_)
        query = np.asarray(vector, np.float32)
        distances, indices = index.search(query, min(count, len(held)), allowed=allowed)
        found = zip(indices.ravel().tolist(), distances.ravel().tolist(), strict=True)
        return [(_copy(held[row][0]), distance, held[row][1]) for row, distance in found if row >= 0]

    def similarity_search(self, query: str, k: int = 4, filter: Filter = None) -> list[Document]:
        """The k documents nearest to a text, among those that ``filter`` lets pass: a function of a document, or a
        mapping of values that its metadata must have."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter = None
    ) -> list[tuple[Document, float]]:
        """The same with their distances."""
        return self.similarity_search_with_score_by_vector(self._embedding.embed_query(query), k, filter)

    def similarity_search_by_vector(self, embedding: Any, k: int = 4, filter: Filter = None) -> list[Document]:
        """The k documents nearest to a vector."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, filter)]

    def similarity_search_with_score_by_vector(
        self, embedding: Any, k: int = 4, filter: Filter = None
    ) -> list[tuple[Document, float]]:
        """The same with their distances."""
        return [(document, distance) for document, distance, _ in self._nearest(embedding, k, filter)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: Filter = None
    ) -> list[Document]:
        """Of the ``fetch_k`` nearest documents k that differ among themselves (Carbonell and Goldstein 1998);
        ``lambda_mult`` 1 asks for the nearest, 0 for the most different."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter)

    def max_marginal_relevance_search_by_vector(
        self, embedding: Any, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: Filter = None
    ) -> list[Document]:
        """The same for a vector."""
        found = self._nearest(embedding, max(_integer(fetch_k, "fetch_k"), k), filter)
        vectors = [vector for _, _, vector in found]
        chosen = maximal_marginal_relevance(np.asarray(embedding, np.float32), vectors, lambda_mult, k) if found else []
        return [found[number][0] for number in chosen]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        if self._metric == "cosine":
            return lambda distance: 1 - distance
        if self._metric == "inner_product":
            return lambda distance: -distance
        raise InvalidArgument(f"there are relevance scores for cosine and inner_product; the metric is {self._metric}")

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        metric: str = "cosine",
    ) -> KithVectorStore:
        """A store of some texts; see the class and :meth:`add_texts`."""
        store = cls(embedding, metric)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes documents and vectors to one file, whole or not at all.

        Raises:
            InvalidArgument: metadata that JSON cannot hold.
            IoError: the file cannot be written.
        """
        with self._lock:
            held = list(self._documents.values())
        try:
            entries = [[document.id, document.page_content, document.metadata] for document, _ in held]
            text = json.dumps({"metric": self._metric, "documents": entries}).encode()
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"metadata that JSON cannot hold: {error}") from None
        vectors = np.stack([vector for _, vector in held]) if held else np.empty((0, 0), np.float32)
        try:
            with whole_file(os.fspath(path)) as temporary, open(temporary, "wb") as file:
                np.savez(file, vectors=vectors, store=np.frombuffer(text, np.uint8))
        except OSError as error:
            raise IoError(f"cannot write '{os.fspath(path)}': {error.strerror or error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str], embedding: Embeddings) -> KithVectorStore:
        """A store that :meth:`save` has written, with what makes vectors of queries.

        Raises:
            IoError: the file is missing, truncated, corrupt or foreign.
        """
        name = os.fspath(path)
        try:
            with open(name, "rb") as file, np.load(file, allow_pickle=False) as held:
                vectors, told = held["vectors"], json.loads(held["store"].tobytes())
            store = cls(embedding, told["metric"])
            ids, texts, metadatas = ([entry[part] for entry in told["documents"]] for part in range(3))
            store._add(texts, vectors, metadatas, ids)
        except OSError as error:
            raise IoError(f"cannot read '{name}': {error.strerror or error}") from None
        except (ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise IoError(f"'{name}' is no saved store, or damaged: {error}") from None
        return store


def _copy(document: Document) -> Document:
    """Whoever is given it may change it."""
    return Document(id=document.id, page_content=document.page_content, metadata=dict(document.metadata))


def _passes(document: Document, filter: Filter) -> bool:
    if callable(filter):
        return bool(filter(_copy(document)))
    if not isinstance(filter, Mapping):
        raise TypeError(f"filter: a {type(filter).__name__}; use a function of a document, or a mapping of metadata")
    return all(name in document.metadata and document.metadata[name] == value for name, value in filter.items())
