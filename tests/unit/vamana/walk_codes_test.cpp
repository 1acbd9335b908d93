// Walks on RaBitQ and PQ codes: the graph of scalar codes, the same bits from everywhere, less memory, and
// what a bound may rule out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/instruction_set.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/evaluate.hpp"
#include "kith/generate.hpp"
#include "kith/io.hpp"
#include "kith/row_set.hpp"
#include "kith/vamana.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/index_files.hpp"
#include "support/threads.hpp"
#include "vamana/file.hpp"
#include "vamana/key.hpp"
#include "vamana/parts.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;
using test::read_file;
using test::with_threads;
using test::write_file;

Dataset rows_of(std::int64_t rows, std::int64_t first = 0, Dtype dtype = Dtype::f32, std::int64_t dim = 40) {
  return generate({.generator = Generator::low_intrinsic_dimension,
                   .rows = rows,
                   .dim = dim,
                   .dtype = dtype,
                   .seed = 3,
                   .first_row = first,
                   .intrinsic_dim = 12});
}

const std::vector<VamanaParameters>& kinds() {
  static const std::vector<VamanaParameters> all = {
      {.max_degree = 16, .build_list_size = 40, .codes = CodeKind::rabitq},
      {.max_degree = 16, .build_list_size = 40, .codes = CodeKind::rabitq, .rabitq_bits = 1},
      {.max_degree = 16, .build_list_size = 40, .codes = CodeKind::pq, .pq_subspaces = 8}};
  return all;
}

std::string named(const VamanaParameters& parameters) {
  return std::string(name(parameters.codes)) + std::to_string(parameters.rabitq_bits);
}

double recall_of(const Vamana& index, const Dataset& data, const Dataset& queries,
                 const SearchOptions& options) {
  const Neighbors exact = knn(data, queries, 10, {index.metric()});
  return evaluate(index.search(queries, 10, {}, options), exact).recall_with_ties;
}

TEST(OrderedFloats, AscendAsFloatsDo) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {-infinity, -1e30F, -2, -1, -1e-30F, 0, 1e-30F, 1, 2, 1e30F, infinity};
  for (std::size_t i = 1; i < values.size(); ++i) {
    EXPECT_LT(vamana::ordered(values[i - 1]), vamana::ordered(values[i])) << values[i];
  }
  EXPECT_GE(vamana::ordered(-infinity), 0);
}

TEST(VamanaWalkCodes, AreTheSameFromAnyThreadsAndInstructionSetAndFile) {
  const test::TemporaryFolder folder;
  const Dataset queries = rows_of(30, 700);
  const SearchOptions options{.list_size = 30};
  for (const VamanaParameters& parameters : kinds()) {
    const Dataset data = rows_of(700);
    const Vamana one = Vamana::build(data, parameters, with_threads(1));
    const Neighbors found = one.search(queries, 5, with_threads(1), options);
    EXPECT_EQ(found.statistics.filter, name(parameters.codes));
    for (const InstructionSet set : usable_instruction_sets()) {
      force_instruction_set(set);
      const Vamana other = Vamana::build(data, parameters, with_threads(3));
      EXPECT_EQ(other.graph_hash(), one.graph_hash()) << named(parameters) << name(set);
      const Neighbors again = other.search(queries, 5, with_threads(2), options);
      EXPECT_EQ(again.indices, found.indices) << named(parameters) << name(set);
      EXPECT_EQ(again.statistics.hops, found.statistics.hops) << named(parameters) << name(set);
      EXPECT_EQ(again.statistics.candidates, found.statistics.candidates) << named(parameters) << name(set);
    }
    force_instruction_set(std::nullopt);
    one.save(folder / "a.kith");
    const Vamana loaded = Vamana::load(folder / "a.kith");
    EXPECT_EQ(loaded.graph_hash(), one.graph_hash());
    EXPECT_EQ(loaded.parameters().codes, parameters.codes);
    EXPECT_EQ(loaded.parameters().rabitq_bits, parameters.rabitq_bits);
    EXPECT_EQ(loaded.parameters().pq_subspaces, parameters.pq_subspaces);
    EXPECT_EQ(loaded.memory_bytes(), one.memory_bytes());
    const Neighbors again = loaded.search(queries, 5, {}, options);
    EXPECT_EQ(again.indices, found.indices);
    EXPECT_EQ(again.distances, found.distances);
    loaded.save(folder / "b.kith");
    EXPECT_EQ(read_file(folder / "a.kith"), read_file(folder / "b.kith"));
  }
}

TEST(VamanaWalkCodes, HaveTheGraphOfScalarCodesAndTakeLessMemory) {
  const Dataset data = rows_of(1200);
  const Dataset queries = rows_of(100, 1200);
  const Vamana scalar = Vamana::build(data, {.max_degree = 16, .build_list_size = 40});
  const double usual = recall_of(scalar, data, queries, {.list_size = 60});
  for (const VamanaParameters& parameters : kinds()) {
    const Vamana index = Vamana::build(data, parameters);
    EXPECT_EQ(vamana::hash(vamana::Parts::of(index).built.graph), scalar.graph_hash()) << named(parameters);
    EXPECT_NE(index.graph_hash(), scalar.graph_hash()) << named(parameters);
    EXPECT_EQ(index.code_dim(), scalar.code_dim());
    EXPECT_LT(index.code_bytes(), scalar.code_bytes()) << named(parameters);
    if (parameters.codes == CodeKind::rabitq) {
      EXPECT_LT(index.memory_bytes(), scalar.memory_bytes());
    }
    // Codes of a bit or of eight bytes say little; a list four times as long makes up for it.
    EXPECT_GT(recall_of(index, data, queries, {.list_size = 240}), usual - 0.02) << named(parameters);
    EXPECT_EQ(recall_of(index, data, queries, {.list_size = 1200}), 1) << named(parameters);
  }
}

// For every metric, what RaBitQ's bound rules out is hardly ever among the nearest, and it rules out a lot.
TEST(VamanaWalkCodes, ABoundRulesOutWhatIsFar) {
  for (const Metric metric : vamana_metrics) {
    for (const Dtype dtype : {Dtype::f32, Dtype::u8}) {
      const Dataset data = rows_of(700, 0, dtype);
      const Dataset queries = rows_of(60, 700, dtype);
      const Vamana index = Vamana::build(data, {.metric = metric,
                                                .max_degree = 16,
                                                .build_list_size = 32,
                                                .codes = CodeKind::rabitq,
                                                .rabitq_bits = 6});
      const Neighbors bound = index.search(queries, 10, {}, {.list_size = 150});
      const Neighbors all = index.search(queries, 10, {}, {.list_size = 150, .rerank = 150});
      EXPECT_EQ(all.statistics.candidates, 150 * 60) << name(metric) << name(dtype);
      EXPECT_LT(bound.statistics.candidates, 100 * 60) << name(metric) << name(dtype);
      EXPECT_GT(evaluate(bound, all).recall_with_ties, 0.999) << name(metric) << name(dtype);
      EXPECT_EQ(index.search(queries, 10, {}, {.list_size = 150, .rerank = 20}).statistics.candidates,
                20 * 60);
    }
  }
  // Queries without a direction: nothing is ruled out, and nothing fails.
  const Dataset data = rows_of(200);
  const Dataset zero = Dataset::allocate(Dtype::f32, 1, 40);
  std::fill_n(static_cast<float*>(const_cast<void*>(zero.view().data)), 40, 0.0F);
  for (const Metric metric : {Metric::inner_product, Metric::cosine}) {
    const Vamana index = Vamana::build(data, {.metric = metric, .codes = CodeKind::rabitq});
    EXPECT_EQ(index.search(zero, 3, {}, {.list_size = 20}).distance(0, 0), metric == Metric::cosine ? 1 : 0);
  }
}

TEST(VamanaWalkCodes, ReachTheRecallThatIsStatedAlsoAmongAllowedRows) {
  const Dataset data = rows_of(1600);
  const Dataset queries = rows_of(200, 1600);
  RowSet half(1600);
  for (std::int64_t row = 0; row < 1600; row += 2) half.insert(row);
  for (const VamanaParameters& parameters : kinds()) {
    const Vamana index = Vamana::build(data, parameters);
    ASSERT_FALSE(index.recall_curve().points.empty());
    EXPECT_GE(recall_of(index, data, queries, {.recall = 0.9}), 0.89) << named(parameters);
    const Neighbors truth = knn(data, queries, 10, {}, {}, {.allowed = &half});
    const Neighbors found = index.search(queries, 10, {}, {.recall = 0.9, .allowed = &half});
    EXPECT_GE(evaluate(found, truth).recall_with_ties, 0.89) << named(parameters);
    for (const std::int64_t row : found.indices) EXPECT_TRUE(half.contains(row));
  }
}

TEST(VamanaWalkCodes, TuningsAreForOneKindOfCodes) {
  const Dataset data = rows_of(1000);
  const Dataset queries = rows_of(100, 1000);
  const Vamana scalar = Vamana::build(data, {.max_degree = 16, .build_list_size = 40});
  const Vamana index = Vamana::build(data, kinds().front());
  const Tuning tuning = index.tune(queries, {10});
  EXPECT_FALSE(index.tuned(tuning).recall_curve().points.empty());
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)scalar.tuned(tuning); }), "tune this index"));
}

TEST(VamanaWalkCodes, RowsAreInserted) {
  const test::TemporaryFolder folder;
  const Dataset data = rows_of(1000);
  const Dataset queries = rows_of(100, 1000);
  for (const VamanaParameters& parameters : kinds()) {
    const Vamana half = Vamana::build(data.view().slice(0, 500), parameters);
    const Vamana one = half.insert(data.view().slice(500, 500), with_threads(1));
    half.save(folder / "half.kith");
    const Vamana three =
        Vamana::load(folder / "half.kith").insert(data.view().slice(500, 500), with_threads(3));
    EXPECT_EQ(three.graph_hash(), one.graph_hash()) << named(parameters);
    EXPECT_EQ(one.code_bytes(), half.code_bytes());
    EXPECT_GT(recall_of(one, data, queries, {.list_size = 200}), 0.9) << named(parameters);
    // Into none, and into rows that no code was learnt from.
    EXPECT_EQ(Vamana::build(data.view().slice(0, 0), parameters).insert(queries).code_bytes(),
              half.code_bytes());
    Dataset nan = Dataset::allocate(Dtype::f32, 2, 40);
    std::fill_n(static_cast<float*>(nan.mutable_data()), 80, std::numeric_limits<float>::quiet_NaN());
    Vamana::build(nan, parameters).save(folder / "nan.kith");
    const Vamana none = Vamana::load(folder / "nan.kith");
    EXPECT_EQ(none.search(queries, 1, {}, {.list_size = 1}).indices[0], -1);
    EXPECT_EQ(none.insert(queries).code_bytes(), half.code_bytes());
  }
}

TEST(VamanaWalkCodes, EqualRowsAndInfinitiesAndFewRows) {
  for (const VamanaParameters& parameters : kinds()) {
    Dataset data = Dataset::copy(rows_of(900));
    auto* values = static_cast<float*>(data.mutable_data());
    for (std::int64_t i = 100; i < 400; ++i) std::copy_n(values, 40, values + i * 40);
    values[500 * 40] = std::numeric_limits<float>::infinity();
    const Vamana index = Vamana::build(data, parameters);
    const Neighbors found = index.search(data.view().slice(0, 1), 301, {}, {.list_size = 301});
    EXPECT_EQ(found.indices[0], 0);
    EXPECT_EQ(found.indices[300], 399) << named(parameters);
    EXPECT_EQ(found.distance(0, 300), 0);
    for (const std::int64_t rows : {1, 2, 5}) {
      const Vamana few = Vamana::build(data.view().slice(0, rows), parameters);
      EXPECT_EQ(few.search(data.view().slice(0, 1), 1, {}, {.list_size = 1}).indices[0], 0);
    }
  }
}

TEST(VamanaWalkCodes, OthersAreRefusedByName) {
  const Dataset data = rows_of(100);
  const auto refusal = [&](const VamanaParameters& parameters) {
    return message_of<InvalidArgument>([&] { Vamana::build(data, parameters); });
  };
  EXPECT_TRUE(contains(refusal({.rabitq_bits = 4}), "take rabitq codes"));
  EXPECT_TRUE(contains(refusal({.pq_subspaces = 4}), "take pq codes"));
  EXPECT_TRUE(contains(refusal({.codes = CodeKind::pq, .rabitq_bits = 4}), "take rabitq codes"));
  EXPECT_TRUE(contains(refusal({.codes = CodeKind::rabitq, .rabitq_bits = 9}), "use 1 to 8"));
  EXPECT_TRUE(contains(refusal({.codes = CodeKind::rabitq, .rabitq_bits = -1}), "use 1 to 8"));
  EXPECT_TRUE(contains(refusal({.codes = CodeKind::pq, .pq_subspaces = 41}), "40 values"));
  EXPECT_TRUE(contains(refusal({.code_dim = 32, .codes = CodeKind::pq, .pq_subspaces = 33}), "32 values"));
  EXPECT_TRUE(contains(refusal({.code_bits = 4, .codes = CodeKind::rabitq}), "leave code_bits out or at 8"));

  const Dataset many = rows_of(5000);
  Execution limited;
  limited.memory_limit = 500'000;
  EXPECT_THROW(Vamana::build(many, kinds().front(), limited), OutOfMemory);
}

TEST(VamanaWalkCodes, DamagedFilesAreRefused) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "graph.kith";
  const auto refusal = [&](const std::string& bytes) {
    write_file(path, bytes);
    return message_of<IoError>([&] { Vamana::load(path); });
  };
  for (const VamanaParameters& parameters : kinds()) {
    Vamana::build(rows_of(60), parameters).save(path);
    EXPECT_EQ(inspect(path).rows, 60);
    const std::string whole = read_file(path);
    const auto changed = [&](const std::function<void(nlohmann::json&)>& change,
                             const std::string& section = "",
                             const std::function<void(std::string&)>& damage = {}) {
      write_file(path, whole);
      return test::rewritten(path, change, section, damage);
    };
    const auto keep = [](nlohmann::json&) {};
    const auto cut = [](std::string& all) { all.pop_back(); };
    EXPECT_TRUE(contains(refusal(changed(keep, "walked_codes", cut)), "'walked_codes'"));
    EXPECT_TRUE(contains(refusal(changed(keep, "walked_mean", cut)), "'walked_mean'"));
    for (const char* key : {"codes", "rabitq_bits", "pq_subspaces", "walked"}) {
      EXPECT_TRUE(contains(refusal(changed([&](nlohmann::json& header) { header.erase(key); })), "lacks"))
          << key;
    }
    EXPECT_TRUE(contains(refusal(changed([](nlohmann::json& header) { header["codes"] = "opq"; })), "opq"));
    EXPECT_TRUE(
        contains(refusal(changed([](nlohmann::json& header) { header["rabitq_bits"] = 99; })), "rabitq"));
    if (parameters.codes != CodeKind::pq) continue;
    EXPECT_TRUE(contains(refusal(changed(keep, "walked_centroids", cut)), "'walked_centroids'"));
    EXPECT_TRUE(
        contains(refusal(changed([](nlohmann::json& header) { header["walked"]["centroids"] = 257; })),
                 "257 centroids"));
  }
}

}  // namespace
}  // namespace kith
