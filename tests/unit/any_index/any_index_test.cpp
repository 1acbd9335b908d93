// The type-erased index.
#include "kith/any_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kith/error.hpp"
#include "kith/support.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

const std::vector<float> values = {0, 0, 1, 0, 0, 2, 3, 3};
const DatasetView data(values.data(), 4, 2);

TEST(AnyIndex, EverySupportedIndexHasAName) {
  const auto names = index_types();
  for (const Support& entry : supported) {
    EXPECT_NE(std::find(names.begin(), names.end(), entry.index), names.end()) << entry.index;
  }
  for (const std::string& index : names) {
    EXPECT_TRUE(std::any_of(supported.begin(), supported.end(), [&](const Support& entry) {
      return entry.index == index;
    })) << index;
  }
}

TEST(AnyIndex, TellsWhatItHolds) {
  for (const std::string& type : index_types()) {
    const Metric metric = Indexes::get(type).metrics.back();  // no default
    const auto index = AnyIndex::build(type, Dataset::copy(data), metric);
    EXPECT_EQ(index.type(), type);
    EXPECT_EQ(index.rows(), 4);
    EXPECT_EQ(index.dim(), 2);
    EXPECT_EQ(index.dtype(), Dtype::f32);
    EXPECT_EQ(index.metric(), metric);
  }
}

TEST(AnyIndex, CopiesShareTheIndex) {
  auto index = std::make_unique<AnyIndex>(AnyIndex::build("brute_force", Dataset::copy(data)));
  const AnyIndex copy = *index;
  index.reset();
  const Neighbors result = copy.search(data.slice(3, 1), 2);
  EXPECT_EQ(result.indices, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(result.distance(0, 1), 10);
}

TEST(AnyIndex, SavesAndLoadsByTheHeadersName) {
  const test::TemporaryFolder folder;
  AnyIndex::build("brute_force", Dataset::copy(data), Metric::euclidean).save(folder / "index.kith");
  const AnyIndex index = AnyIndex::load(folder / "index.kith");
  EXPECT_EQ(index.type(), "brute_force");
  EXPECT_EQ(index.metric(), Metric::euclidean);
  EXPECT_EQ(index.search(data.slice(0, 1), 2).distance(0, 1), 1);
}

TEST(AnyIndex, OptionsThatATypeDoesNotTakeAreRefusedByName) {
  const auto refusal = [](std::string_view type, const SearchOptions& options) {
    const AnyIndex index = AnyIndex::build(type, Dataset::copy(data));
    return message_of<InvalidArgument>([&] { (void)index.search(data, 1, {}, options); });
  };
  EXPECT_TRUE(contains(refusal("brute_force", {.radius = 1}), "brute_force takes no radius"));
  EXPECT_TRUE(contains(refusal("brute_force", {.radius = 1}), "kd_tree or octree"));
  EXPECT_TRUE(contains(refusal("kd_tree", {.radius = 1, .recall = 0.9}), "kd_tree takes no recall"));
  EXPECT_TRUE(contains(refusal("octree", {.list_size = 64}), "octree takes no list_size"));
  EXPECT_TRUE(contains(refusal("octree", {.beam_width = 4}), "octree takes no beam_width"));
  EXPECT_TRUE(contains(refusal("octree", {.rerank = 10}), "octree takes no rerank"));
}

TEST(AnyIndex, ParametersThatATypeLacksAreNotSet) {
  IndexParameters tree = Indexes::parameters("kd_tree", Metric::euclidean);
  EXPECT_TRUE(set_leaf_size(tree, 32));
  EXPECT_FALSE(set_filter(tree, Filter::int8));
  EXPECT_EQ(std::get<KdTreeParameters>(tree).leaf_size, 32);
  IndexParameters brute_force = Indexes::parameters("brute_force", Metric::cosine);
  EXPECT_TRUE(set_filter(brute_force, Filter::fp16));
  EXPECT_FALSE(set_leaf_size(brute_force, 32));
  EXPECT_EQ(std::get<BruteForceParameters>(brute_force).filter, Filter::fp16);
}

TEST(AnyIndex, TreesKeepToARadius) {
  for (const char* type : {"kd_tree", "octree"}) {
    const AnyIndex index = AnyIndex::build(type, Dataset::copy(data));
    const Neighbors near = index.search(data.slice(0, 1), 3, {}, {.radius = 1});
    EXPECT_EQ(near.indices, (std::vector<std::int64_t>{0, 1, -1})) << type;
  }
}

TEST(AnyIndex, UnknownTypesAreNamed) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { AnyIndex::build("magic_tree", Dataset::copy(data)); }), "magic_tree"));
  EXPECT_THROW(AnyIndex::load("/nowhere/index.kith"), IoError);
}

}  // namespace
}  // namespace kith
