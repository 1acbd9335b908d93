// Bits a value of codes, where that is left to the data.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "core/instruction_set.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"
#include "kith/vamana.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/threads.hpp"
#include "vamana/code_space.hpp"

namespace kith {
namespace {

using test::with_threads;

constexpr std::int64_t dim = 384;
constexpr std::int64_t rows = 4200;

VamanaParameters little(VamanaParameters parameters = {}) {
  parameters.max_degree = 8;
  parameters.build_list_size = 12;
  return parameters;
}

// Rows that vary in all directions.
Dataset everywhere(std::int64_t count, std::int64_t values, Dtype dtype = Dtype::f32) {
  return generate({.generator = Generator::uniform, .rows = count, .dim = values, .dtype = dtype, .seed = 3});
}

std::int64_t bits_of(const Dataset& data, const VamanaParameters& parameters = {}) {
  return Vamana::build(data, little(parameters)).parameters().code_bits;
}

TEST(VamanaCodeBits, AreFourWhereCodesAreLongAndKeepTheOrder) {
  const Dataset data = everywhere(rows, dim);
  const Vamana chosen = Vamana::build(data, little());
  EXPECT_EQ(chosen.parameters().code_bits, 4);
  EXPECT_EQ(chosen.parameters().code_dim, 0);
  EXPECT_EQ(chosen.code_bytes(), dim / 2);
  EXPECT_EQ(chosen.graph_hash(), Vamana::build(data, little({.code_bits = 4})).graph_hash());
  for (const InstructionSet set : usable_instruction_sets()) {
    force_instruction_set(set);
    EXPECT_EQ(Vamana::build(data, little(), with_threads(3)).graph_hash(), chosen.graph_hash()) << name(set);
  }
  force_instruction_set(std::nullopt);
  EXPECT_EQ(bits_of(data, {.metric = Metric::cosine}), 4);
}

TEST(VamanaCodeBits, AreEightWhereFourWouldMixTheNearest) {
  // Closer together than a step of codes of four bits.
  const Dataset data = generate({.generator = Generator::clusters,
                                 .rows = rows,
                                 .dim = dim,
                                 .seed = 3,
                                 .clusters = 42,
                                 .spread = 1e-4});
  const Vamana chosen = Vamana::build(data, little({.code_dim = dim}));
  EXPECT_EQ(chosen.parameters().code_bits, 8);
  EXPECT_EQ(chosen.graph_hash(), Vamana::build(data, little({.code_bits = 8, .code_dim = dim})).graph_hash());
}

TEST(VamanaCodeBits, AreEightWhereHalvesSaveLittle) {
  EXPECT_EQ(bits_of(everywhere(rows, dim - 1)), 8) << "values";
  EXPECT_EQ(bits_of(everywhere(4000, dim)), 8) << "rows";
  EXPECT_EQ(bits_of(everywhere(rows, dim), {.code_dim = 352}), 8) << "directions";
  EXPECT_EQ(bits_of(everywhere(rows, dim), {.codes = CodeKind::rabitq}), 8) << "other codes";
  const Dataset integers = everywhere(rows, dim, Dtype::u8);
  EXPECT_EQ(bits_of(integers), 8) << "their own codes";
  EXPECT_EQ(bits_of(integers, {.metric = Metric::cosine}), 4);
}

TEST(VamanaCodeBits, RowsWithoutAValueHaveNoSay) {
  Dataset data = everywhere(rows, dim);
  auto* values = static_cast<float*>(data.mutable_data());
  const auto spoil = [&](std::int64_t row) { values[row * dim] = std::nanf(""); };
  const auto bits = [&] { return bits_of(data); };
  for (std::int64_t i = 0; i < rows; i += 3) spoil(i);
  EXPECT_EQ(bits(), 4);
  for (std::int64_t i = 100; i < rows; ++i) spoil(i);
  EXPECT_EQ(bits(), 8) << "no row has enough neighbours";
  for (std::int64_t i = 0; i < rows; ++i) spoil(i);
  EXPECT_EQ(bits(), 8);
}

TEST(VamanaCodeBits, OfOtherTypesAndMetricsAreChosenToo) {
  const Dataset data = generate({.generator = Generator::uniform,
                                 .rows = rows,
                                 .dim = dim,
                                 .dtype = Dtype::f64,
                                 .seed = 3,
                                 .normalize = true});
  EXPECT_EQ(bits_of(data), 4);
  EXPECT_EQ(bits_of(data, {.metric = Metric::inner_product}), 4);
}

TEST(VamanaCodeBits, AreSavedAndKeptByInsertions) {
  const Dataset data = everywhere(rows + 300, dim);
  const Vamana built = Vamana::build(data.view().slice(0, rows), little());
  const test::TemporaryFolder folder;
  built.save(folder / "graph.kith");
  const Vamana loaded = Vamana::load(folder / "graph.kith");
  EXPECT_EQ(loaded.parameters().code_bits, 4);
  EXPECT_EQ(loaded.graph_hash(), built.graph_hash());
  EXPECT_EQ(loaded.insert(data.view().slice(rows, 300)).parameters().code_bits, 4);
}

TEST(VamanaCodeBits, OfFourReachFarEnoughForInsertedRowsWithTails) {
  Dataset data = everywhere(1600, dim);
  const std::span values(static_cast<float*>(data.mutable_data()), static_cast<std::size_t>(1600 * dim));
  for (float& value : values) {  // Laplace's distribution: codes of 4 bits cut off values that are no rarity
    const double x = 2 * static_cast<double>(value) - 1;
    value = static_cast<float>(std::copysign(std::log(1 - std::abs(x)), x));
  }
  const DatasetView& all = data.view();
  const Vamana built = Vamana::build(Dataset::copy(all.slice(0, 800)), little({.code_bits = 4}));
  EXPECT_EQ(built.insert(all.slice(800, 800)).rows(), 1600);
  for (float& value : values) value *= 10;
  EXPECT_TRUE(
      test::contains(test::message_of<InvalidArgument>([&] { (void)built.insert(all.slice(800, 800)); }),
                     "more than 5 times as far"));
}

TEST(VamanaCodeBits, OfAnIndexWithoutRowsAreLeftToTheFirst) {
  const Dataset data = everywhere(rows, dim);
  const Vamana empty = Vamana::build(data.view().slice(0, 0), little());
  EXPECT_EQ(empty.parameters().code_bits, 0);
  const test::TemporaryFolder folder;
  empty.save(folder / "graph.kith");
  const Vamana loaded = Vamana::load(folder / "graph.kith");
  EXPECT_EQ(loaded.parameters().code_bits, 0);
  EXPECT_EQ(loaded.search(data.view().slice(0, 2), 3).indices, std::vector<std::int64_t>(6, -1));
  const Vamana filled = loaded.insert(data);
  EXPECT_EQ(filled.parameters().code_bits, 4);
  EXPECT_EQ(filled.graph_hash(), Vamana::build(data, little()).graph_hash());
}

TEST(VamanaCodeBits, AreLookedForUntilTheCallerStops) {
  const Dataset data = everywhere(rows, dim);
  std::int64_t asked = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Execution execution = with_threads(1);
  execution.cancelled = [&] { return ++asked > most; };
  const auto asks_for = [&](std::int64_t bits) {
    asked = 0;
    VamanaParameters parameters = little({.code_bits = bits});
    (void)vamana::make_code_space(data, parameters, execution);
    return asked;
  };
  const std::int64_t given = asks_for(8);
  const std::int64_t chosen = asks_for(0);
  EXPECT_GT(chosen, given + 128 * 16) << "a step, an exact search, and the codes of 128 neighbourhoods";
  for (const std::int64_t polls : {given, (given + chosen) / 2, chosen - 1}) {
    most = polls;
    EXPECT_THROW((void)asks_for(0), Cancelled) << polls;
  }
}

}  // namespace
}  // namespace kith
