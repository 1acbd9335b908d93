"""The vector store for LlamaIndex: the contract of its base class, against the exact engine."""

from __future__ import annotations

import asyncio
import inspect
import json
import os

import kith
import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from kith.compat.llama_index import KithVectorStore
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import ImageNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

X = np.random.default_rng(5).standard_normal((60, 12)).astype(np.float32)
Q = X[7] + np.float32(0.1)
DEFAULT, MMR = VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR


def nodes(count=60):
    made = []
    for i in range(count):
        node = TextNode(id_=f"n{i}", text=f"text {i}", embedding=X[i].tolist(), metadata={"page": i, "odd": i % 2})
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"doc{i // 10}")
        made.append(node)
    return made


@pytest.fixture
def store():
    store = KithVectorStore()
    assert store.add(nodes()) == [f"n{i}" for i in range(60)]
    return store


def ask(store, k=5, mode=DEFAULT, **more):
    return store.query(VectorStoreQuery(Q.tolist(), similarity_top_k=k, mode=mode, **more))


def rows(result):
    return [int(name[1:]) for name in result.ids]


def test_every_method_of_the_base_class_is_there():
    ours = vars(KithVectorStore)
    asked = {
        name
        for name, what in vars(BasePydanticVectorStore).items()
        if inspect.isfunction(what) and not name.startswith("_") and not inspect.iscoroutinefunction(what)
    }
    assert {"add", "delete", "delete_nodes", "get_nodes", "clear", "query", "persist"} <= asked <= set(ours)
    for name in asked:
        expected = [p for p in inspect.signature(vars(BasePydanticVectorStore)[name]).parameters if "kwargs" not in p]
        assert [p for p in inspect.signature(ours[name]).parameters if "kwargs" not in p] == expected


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean", "sqeuclidean", "manhattan"])
def test_answers_are_those_of_the_exact_engine(metric):
    store = KithVectorStore(metric)
    store.add(nodes())
    truth = kith.knn(X, Q, 9, metric)
    found = ask(store, 9)
    assert rows(found) == truth.indices[0].tolist()
    bias = 1 if metric == "cosine" else 0
    assert found.similarities == [bias - d for d in truth.distances[0].tolist()]
    assert found.similarities == sorted(found.similarities, reverse=True)
    assert [node.get_content() for node in found.nodes] == [f"text {i}" for i in truth.indices[0]]
    assert len(ask(store, 100).ids) == len(store) == 60
    assert store.client.metric == metric


def flt(key, value, operator=FilterOperator.EQ):
    return MetadataFilter(key=key, value=value, operator=operator)


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        (MetadataFilters(filters=[flt("odd", 1)]), lambda i: i % 2),
        (MetadataFilters(filters=[flt("odd", 1), flt("page", 40, FilterOperator.GTE)]), lambda i: i % 2 and i >= 40),
        (MetadataFilters(filters=[flt("page", 3), flt("page", 50, FilterOperator.GT)], condition="or"), lambda i: i == 3 or i > 50),
        (MetadataFilters(filters=[flt("odd", 1)], condition=FilterCondition.NOT), lambda i: not i % 2),
        (MetadataFilters(filters=[flt("page", [1, 2, 5], FilterOperator.IN)]), lambda i: i in (1, 2, 5)),
        (MetadataFilters(filters=[flt("gone", None, FilterOperator.IS_EMPTY), flt("page", 9, FilterOperator.LT)]), lambda i: i < 9),
        (MetadataFilters(filters=[]), lambda i: True),
    ],
)  # fmt: skip
def test_filters(store, filters, passes):
    allowed = np.array([bool(passes(i)) for i in range(60)])
    truth = [i for i in kith.knn(X, Q, 5, "cosine", allowed=allowed).indices[0].tolist() if i >= 0]
    assert rows(ask(store, filters=filters)) == truth
    simple = SimpleVectorStore()  # LlamaIndex's own, which answers the same
    simple.add(nodes())
    assert rows(ask(simple, filters=filters)) == truth
    assert sorted(int(n.node_id[1:]) for n in store.get_nodes(filters=filters)) == np.flatnonzero(allowed).tolist()
    store.delete_nodes(filters=filters)
    assert len(store) == 60 - allowed.sum()


def test_filters_within_filters(store):
    either = MetadataFilters(filters=[flt("page", 3), flt("page", 8)], condition="or")
    assert rows(ask(store, filters=MetadataFilters(filters=[either, flt("odd", 1)]))) == [3]


def test_some_nodes_and_some_documents(store):
    assert sorted(rows(ask(store, 9, node_ids=["n4", "n9", "none"]))) == [4, 9]
    assert sorted(rows(ask(store, 20, doc_ids=["doc2"]))) == list(range(20, 30))
    assert rows(ask(store, 9, node_ids=["n21"], doc_ids=["doc2"])) == [21]
    assert rows(ask(store, 9, node_ids=[], doc_ids=[])) == rows(ask(store, 9))  # as its retriever asks


def test_changes(store):
    store.delete("doc0")
    assert len(store) == 50 and min(rows(ask(store, 60))) == 10
    store.delete_nodes(["n10", "none"])
    assert len(store) == 49 and not store.get_nodes(["n10"])
    replaced = TextNode(id_="n11", text="other", embedding=Q.tolist())
    store.add([replaced])
    assert len(store) == 49 and ask(store, 1).nodes[0].get_content() == "other"
    replaced.text = "changed by its owner"
    given = ask(store, 1).nodes[0]
    given.metadata["page"] = "changed by its reader"
    assert ask(store, 1).nodes[0].metadata == {} and ask(store, 1).nodes[0].get_content() == "other"
    assert store.get("n11") == Q.tolist() == store.get_nodes(["n11"])[0].embedding
    store.clear()
    assert len(store) == 0 and ask(store).ids == [] and store.client is None and store.add([]) == []


def test_mmr(store):
    near = ask(store, 5)
    assert rows(ask(store, 5, MMR, mmr_threshold=1.0)) == rows(near)
    varied = rows(ask(store, 5, MMR, mmr_threshold=0.3))
    assert varied[0] == rows(near)[0] and varied != rows(near) and set(varied) <= set(rows(ask(store, 20)))
    fewer = store.query(
        VectorStoreQuery(Q.tolist(), similarity_top_k=5, mode=MMR, mmr_threshold=0.3), mmr_prefetch_factor=1
    )
    assert sorted(rows(fewer)) == sorted(rows(near))


def test_refusals(store):
    for k in (0, -1):
        with pytest.raises(kith.InvalidArgument, match="similarity_top_k"):
            ask(store, k)
    with pytest.raises(kith.InvalidArgument, match="'hybrid'"):
        ask(store, 5, VectorStoreQueryMode.HYBRID)
    with pytest.raises(kith.InvalidArgument, match="no embedding"):
        store.query(VectorStoreQuery(query_str="text"))
    with pytest.raises(kith.InvalidArgument, match="dimension"):
        store.query(VectorStoreQuery([1.0, 2.0]))
    with pytest.raises(kith.InvalidArgument, match="node 1"):
        store.add([nodes()[0], TextNode(id_="new", embedding=[1.0])])
    with pytest.raises(ValueError, match="embedding"):
        store.add([TextNode(id_="new", text="none")])
    with pytest.raises(kith.InvalidArgument, match="l2"):
        KithVectorStore("l2")
    assert len(store) == 60


def test_saved_and_loaded(store, tmp_path):
    path = str(tmp_path / "new" / "store.json")
    store.add([ImageNode(id_="n60", image="AAAA", embedding=X[3].tolist())])
    store.persist(path)
    again = KithVectorStore.from_persist_path(path)
    assert again.metric == "cosine" and ask(again, 9) == ask(store, 9)
    assert again.get_nodes() == store.get_nodes() and isinstance(again.get_nodes(["n60"])[0], ImageNode)
    again.delete("doc5")
    assert len(again) == 51
    KithVectorStore("euclidean").persist(path)
    assert KithVectorStore.from_persist_path(path).metric == "euclidean"
    assert os.listdir(tmp_path / "new") == ["store.json"]
    with pytest.raises(kith.IoError, match="none.json"):
        KithVectorStore.from_persist_path(str(tmp_path / "none.json"))
    store.persist(path)
    whole = (tmp_path / "new/store.json").read_bytes()
    for at in range(0, len(whole), 97):
        (tmp_path / "bad").write_bytes(whole[:at])
        with pytest.raises(kith.IoError, match="bad"):
            KithVectorStore.from_persist_path(str(tmp_path / "bad"))
    store.add([TextNode(id_="bad", metadata={"x": {1, 2}}, embedding=X[0].tolist())])
    with pytest.raises((kith.InvalidArgument, ValueError), match="serial|JSON"):
        store.persist(path)
    assert (tmp_path / "new/store.json").read_bytes() == whole


def test_another_file_system(store):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    store.persist("/kith/store.json", memory)
    assert ask(KithVectorStore.from_persist_path("/kith/store.json", memory)) == ask(store)
    with pytest.raises(kith.IoError, match="none"):
        KithVectorStore.from_persist_path("/kith/none.json", memory)


def test_in_an_index_of_llama_index(tmp_path):
    """Through their own classes: indexing, retrieving, removing a document, storing and loading."""

    class Spread(MockEmbedding):
        def _get_text_embedding(self, text):
            return X[int(text.split()[-1])].tolist()

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, text):
            return self._get_text_embedding(text)

    context = StorageContext.from_defaults(vector_store=KithVectorStore())
    plain = nodes()
    for node in plain:
        node.embedding = None
    index = VectorStoreIndex(plain, storage_context=context, embed_model=Spread(embed_dim=12))
    found = index.as_retriever(similarity_top_k=3).retrieve("text 7")
    truth = kith.knn(X, X[7], 3, "cosine")
    assert [each.node.node_id for each in found] == [f"n{i}" for i in truth.indices[0]]
    assert found[0].score == pytest.approx(1)
    filters = MetadataFilters(filters=[flt("odd", 0)])
    assert all(each.node.metadata["odd"] == 0 for each in index.as_retriever(filters=filters).retrieve("text 7"))
    assert [e.node.node_id for e in asyncio.run(index.as_retriever(similarity_top_k=1).aretrieve("text 7"))] == ["n7"]
    context.persist(str(tmp_path))
    loaded = VectorStoreIndex.from_vector_store(KithVectorStore.from_persist_dir(str(tmp_path)), Spread(embed_dim=12))
    assert loaded.as_retriever(similarity_top_k=3).retrieve("text 7") == found
    loaded.delete_ref_doc("doc0")
    assert len(loaded.vector_store) == 50


def test_a_store_is_what_llama_index_takes_for_one(store):
    assert isinstance(store, BasePydanticVectorStore) and store.stores_text and store.is_embedding_query
    assert store.class_name() == "KithVectorStore"
    assert json.loads(store.to_json())["metric"] == "cosine"
