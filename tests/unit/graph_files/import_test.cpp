// Graphs of other libraries: read as their files have them, written again as equal bytes, searched; what does
// not fit is refused by name.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "graph_files/layers.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/graph_files.hpp"
#include "kith/io.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/graph_files.hpp"
#include "vamana/parts.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;
using test::read_file;
using test::SmallGraph;
using test::write_file;

class Graphs : public testing::Test {
 protected:
  // A file of the format, and what goes with it.
  std::filesystem::path written(GraphFormat format, const SmallGraph& g) {
    switch (format) {
      case GraphFormat::diskann:
        write_file(folder_ / "ann", test::diskann_bytes(g));
        write_file(folder_ / "ann.data", test::data_bytes(g));
        return folder_ / "ann";
      case GraphFormat::diskann_disk:
        write_file(folder_ / "a_disk.index", test::diskann_disk_bytes(g));
        return folder_ / "a_disk.index";
      case GraphFormat::hnswlib:
        write_file(folder_ / "hnsw.bin", test::hnswlib_bytes(g));
        return folder_ / "hnsw.bin";
      case GraphFormat::faiss:
        write_file(folder_ / "hnsw.faiss", test::faiss_bytes(g));
        return folder_ / "hnsw.faiss";
      case GraphFormat::bang: break;
    }
    write_file(folder_ / "b_disk.bin", test::bang_bytes(g));
    write_file(folder_ / "b_disk_metadata.bin", test::bang_metadata_bytes(g));
    return folder_ / "b_disk.bin";
  }

  static void expect_equal(const Vamana& index, const SmallGraph& g) {
    const vamana::Contents& contents = vamana::Parts::of(index);
    const vamana::Graph& graph = contents.built.graph;
    ASSERT_EQ(index.rows(), g.nodes);
    ASSERT_EQ(index.dim(), g.dim);
    ASSERT_EQ(graph.nodes, g.nodes);
    EXPECT_EQ(graph.entries.front(), g.start);
    for (std::uint32_t i = 0; i < g.nodes; ++i) {
      std::vector<std::uint32_t> its(graph.of(i), graph.of(i) + graph.max_degree);
      its.erase(std::find(its.begin(), its.end(), vamana::no_node), its.end());
      EXPECT_EQ(its, g.edges[i]) << "node " << i;
      EXPECT_EQ(std::memcmp(contents.dataset.view().row(i), g.row(i).data(), 4 * g.dim), 0) << "row " << i;
    }
  }

  const test::TemporaryFolder folder_;
};

constexpr GraphFormat formats_written[] = {GraphFormat::diskann, GraphFormat::diskann_disk,
                                           GraphFormat::hnswlib, GraphFormat::faiss};

TEST_F(Graphs, AreReadAsTheyAreAndWrittenAsEqualBytes) {
  const SmallGraph g;
  for (const GraphFormat format : all_graph_formats) {
    const auto path = written(format, g);
    EXPECT_EQ(guess_graph_format(path), format) << name(format);
    const ImportedGraph imported = import_graph(path);
    EXPECT_EQ(imported.format, format);
    EXPECT_TRUE(imported.labels.empty());
    expect_equal(imported.index, g);
    EXPECT_EQ(imported.index.metric(), Metric::sqeuclidean);
    if (format == GraphFormat::bang) continue;
    for (const bool saved : {false, true}) {
      if (saved) imported.index.save(folder_ / "saved.kith");
      const Vamana index = saved ? Vamana::load(folder_ / "saved.kith") : imported.index;
      expect_equal(index, g);
      const auto files = export_graph(index, folder_ / "again", format);
      EXPECT_EQ(read_file(folder_ / "again"), read_file(path)) << name(format);
      if (format == GraphFormat::diskann) {
        EXPECT_EQ(read_file(folder_ / "again.data"), read_file(folder_ / "ann.data"));
      }
      EXPECT_EQ(files.size(), format == GraphFormat::diskann ? 2U : 1U);
    }
  }
}

TEST_F(Graphs, AreSearchedLikeAnyOther) {
  const SmallGraph g;
  const DatasetView rows(g.rows.data(), g.nodes, g.dim);
  for (const GraphFormat format : all_graph_formats) {
    const Vamana index = import_graph(written(format, g)).index;
    const Neighbors found = index.search(rows, 5, {}, {.list_size = g.nodes});
    EXPECT_EQ(found.indices, knn(rows, rows, 5).indices) << name(format);
  }
}

// 23 different rows among 40: one node a row, where Kith's own graph would have one for equal rows.
TEST_F(Graphs, EqualRowsStayNodesOfTheirOwn) {
  const SmallGraph g;
  const Vamana index = import_graph(written(GraphFormat::diskann, g)).index;
  index.save(folder_ / "a.kith");
  for (const Vamana& its : {index, Vamana::load(folder_ / "a.kith")}) {
    EXPECT_TRUE(vamana::Parts::of(its).built.nodes.plain());
    EXPECT_EQ(
        its.search(DatasetView(g.rows.data(), 1, g.dim), 3, {}, {.list_size = 40}).statistics.collapsed_rows,
        0);
  }
  const DatasetView rows(g.rows.data(), g.nodes, g.dim);
  EXPECT_FALSE(
      vamana::Parts::of(Vamana::build(rows, {.max_degree = 4, .build_list_size = 8})).built.nodes.plain());
}

TEST_F(Graphs, OlderHeadersOfDiskann) {
  const SmallGraph g;
  write_file(folder_ / "old", test::diskann_bytes(g, true));
  const Dataset rows = Dataset::adopt(DatasetView(g.rows.data(), g.nodes, g.dim), nullptr);
  expect_equal(import_graph(folder_ / "old", {.vectors = rows}).index, g);
  write_file(folder_ / "rust_disk.index", test::diskann_disk_bytes(g, true, 512, 8));
  expect_equal(import_graph(folder_ / "rust_disk.index").index, g);
}

TEST_F(Graphs, RowsOfOtherFilesAndTypes) {
  const SmallGraph g;
  std::vector<double> doubles(g.rows.begin(), g.rows.end());
  const Dataset rows = Dataset::adopt(DatasetView(doubles.data(), g.nodes, g.dim), nullptr);
  for (const GraphFormat format : all_graph_formats) {
    const Vamana index = import_graph(written(format, g), {.vectors = rows}).index;
    EXPECT_EQ(index.dtype(), Dtype::f64);
    if (format == GraphFormat::bang) continue;
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { export_graph(index, folder_ / "x", format); }),
                         "the rows are f64"));
  }
  // Bytes: the file does not say whether they have a sign.
  std::string data = test::raw_bytes(g.nodes) + test::raw_bytes(g.dim);
  for (std::uint32_t i = 0; i < g.nodes * g.dim; ++i) data += static_cast<char>(i * 5);
  write_file(folder_ / "bytes", test::diskann_bytes(g));
  write_file(folder_ / "bytes.data", data);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { import_graph(folder_ / "bytes"); }), "u8 or i8"));
  for (const Dtype dtype : {Dtype::u8, Dtype::i8}) {
    const Vamana index = import_graph(folder_ / "bytes", {.dtype = dtype}).index;
    EXPECT_EQ(index.dtype(), dtype);
    export_graph(index, folder_ / "out", GraphFormat::diskann);
    EXPECT_EQ(read_file(folder_ / "out.data"), data);
    // The disk index says nothing either, but has room for f32 in no way.
    export_graph(index, folder_ / "out_disk.index", GraphFormat::diskann_disk);
    EXPECT_TRUE(
        contains(message_of<InvalidArgument>([&] { import_graph(folder_ / "out_disk.index"); }), "u8 or i8"));
    const Vamana again = import_graph(folder_ / "out_disk.index", {.dtype = dtype}).index;
    EXPECT_EQ(again.graph_hash(), index.graph_hash());
    // As floats for hnswlib, which hold them exactly.
    export_graph(index, folder_ / "out.hnsw", GraphFormat::hnswlib);
    EXPECT_EQ(import_graph(folder_ / "out.hnsw").index.dtype(), Dtype::f32);
  }
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { import_graph(folder_ / "bytes", {.dtype = Dtype::f32}); }),
               "1 bytes a value"));
}

TEST_F(Graphs, LabelsDecideTheOrderOfRows) {
  const SmallGraph g;
  std::vector<std::uint64_t> labels;
  for (std::uint32_t i = 0; i < g.nodes; ++i) labels.push_back((i * 11 + 5) % g.nodes);
  write_file(folder_ / "a.bin", test::hnswlib_bytes(g, labels));
  const ImportedGraph imported = import_graph(folder_ / "a.bin");
  EXPECT_TRUE(imported.labels.empty());
  const vamana::Contents& contents = vamana::Parts::of(imported.index);
  const vamana::Graph& graph = contents.built.graph;
  EXPECT_EQ(graph.entries.front(), labels[g.start]);
  for (std::uint32_t i = 0; i < g.nodes; ++i) {
    const auto row = static_cast<std::int64_t>(labels[i]);
    EXPECT_EQ(std::memcmp(contents.dataset.view().row(row), g.row(i).data(), 4 * g.dim), 0);
    for (std::size_t j = 0; j < g.edges[i].size(); ++j) EXPECT_EQ(graph.of(row)[j], labels[g.edges[i][j]]);
  }
  // The layers above went along: written and read again, it is the same graph with labels in order.
  export_graph(imported.index, folder_ / "b.bin", GraphFormat::hnswlib);
  const Vamana again = import_graph(folder_ / "b.bin").index;
  EXPECT_EQ(again.graph_hash(), imported.index.graph_hash());
  export_graph(again, folder_ / "c.bin", GraphFormat::hnswlib);
  EXPECT_EQ(read_file(folder_ / "c.bin"), read_file(folder_ / "b.bin"));

  for (auto& label : labels) label = 1000 - 3 * label;
  write_file(folder_ / "d.bin", test::hnswlib_bytes(g, labels));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { import_graph(folder_ / "d.bin"); }),
                       "are not 0 to 39 (883 to 1000)"));
  const ImportedGraph labelled = import_graph(folder_ / "d.bin", {.any_labels = true});
  ASSERT_EQ(labelled.labels.size(), g.nodes);
  EXPECT_EQ(labelled.labels.front(), 883);
  EXPECT_EQ(labelled.labels.back(), 1000);
  const Neighbors found =
      labelled.index.search(DatasetView(g.row(4).data(), 1, g.dim), 40, {}, {.list_size = 40});
  EXPECT_EQ(found.indices_of(0).size(), 40U);
  labels[3] = labels[4];
  write_file(folder_ / "e.bin", test::hnswlib_bytes(g, labels));
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { import_graph(folder_ / "e.bin"); }), "two elements have the label"));
}

TEST_F(Graphs, MetricsThatTheFileContradicts) {
  const SmallGraph g;
  write_file(folder_ / "ip.faiss", test::faiss_bytes(g, 0));
  EXPECT_EQ(import_graph(folder_ / "ip.faiss").index.metric(), Metric::inner_product);
  EXPECT_EQ(import_graph(folder_ / "ip.faiss", {.metric = Metric::cosine}).index.metric(), Metric::cosine);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { import_graph(folder_ / "ip.faiss", {.metric = Metric::euclidean}); }),
      "metric inner_product, not euclidean"));
  const auto l2 = written(GraphFormat::faiss, g);
  EXPECT_EQ(import_graph(l2, {.metric = Metric::euclidean}).index.metric(), Metric::euclidean);
  EXPECT_THROW(import_graph(l2, {.metric = Metric::inner_product}), InvalidArgument);
  EXPECT_THROW(import_graph(l2, {.metric = Metric::manhattan}), InvalidArgument);
  write_file(folder_ / "l1.faiss", test::faiss_bytes(g, 2));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { import_graph(folder_ / "l1.faiss"); }), "metric 2"));
  const Vamana product =
      import_graph(written(GraphFormat::hnswlib, g), {.metric = Metric::inner_product}).index;
  EXPECT_EQ(product.metric(), Metric::inner_product);
  export_graph(product, folder_ / "ip2.faiss", GraphFormat::faiss);
  EXPECT_EQ(import_graph(folder_ / "ip2.faiss").index.metric(), Metric::inner_product);
}

// Rows for cosine are written with length 1, and keep their bits where they have it already.
TEST_F(Graphs, CosineRowsAreWrittenAsUnits) {
  const SmallGraph g;
  const Vamana index = import_graph(written(GraphFormat::hnswlib, g), {.metric = Metric::cosine}).index;
  export_graph(index, folder_ / "units.bin", GraphFormat::hnswlib);
  const Vamana units = import_graph(folder_ / "units.bin", {.metric = Metric::cosine}).index;
  const DatasetView rows = vamana::Parts::of(units).dataset.view();
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    double square = 0;
    for (std::int64_t j = 0; j < rows.dim; ++j) {
      const double value = static_cast<const float*>(rows.row(i))[j];
      square += value * value;
    }
    EXPECT_NEAR(square, 1, 1e-6);
  }
  export_graph(units, folder_ / "again.bin", GraphFormat::hnswlib);
  EXPECT_EQ(read_file(folder_ / "again.bin"), read_file(folder_ / "units.bin"));
}

TEST_F(Graphs, OneHnswFormatGivesTheOthersLayers) {
  const SmallGraph g;
  const Vamana index = import_graph(written(GraphFormat::faiss, g)).index;
  export_graph(index, folder_ / "x.bin", GraphFormat::hnswlib);
  // All but what faiss does not keep: efConstruction is its own.
  std::string wanted = test::hnswlib_bytes(g);
  wanted.replace(88, 8, test::raw_bytes(std::uint64_t{55}));
  EXPECT_EQ(read_file(folder_ / "x.bin"), wanted);
}

TEST_F(Graphs, WhatCannotBeTakenIsRefusedByName) {
  const SmallGraph g;
  std::string bytes = test::hnswlib_bytes(g);
  bytes[96 + 2] = 1;
  write_file(folder_ / "deleted.bin", bytes);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { import_graph(folder_ / "deleted.bin"); }),
                       "1 element marked as deleted"));
  bytes = test::diskann_bytes(g);
  bytes.replace(16, 8, test::raw_bytes(std::uint64_t{1}));
  write_file(folder_ / "frozen", bytes);
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { import_graph(folder_ / "frozen"); }), "1 frozen point"));
  const auto ann = written(GraphFormat::diskann, g);
  std::filesystem::remove(folder_ / "ann.data");
  EXPECT_TRUE(contains(message_of<IoError>([&] { import_graph(ann); }), "no '" + ann.string() + ".data'"));
  const Dataset few = Dataset::adopt(DatasetView(g.rows.data(), 39, g.dim), nullptr);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { import_graph(ann, {.vectors = few}); }),
                       "has 40 nodes, there are 39 rows"));
  SmallGraph with_nan;
  with_nan.rows[3 * 6 + 1] = std::numeric_limits<float>::quiet_NaN();
  with_nan.rows[9 * 6] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { import_graph(written(GraphFormat::faiss, with_nan)); }),
               "row 3 has a NaN"));
  write_file(folder_ / "other.faiss", "IxPQ" + test::faiss_bytes(g).substr(4));
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { import_graph(folder_ / "other.faiss"); }), "type 'IxPQ'"));
  write_file(folder_ / "nothing", "nothing at all that anybody writes, of some length; nothing at all");
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { import_graph(folder_ / "nothing"); }), "no graph that Kith knows"));
  const Vamana index = import_graph(written(GraphFormat::bang, g)).index;
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { export_graph(index, folder_ / "x", GraphFormat::bang); }),
               "read only"));
  EXPECT_THROW(parse_graph_format("nsg"), InvalidArgument);
}

TEST_F(Graphs, LimitsAndCancellation) {
  const SmallGraph g;
  Execution execution;
  execution.memory_limit = 1000;
  for (const GraphFormat format : all_graph_formats) {
    EXPECT_TRUE(contains(message_of<OutOfMemory>([&] { import_graph(written(format, g), {}, execution); }),
                         "the limit is 1000"));
  }
  execution.memory_limit = 0;
  execution.cancelled = [] { return true; };
  EXPECT_THROW(import_graph(written(GraphFormat::faiss, g), {}, execution), Cancelled);
  const Vamana index = import_graph(written(GraphFormat::faiss, g)).index;
  EXPECT_THROW(export_graph(index, folder_ / "cancelled", GraphFormat::hnswlib, execution), Cancelled);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cancelled"));
}

TEST_F(Graphs, LayersOfAnotherGraphAreNotWritten) {
  const SmallGraph g;
  const Vamana index = import_graph(written(GraphFormat::hnswlib, g)).index;
  const vamana::Contents& contents = vamana::Parts::of(index);
  const std::uint64_t hash = index.graph_hash();
  ASSERT_TRUE(graph_files::unpack(contents.layers, g.nodes, hash).has_value());
  EXPECT_FALSE(graph_files::unpack(contents.layers, g.nodes, hash + 1).has_value());
  EXPECT_FALSE(graph_files::unpack(contents.layers, g.nodes + 1, hash).has_value());
  for (std::size_t at = 0; at < contents.layers.size(); ++at) {
    auto damaged = contents.layers;
    damaged[at] ^= std::byte{0x81};
    try {
      (void)graph_files::unpack(damaged, g.nodes, hash);
    } catch (const IoError& error) {
      EXPECT_TRUE(contains(error.what(), "corrupt"));
    }
  }
  for (std::size_t size = 1; size < contents.layers.size(); size += 7) {
    EXPECT_THROW((void)graph_files::unpack(std::span(contents.layers).first(size), g.nodes, hash), IoError);
  }
}

}  // namespace
}  // namespace kith
