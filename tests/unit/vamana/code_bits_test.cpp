// Bits a value of codes, where that is left to the data.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/instruction_set.hpp"
#include "kith/error.hpp"
#include "kith/vamana.hpp"
#include "support/errors.hpp"
#include "support/threads.hpp"

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

// Values in -1 to 1 that vary in all directions.
class Values {
 public:
  double next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state_ >> 11U) * 0x1p-52 - 1;
  }

 private:
  std::uint64_t state_ = 1;
};

Dataset everywhere(std::int64_t count, std::int64_t values) {
  Values random;
  std::vector<float> data(static_cast<std::size_t>(count * values));
  for (float& value : data) value = static_cast<float>(random.next());
  return Dataset::copy(DatasetView(data.data(), count, values));
}

// A hundred rows around each centre, closer together than a step of codes of four bits.
Dataset in_tight_clusters() {
  Values random;
  std::vector<float> centres(static_cast<std::size_t>(rows / 100 * dim));
  for (float& value : centres) value = static_cast<float>(random.next());
  std::vector<float> data;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < dim; ++j) {
      const float centre = centres[static_cast<std::size_t>(i % (rows / 100) * dim + j)];
      data.push_back(centre + static_cast<float>(random.next()) / 100);
    }
  }
  return Dataset::copy(DatasetView(data.data(), rows, dim));
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
  const Dataset data = in_tight_clusters();
  const Vamana chosen = Vamana::build(data, little({.code_dim = dim}));
  EXPECT_EQ(chosen.parameters().code_bits, 8);
  EXPECT_EQ(chosen.graph_hash(), Vamana::build(data, little({.code_bits = 8, .code_dim = dim})).graph_hash());
}

TEST(VamanaCodeBits, AreEightWhereHalvesSaveLittle) {
  EXPECT_EQ(bits_of(everywhere(rows, dim - 1)), 8) << "values";
  EXPECT_EQ(bits_of(everywhere(4000, dim)), 8) << "rows";
  EXPECT_EQ(bits_of(everywhere(rows, dim), {.code_dim = 352}), 8) << "directions";
  EXPECT_EQ(bits_of(everywhere(rows, dim), {.codes = CodeKind::rabitq}), 8) << "other codes";
  std::vector<std::uint8_t> bytes;
  Values random;
  for (std::int64_t i = 0; i < rows * dim; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(128 + 127 * random.next()));
  }
  const Dataset integers = Dataset::copy(DatasetView(bytes.data(), rows, dim));
  EXPECT_EQ(bits_of(integers), 8) << "their own codes";
  EXPECT_EQ(bits_of(integers, {.metric = Metric::cosine}), 4);
}

TEST(VamanaCodeBits, RowsWithoutAValueHaveNoSay) {
  Values random;
  std::vector<float> data(static_cast<std::size_t>(rows * dim));
  for (float& value : data) value = static_cast<float>(random.next());
  for (std::int64_t i = 0; i < rows; i += 3) data[static_cast<std::size_t>(i * dim)] = std::nanf("");
  EXPECT_EQ(bits_of(Dataset::copy(DatasetView(data.data(), rows, dim))), 4);
  for (float& value : data) value = std::nanf("");
  EXPECT_EQ(bits_of(Dataset::copy(DatasetView(data.data(), rows, dim))), 8);
}

TEST(VamanaCodeBits, AreLookedForUntilTheCallerStops) {
  const Dataset data = everywhere(rows, dim);
  for (const int polls : {1, 5, 20}) {
    Execution execution = with_threads(1);
    int asked = 0;
    execution.cancelled = [&] { return ++asked > polls; };
    EXPECT_THROW((void)Vamana::build(data, little(), execution), Cancelled) << polls;
  }
}

}  // namespace
}  // namespace kith
