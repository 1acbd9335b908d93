// Saved graphs: the same answers again, and every kind of damage refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/index_file.hpp"
#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"
#include "kith/io.hpp"
#include "kith/vamana.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/index_files.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;
using test::read_file;
using test::write_file;

TEST(VamanaFile, HoldsAllThatAnIndexIs) {
  for (const Dtype dtype : all_dtypes) {
    for (const Metric metric : vamana_metrics) {
      const test::TemporaryFolder folder;
      const Dataset data =
          generate({.generator = Generator::clusters, .rows = 900, .dim = 9, .dtype = dtype, .clusters = 5});
      const Vamana index = Vamana::build(
          data, {.metric = metric, .max_degree = 8, .build_list_size = 20, .alpha = 1.25, .seed = 9});
      index.save(folder / "a.kith");
      const Vamana again = Vamana::load(folder / "a.kith");
      EXPECT_EQ(again.rows(), 900);
      EXPECT_EQ(again.dim(), 9);
      EXPECT_EQ(again.dtype(), dtype);
      EXPECT_EQ(again.metric(), metric);
      EXPECT_EQ(again.parameters().max_degree, 8);
      EXPECT_EQ(again.parameters().build_list_size, 20);
      EXPECT_EQ(again.parameters().alpha, 1.25);
      EXPECT_EQ(again.parameters().seed, 9U);
      EXPECT_EQ(again.graph_hash(), index.graph_hash());
      EXPECT_LE(again.memory_bytes(), index.memory_bytes());  // a build has room for rows that equal others
      ASSERT_EQ(again.recall_curve().points.size(), index.recall_curve().points.size());
      EXPECT_GT(again.recall_curve().points.size(), 3U);
      EXPECT_EQ(again.recall_curve().points[1].recall.lower, index.recall_curve().points[1].recall.lower);
      for (const SearchOptions& options : {SearchOptions{.list_size = 12}, SearchOptions{}}) {
        const Neighbors a = index.search(data, 5, {}, options);
        const Neighbors b = again.search(data, 5, {}, options);
        EXPECT_EQ(a.indices, b.indices);
        EXPECT_EQ(a.distances, b.distances);
        EXPECT_EQ(a.statistics.list_size, b.statistics.list_size);
      }
      again.save(folder / "b.kith");
      EXPECT_EQ(read_file(folder / "a.kith"), read_file(folder / "b.kith"));
    }
  }
}

// Where memory is short the edges stay in the file, and nothing else changes.
TEST(VamanaFile, EdgesMayStayInIt) {
  const test::TemporaryFolder folder;
  const Dataset data = generate({.generator = Generator::gaussian, .rows = 2000, .dim = 20});
  const Dataset more = generate({.generator = Generator::gaussian, .rows = 100, .dim = 20, .seed = 7});
  const Vamana index = Vamana::build(data, {.max_degree = 16, .build_list_size = 32});
  index.save(folder / "a.kith");
  const std::uint64_t edges = 2000 * 16 * 4;
  Execution execution;
  execution.memory_limit = index.memory_bytes() - 1;
  const Vamana mapped = Vamana::load(folder / "a.kith", execution);
  EXPECT_EQ(mapped.memory_bytes(), index.memory_bytes() - edges);
  EXPECT_EQ(Vamana::load(folder / "a.kith").memory_bytes(), index.memory_bytes());
  EXPECT_EQ(mapped.graph_hash(), index.graph_hash());
  const Neighbors a = index.search(data, 10, {}, {.list_size = 24});
  const Neighbors b = mapped.search(data, 10, {}, {.list_size = 24});
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.distances, b.distances);
  EXPECT_EQ(mapped.insert(more).graph_hash(), index.insert(more).graph_hash());
  mapped.save(folder / "b.kith");
  EXPECT_EQ(read_file(folder / "a.kith"), read_file(folder / "b.kith"));
}

// Rows with a NaN have no node, equal ones share theirs.
TEST(VamanaFile, KeepsCodesAndWhatNodesStandFor) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.kith";
  Dataset data = generate({.generator = Generator::gaussian, .rows = 300, .dim = 4});
  auto* values = static_cast<float*>(data.mutable_data());
  std::copy_n(values, 4, values + 4 * 17);
  std::copy_n(values, 4, values + 4 * 290);
  values[4 * 5] = std::numeric_limits<float>::quiet_NaN();
  const Vamana index = Vamana::build(data, {.max_degree = 8, .build_list_size = 16});
  index.save(path);
  const std::string whole = read_file(path);
  const Neighbors expected = index.search(data, 4, {}, {.list_size = 20});
  const auto loaded = [&](const std::string& bytes) {
    write_file(path, bytes);
    const Neighbors found = Vamana::load(path).search(data, 4, {}, {.list_size = 20});
    EXPECT_EQ(found.indices, expected.indices);
    EXPECT_EQ(found.distances, expected.distances);
  };
  loaded(whole);
  // A file of the layout before this one has the same nodes: they are made from the rows.
  const auto keep = [](nlohmann::json&) {};
  const auto older = [](nlohmann::json& header) { header["layout"] = 2; };
  loaded(test::rewritten(path, older, "codes", [](std::string& codes) { codes.clear(); }));

  const auto refusal = [&](const std::string& section, const std::function<void(std::string&)>& damage) {
    write_file(path, whole);
    write_file(path, test::rewritten(path, keep, section, damage));
    return message_of<IoError>([&] { Vamana::load(path); });
  };
  const auto with_word = [](std::size_t at, std::uint32_t word) {
    return [at, word](std::string& bytes) { std::memcpy(bytes.data() + 4 * at, &word, sizeof word); };
  };
  const auto shorter = [](std::string& bytes) { bytes.resize(bytes.size() - 4); };
  EXPECT_TRUE(contains(refusal("codes", shorter), "'codes'"));
  EXPECT_TRUE(contains(refusal("node_first", shorter), "'node_first'"));
  EXPECT_TRUE(contains(refusal("node_rows", shorter), "the rows of its nodes"));
  EXPECT_TRUE(contains(refusal("node_first", [](std::string& bytes) { bytes.clear(); }), "all of its rows"));
  EXPECT_TRUE(contains(refusal("node_first", with_word(0, 1)), "begin or end"));
  EXPECT_TRUE(contains(refusal("node_first", with_word(2, 0)), "one range after the other"));
  EXPECT_TRUE(contains(refusal("node_first", with_word(2, 0xFFFFFFFFU)), "one range after the other"));
  EXPECT_TRUE(contains(refusal("node_rows", with_word(3, 300)), "row 300 of 300"));
  EXPECT_TRUE(contains(refusal("node_rows", with_word(1, 0)), "row 0 of 300"));
  EXPECT_TRUE(contains(refusal("node_rows", with_word(0, 290)), "the rows of its nodes"));
}

class DamagedGraph : public testing::Test {
 protected:
  void SetUp() override {
    const Dataset data = generate({.generator = Generator::gaussian, .rows = 60, .dim = 3});
    Vamana::build(data, {.max_degree = 4, .build_list_size = 8}).save(path_);
    bytes_ = read_file(path_);
  }

  std::string refusal(const std::string& bytes) {
    write_file(path_, bytes);
    return message_of<IoError>([&] { AnyIndex::load(path_); });
  }

  // The file with another header or another section, its checksums right.
  std::string rewritten(const std::function<void(nlohmann::json&)>& change, const std::string& section = "",
                        const std::function<void(std::string&)>& damage = {}) {
    write_file(path_, bytes_);
    return test::rewritten(path_, change, section, damage);
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "graph.kith";
  std::string bytes_;
};

TEST_F(DamagedGraph, FlippedBytesAndTruncationsAreFound) {
  for (std::size_t at = 0; at < bytes_.size(); at += at < 4096 ? 1 : 13) {
    std::string damaged = bytes_;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    EXPECT_TRUE(contains(refusal(damaged), path_.string())) << "byte " << at;
  }
  for (std::size_t size = 0; size < bytes_.size(); size += 97) {
    EXPECT_TRUE(contains(refusal(bytes_.substr(0, size)), path_.string())) << size << " bytes";
  }
}

TEST_F(DamagedGraph, HeadersThatMakeNoSense) {
  write_file(path_, rewritten([](nlohmann::json&) {}));
  EXPECT_EQ(AnyIndex::load(path_).rows(), 60);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::pair<const char*, nlohmann::json>> wrong = {
      {"layout", 4},
      {"layout", "one"},
      {"rows", 59},
      {"rows", -1},
      {"rows", most},
      {"dim", 0},
      {"dim", 4},
      {"dim", most},
      {"dtype", "f64"},
      {"dtype", "u9"},
      {"metric", "inner_product"},
      {"metric", "manhattan"},
      {"max_degree", 3},
      {"max_degree", 5},
      {"max_degree", most},
      {"build_list_size", 3},
      {"build_list_size", 0},
      {"alpha", 0.5},
      {"alpha", nullptr},
      {"seed", "x"},
      {"nodes", 59},
      {"nodes", -1},
      {"nodes", most},
      {"code_bits", 5},
      {"code_bits", 0},
      {"code_dim", -32},
      {"code_dim", 33},
      {"code_values", 4},
      {"leading", 32},
      {"leading", -32},
      {"leading", most},
      {"unit", 0},
      {"rerank_factor", -1},
      {"rerank_factor", most},
      {"step", 0},
      {"step", -1},
      {"step", nullptr},
      {"largest_norm", -1},
      {"largest_norm", "y"},
      {"recall_curve", 5},
      {"recall_curve", {{"queries", 3}}},
      {"recall_curve", {{"queries", 3}, {"points", {{1, 2, 3}}}}},
      {"recall_curve", {{"queries", 3}, {"points", {{1, -2, 0.5, 0.5, 0.5, 1, 1}}}}}};
  for (const auto& [key, value] : wrong) {
    const std::string changed = rewritten([&](nlohmann::json& header) { header[key] = value; });
    EXPECT_TRUE(contains(refusal(changed), path_.string())) << key << " = " << value.dump();
  }
  const auto header = IndexFile::open(folder_ / "changed.kith").header();
  for (const auto& [key, value] : header.items()) {
    if (key == "sections" || key == "nan_rows") continue;
    const std::string changed = rewritten([&, name = key](nlohmann::json& its) { its.erase(name); });
    EXPECT_TRUE(contains(refusal(changed), path_.string())) << "without " << key;
  }
}

TEST_F(DamagedGraph, EdgesThatLeadNowhere) {
  const auto with_word = [](std::size_t at, std::uint32_t word) {
    return [at, word](std::string& bytes) { std::memcpy(bytes.data() + 4 * at, &word, sizeof word); };
  };
  const auto keep = [](nlohmann::json&) {};
  EXPECT_TRUE(contains(refusal(rewritten(keep, "edges", with_word(0, 60))), "leads to 60 of 60 nodes"));
  EXPECT_TRUE(contains(refusal(rewritten(keep, "edges", with_word(5, 0xFFFFFFFEU))), "leads to"));
  EXPECT_TRUE(contains(refusal(rewritten(keep, "edges",
                                         [](std::string& all) {
                                           const std::uint32_t end = 0xFFFFFFFFU;
                                           std::memcpy(all.data(), &end, 4);  // and another edge after it
                                         })),
                       "an edge of node 0"));
  EXPECT_TRUE(contains(refusal(rewritten(keep, "entries", with_word(0, 60))), "entry 60"));
  EXPECT_TRUE(
      contains(refusal(rewritten(keep, "entries", [](std::string& all) { all.clear(); })), "no entries"));
  EXPECT_TRUE(
      contains(refusal(rewritten(keep, "entries", [](std::string& all) { all.pop_back(); })), "entries"));
  EXPECT_TRUE(contains(refusal(rewritten(keep, "edges", [](std::string& all) { all.resize(8); })), "edges"));
  EXPECT_TRUE(contains(refusal(rewritten(keep, "mean", [](std::string& all) { all.resize(8); })), "'mean'"));
  EXPECT_TRUE(contains(refusal(rewritten(keep, "mean",
                                         [](std::string& all) {
                                           const double nan = std::numeric_limits<double>::quiet_NaN();
                                           std::memcpy(all.data(), &nan, 8);
                                         })),
                       "not a number"));
}

TEST_F(DamagedGraph, OtherTypesAndLimits) {
  EXPECT_TRUE(contains(message_of<IoError>([&] { BruteForce::load(path_); }), "vamana"));
  BruteForce::build(generate({.rows = 5, .dim = 2})).save(folder_ / "b.kith");
  EXPECT_TRUE(contains(message_of<IoError>([&] { Vamana::load(folder_ / "b.kith"); }), "brute_force"));
  Execution execution;
  execution.memory_limit = 100;
  EXPECT_THROW(Vamana::load(path_, execution), OutOfMemory);
  const FileInfo info = inspect(path_);
  EXPECT_EQ(info.rows, 60);
}

}  // namespace
}  // namespace kith
