// A new type of index is a class and an entry in the list: everything else follows. The one added here looks
// at every other row only, and says that it is approximate.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

struct EveryOtherRowParameters {
  Metric metric = Metric::sqeuclidean;
  std::int64_t first = 0;
};

class EveryOtherRow {
 public:
  using Parameters = EveryOtherRowParameters;
  static constexpr Metric metrics[] = {Metric::sqeuclidean, Metric::manhattan};
  static constexpr Dtype dtypes[] = {Dtype::f32};
  static constexpr Device::Kind backends[] = {Device::Kind::cpu};
  static constexpr SearchOption options[] = {SearchOption::recall, SearchOption::rerank};
  static constexpr IndexType index_type = {.name = "every_other_row",
                                           .class_name = "EveryOtherRow",
                                           .summary = "half of the rows",
                                           .guarantee = Guarantee::approximate,
                                           .largest_dim = 8,
                                           .dtypes = dtypes,
                                           .metrics = metrics,
                                           .backends = backends,
                                           .options = options};

  static EveryOtherRow build(const DatasetView& rows, const Parameters& parameters, const Execution&) {
    DatasetView half = rows.slice(parameters.first, rows.rows - parameters.first);
    half.rows = (half.rows + 1) / 2;
    half.row_stride *= 2;
    return {BruteForce::build(Dataset::copy(half), {parameters.metric, Filter::none}), parameters.first};
  }
  static EveryOtherRow load(const std::filesystem::path& path, const Execution&) {
    throw IoError(path.string() + " is not to be had");
  }
  Neighbors search(const DatasetView& queries, std::int64_t k, const Execution& execution,
                   const SearchOptions& asked = {}) const {
    Neighbors found = half_.search(queries, k, execution);
    for (std::int64_t& row : found.indices) row = row < 0 ? row : first_ + 2 * row;
    found.statistics.candidates = asked.rerank.value_or(0);
    return found;
  }
  SearchStatistics search_into(const DatasetView&, const NeighborsView&, const Execution&,
                               const SearchOptions& = {}) const {
    return {};
  }
  void save(const std::filesystem::path&, const Execution&) const {}
  std::int64_t rows() const { return half_.rows(); }
  std::int64_t dim() const { return half_.dim(); }
  Dtype dtype() const { return half_.dtype(); }
  Metric metric() const { return half_.metric(); }
  std::uint64_t memory_bytes() const { return half_.memory_bytes(); }

 private:
  EveryOtherRow(BruteForce half, std::int64_t first) : half_(std::move(half)), first_(first) {}
  BruteForce half_;
  std::int64_t first_;
};

static_assert(IndexClass<EveryOtherRow>);

using More = Registry<BruteForce, KdTree, Octree, Vamana, EveryOtherRow>;

const std::vector<float> values = {0, 0, 1, 0, 0, 2, 3, 3};
const DatasetView data(values.data(), 4, 2);

TEST(Registry, KnowsANewTypeByItsEntry) {
  static_assert(More::types.size() == Indexes::types.size() + 1);
  ASSERT_NE(More::find("every_other_row"), nullptr);
  EXPECT_EQ(Indexes::find("every_other_row"), nullptr);
  EXPECT_EQ(More::get("every_other_row").guarantee, Guarantee::approximate);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([] { More::get("no_such"); }), "vamana, every_other_row"));
}

TEST(Registry, ListsWhatANewTypeSupports) {
  constexpr auto all = More::make_supported();
  std::int64_t found = 0;
  for (const Support& entry : all) {
    if (entry.index != "every_other_row") continue;
    ++found;
    EXPECT_EQ(entry.dtype, Dtype::f32);
    EXPECT_EQ(entry.backend, Device::Kind::cpu);
  }
  EXPECT_EQ(found, 2);
  static_assert(all.size() == Indexes::make_supported().size() + 2);
  EXPECT_FALSE(EveryOtherRow::index_type.takes(Metric::cosine));
  EXPECT_FALSE(EveryOtherRow::index_type.takes_dim(9));
}

TEST(Registry, BuildsANewTypeByNameAndByParameters) {
  const AnyIndex named =
      More::build(Dataset::copy(data), More::parameters("every_other_row", Metric::manhattan), {});
  EXPECT_EQ(named.type(), "every_other_row");
  EXPECT_EQ(named.metric(), Metric::manhattan);
  EXPECT_EQ(named.search(data.slice(1, 1), 2).indices, (std::vector<std::int64_t>{0, 2}));
  const AnyIndex odd = More::build(Dataset::copy(data), EveryOtherRowParameters{.first = 1}, {});
  EXPECT_EQ(odd.search(data.slice(0, 1), 1).indices, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(odd.point_tree(), nullptr);
  EXPECT_NE(odd.get_if<EveryOtherRow>(), nullptr);
}

TEST(Registry, HandsANewTypeItsOptionsAndRefusesOthers) {
  const AnyIndex index = More::build(Dataset::copy(data), EveryOtherRowParameters{}, {});
  EXPECT_EQ(index.search(data, 1, {}, {.recall = 0.5, .rerank = 7}).statistics.candidates, 7);
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { (void)index.search(data, 1, {}, {.list_size = 10}); }),
               "every_other_row takes no list_size"));
}

TEST(Registry, LoadsByNameAndLeavesOtherNamesToTheCaller) {
  EXPECT_TRUE(
      contains(message_of<IoError>([] { (void)More::load("every_other_row", "/x", {}); }), "not to be had"));
  EXPECT_FALSE(More::load("no_such", "/x", {}).has_value());
}

}  // namespace
}  // namespace kith
