"""The vector store for LangChain: its standard tests, and what they leave out."""

from __future__ import annotations

import os
import pickle

import kith
import numpy as np
import pytest

pytest.importorskip("langchain_core")
suite = pytest.importorskip("langchain_tests.integration_tests.vectorstores")

from kith.compat.langchain import KithVectorStore  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.embeddings import DeterministicFakeEmbedding  # noqa: E402

EMBEDDING = DeterministicFakeEmbedding(size=12)
TEXTS = [f"text {i}" for i in range(60)]


@pytest.mark.anyio  # langchain-core brings anyio, whose plugin runs what is asynchronous
class TestStandard(suite.VectorStoreIntegrationTests):
    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    @pytest.fixture
    def vectorstore(self):
        yield KithVectorStore(self.get_embeddings())


@pytest.fixture
def store():
    return KithVectorStore.from_texts(TEXTS, EMBEDDING, [{"page": i, "odd": i % 2} for i in range(60)], ids=TEXTS)


def vectors():
    return np.array(EMBEDDING.embed_documents(TEXTS), np.float32)


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean", "sqeuclidean", "manhattan"])
def test_answers_are_those_of_the_exact_engine(metric):
    store = KithVectorStore.from_texts(TEXTS, EMBEDDING, metric=metric)
    truth = kith.knn(vectors(), np.array(EMBEDDING.embed_query("text 7"), np.float32), 9, metric)
    found = store.similarity_search_with_score("text 7", 9)
    assert [document.page_content for document, _ in found] == [TEXTS[i] for i in truth.indices[0]]
    assert [score for _, score in found] == truth.distances[0].tolist()
    by_vector = store.similarity_search_by_vector(EMBEDDING.embed_query("text 7"), 9)
    assert by_vector == [document for document, _ in found]
    assert len(store.similarity_search("text 7", 100)) == len(store) == 60


def test_filters(store):
    truth = kith.knn(vectors(), vectors()[:1], 5, "cosine", allowed=np.arange(60) % 2 == 1).indices[0].tolist()
    for filter in ({"odd": 1}, lambda document: document.metadata["odd"] == 1):
        assert [d.metadata["page"] for d in store.similarity_search("text 0", 5, filter=filter)] == truth
    assert store.similarity_search("text 0", 5, filter={"odd": 1, "page": 2}) == []
    assert store.similarity_search("text 0", 5, filter={"none": None}) == []
    retriever = store.as_retriever(search_kwargs={"k": 2, "filter": {"odd": 1}})
    assert [d.metadata["page"] for d in retriever.invoke("text 0")] == truth[:2]
    with pytest.raises(TypeError, match="filter"):
        store.similarity_search("text 0", filter=["odd"])


def test_relevance_and_diversity(store):
    scores = [score for _, score in store.similarity_search_with_relevance_scores("text 3", k=4)]
    assert scores == sorted(scores, reverse=True) and scores[0] == pytest.approx(1)
    product = KithVectorStore.from_texts(TEXTS, EMBEDDING, metric="inner_product")
    assert product.similarity_search_with_score("text 3", 1)[0][1] == -product._select_relevance_score_fn()(
        product.similarity_search_with_score("text 3", 1)[0][1]
    )
    with pytest.raises(kith.InvalidArgument, match="relevance scores"):
        KithVectorStore.from_texts(TEXTS, EMBEDDING, metric="manhattan").similarity_search_with_relevance_scores("x")
    nearest = store.similarity_search("text 3", 3)
    assert store.max_marginal_relevance_search("text 3", 3, fetch_k=30, lambda_mult=1.0) == nearest
    mixed = store.max_marginal_relevance_search("text 3", 3, fetch_k=60, lambda_mult=0.0)
    assert mixed[0] == nearest[0] and mixed != nearest
    few = store.max_marginal_relevance_search("text 3", 3, fetch_k=3, lambda_mult=0.0)
    assert sorted(d.id for d in few) == sorted(d.id for d in nearest)
    odd = store.max_marginal_relevance_search("text 3", 3, filter={"odd": 0})
    assert all(d.metadata["odd"] == 0 for d in odd) and len(odd) == 3
    assert KithVectorStore(EMBEDDING).max_marginal_relevance_search("x") == []


def test_changes(store):
    store.add_documents([Document(id="text 3", page_content="other", metadata={"page": 100})])
    assert len(store) == 60 and store.similarity_search("other", 1)[0].metadata == {"page": 100}
    store.similarity_search("other", 1)[0].metadata["page"] = 7  # a copy
    store.get_by_ids(["text 3"])[0].metadata["page"] = 7
    assert store.get_by_ids(["none", "text 3"])[0].metadata == {"page": 100}
    made = store.add_texts(["a", "b"])
    assert len(set(made)) == 2 and len(store) == 62
    assert store.delete() and len(store) == 0 and store.similarity_search("a") == []
    assert store.add_texts([]) == []


def test_refusals(store):
    with pytest.raises(kith.InvalidArgument, match="metadatas has 1 entries, there are 2"):
        store.add_texts(["a", "b"], [{}])
    with pytest.raises(kith.InvalidArgument, match="ids has 3 entries"):
        store.add_texts(["a", "b"], ids=["1", "2", "3"])
    with pytest.raises(kith.InvalidArgument, match="metric"):
        KithVectorStore(EMBEDDING, "l2")
    with pytest.raises(kith.InvalidArgument, match="k is 0"):
        store.similarity_search("a", 0)
    store._embedding = DeterministicFakeEmbedding(size=5)
    with pytest.raises(kith.InvalidArgument, match="5 values, those of the store 12"):
        store.add_texts(["a"])
    assert len(store) == 60


def test_saved_and_loaded(store, tmp_path):
    store.save(tmp_path / "store")
    again = KithVectorStore.load(tmp_path / "store", EMBEDDING)
    assert again.similarity_search_with_score("text 9", 60) == store.similarity_search_with_score("text 9", 60)
    KithVectorStore(EMBEDDING, "euclidean").save(tmp_path / "empty")
    empty = KithVectorStore.load(tmp_path / "empty", EMBEDDING)
    assert len(empty) == 0 and empty._metric == "euclidean"
    whole = (tmp_path / "store").read_bytes()
    for content in (b"", whole[: len(whole) // 2], pickle.dumps([1]), b"hello"):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(kith.IoError, match="bad"):
            KithVectorStore.load(tmp_path / "bad", EMBEDDING)
    with pytest.raises(kith.IoError, match="missing"):
        KithVectorStore.load(tmp_path / "missing", EMBEDDING)
    store.add_texts(["a"], [{"x": object()}])
    with pytest.raises(kith.InvalidArgument, match="JSON"):
        store.save(tmp_path / "store")
    assert (tmp_path / "store").read_bytes() == whole and sorted(os.listdir(tmp_path)) == ["bad", "empty", "store"]
