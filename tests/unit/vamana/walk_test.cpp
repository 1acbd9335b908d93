// Walks against their definition: what the list holds is a function of the set of nodes that were met.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "vamana/cpu/walk.hpp"

namespace kith::vamana {
namespace {

constexpr std::int64_t bytes = 32;
constexpr std::int64_t degree = 12;

// Nodes on a line, codes with many ties, edges anywhere.
struct Example {
  Nodes nodes;
  std::vector<std::uint32_t> edges;
  std::vector<std::uint32_t> entries;
  std::vector<std::uint8_t> query;
  RowSet allowed{0};

  explicit Example(conformance::Random& random, std::int64_t count) {
    nodes.count = count;
    nodes.codes = AlignedBuffer<std::uint8_t>(count * bytes);
    const std::int64_t levels = random.below(2) == 0 ? 3 : 200;
    for (std::int64_t i = 0; i < count * bytes; ++i) {
      nodes.codes.data()[i] = i % bytes < 2 ? static_cast<std::uint8_t>(random.below(levels)) : 0;
    }
    if (random.below(2) == 0) {  // nodes of one to three rows
      std::uint32_t row = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        nodes.first.push_back(row);
        for (std::int64_t j = random.below(3); j >= 0; --j) nodes.rows.push_back(row++);
      }
      nodes.first.push_back(row);
    }
    edges.assign(static_cast<std::size_t>(count * degree), no_node);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t some = random.below(degree + 1);
      for (std::int64_t j = 0; j < some; ++j) {
        edges[static_cast<std::size_t>(i * degree + j)] = static_cast<std::uint32_t>(random.below(count));
      }
    }
    entries = {0, static_cast<std::uint32_t>(count - 1)};
    query.assign(bytes, 0);
    query[0] = static_cast<std::uint8_t>(random.below(levels));
    const std::int64_t rows = nodes.plain() ? count : static_cast<std::int64_t>(nodes.rows.size());
    allowed = RowSet(rows);
    const std::int64_t one_of = 1 + random.below(6);
    for (std::int64_t row = 0; row < rows; ++row) {
      if (random.below(one_of) == 0) allowed.insert(row);
    }
  }

  WalkedGraph graph() const {
    return {edges.data(), degree, nodes.codes.data(), bytes, codes::estimate_kernels().gathered, entries};
  }
  Key key(std::uint32_t node) const {
    std::int32_t sum = 0;
    for (std::int64_t j = 0; j < bytes; ++j) {
      const int difference = nodes.codes.data()[node * bytes + j] - query[static_cast<std::size_t>(j)];
      sum += difference * difference;
    }
    return make_key(sum, node);
  }
  bool allows(std::uint32_t node) const {
    for (std::int64_t j = 0; j < nodes.rows_of(node); ++j) {
      if (allowed.contains(nodes.row(node, j))) return true;
    }
    return false;
  }
};

// The walk as walk.hpp defines it: all that was met, sorted, and cut anew after each step.
std::vector<Key> as_defined(const Example& example, const WalkPlan& plan) {
  std::vector<Key> met;
  std::vector<Key> done;
  const auto meet = [&](std::uint32_t node) {
    if (node != no_node && node != plan.left_out) met.push_back(example.key(node));
  };
  for (const std::uint32_t entry : example.entries) meet(entry);
  for (;;) {
    std::ranges::sort(met);
    met.erase(std::unique(met.begin(), met.end()), met.end());
    std::vector<Key> list;
    std::int64_t allowed = 0;
    for (const Key key : met) {
      if (static_cast<std::int64_t>(list.size()) == plan.longest_list || allowed == plan.list_size) break;
      list.push_back(key);
      allowed += example.allows(node_of(key)) ? 1 : 0;
    }
    std::vector<Key> beam;
    for (const Key key : list) {
      if (static_cast<std::int64_t>(beam.size()) == plan.beam_width) break;
      if (std::ranges::find(done, key) == done.end()) beam.push_back(key);
    }
    if (beam.empty()) return list;
    for (const Key key : beam) {
      done.push_back(key);
      for (std::int64_t j = 0; j < degree; ++j) {
        meet(example.edges[static_cast<std::size_t>(node_of(key) * degree + j)]);
      }
    }
  }
}

TEST(WalkAmongAllowed, IsWhatItsDefinitionSays) {
  conformance::Random random(11);
  std::int64_t failed = 0, cut_by_allowed = 0, complete = 0;
  for (int round = 0; round < 400; ++round) {
    // The table of a short list forgets some of so many nodes.
    Example example(random, 2 + random.below(round % 8 == 0 ? 4000 : 400));
    const AllowedNodes allowed{example.nodes, &example.allowed};
    WalkPlan plan{.query = example.query.data(),
                  .list_size = 1 + random.below(24),
                  .allowed = &allowed,
                  .beam_width = 1 + random.below(3)};
    plan.longest_list = plan.list_size + random.below(80);
    if (random.below(3) == 0) plan.left_out = static_cast<std::uint32_t>(random.below(example.nodes.count));
    const std::vector<Key> expected = as_defined(example, plan);
    std::vector<Key> expected_allowed = expected;
    std::erase_if(expected_allowed, [&](Key key) { return !example.allows(node_of(key)); });
    const auto enough = static_cast<std::int64_t>(expected_allowed.size()) == plan.list_size;
    const bool full = static_cast<std::int64_t>(expected.size()) == plan.longest_list;
    (enough ? cut_by_allowed : full ? failed : complete) += 1;

    // A node's neighbours in any order: they are offered in another one.
    for (int order = 0; order < 4; ++order) {
      Walk walk(example.graph());
      const Execution execution;
      StopRequest stop(execution);
      Walk::Counters counters;
      std::vector<Key> list;
      for (const Key key : walk.run(plan, stop, counters)) list.push_back(key & ~expanded);
      ASSERT_EQ(list, expected) << round;
      ASSERT_TRUE(std::ranges::equal(walk.allowed(), expected_allowed)) << round;
      ASSERT_EQ(walk.failed(), full && !enough) << round;
      for (std::int64_t i = 0; i < example.nodes.count; ++i) {
        const auto its = example.edges.begin() + i * degree;
        const auto end = std::find(its, its + degree, no_node);
        for (auto at = end; at - its > 1; --at) std::swap(*(at - 1), its[random.below(at - its)]);
      }
      std::swap(example.entries.front(), example.entries.back());
    }
  }
  EXPECT_GT(failed, 10);
  EXPECT_GT(cut_by_allowed, 50);
  EXPECT_GT(complete, 10);
}

// Where every row is allowed a walk among allowed rows is the plain one.
TEST(WalkAmongAllowed, IsThePlainWalkWhereAllAre) {
  conformance::Random random(12);
  for (int round = 0; round < 50; ++round) {
    Example example(random, 2 + random.below(400));
    for (std::int64_t row = 0; row < example.allowed.rows(); ++row) example.allowed.insert(row);
    const AllowedNodes allowed{example.nodes, &example.allowed};
    Walk walk(example.graph());
    const Execution execution;
    StopRequest stop(execution);
    WalkPlan plan{.query = example.query.data(), .list_size = 1 + random.below(24)};
    Walk::Counters plain_counters, counters;
    const auto list = walk.run(plan, stop, plain_counters);
    const std::vector<Key> plain(list.begin(), list.end());
    plan.allowed = &allowed;
    plan.longest_list = 4 * plan.list_size;
    const auto again = walk.run(plan, stop, counters);
    EXPECT_TRUE(std::ranges::equal(again, plain)) << round;
    EXPECT_EQ(counters.hops, plain_counters.hops);
    EXPECT_EQ(walk.allowed().size(), plain.size());
  }
}

// A walk with a long list, where shorter ones would have ended.
TEST(ShorterLists, AreThoseOfWalksOfTheirOwn) {
  conformance::Random random(13);
  std::int64_t shorter_than_asked = 0, full = 0;
  for (int round = 0; round < 300; ++round) {
    Example example(random, 2 + random.below(round % 8 == 0 ? 4000 : 400));
    while (example.entries.size() < static_cast<std::size_t>(random.below(40))) {
      example.entries.push_back(static_cast<std::uint32_t>(random.below(example.nodes.count)));
    }
    ShorterLists shorter;
    for (std::int64_t size = 1 + random.below(5); shorter.sizes.size() < 8; size += random.below(20)) {
      shorter.sizes.push_back(size);
    }
    WalkPlan plan{.query = example.query.data(), .list_size = shorter.sizes.back()};
    if (random.below(3) == 0) plan.left_out = static_cast<std::uint32_t>(random.below(example.nodes.count));
    const Execution execution;
    StopRequest stop(execution);
    Walk walk(example.graph());
    Walk::Counters counters;
    plan.shorter = &shorter;
    (void)walk.run(plan, stop, counters);
    ASSERT_EQ(shorter.taken, shorter.sizes.size());
    plan.shorter = nullptr;
    for (std::size_t i = 0; i < shorter.sizes.size(); ++i) {
      plan.list_size = shorter.sizes[i];
      Walk own(example.graph());
      Walk::Counters its;
      ASSERT_TRUE(std::ranges::equal(own.run(plan, stop, its), shorter.lists[i]))
          << round << ", " << plan.list_size;
      ASSERT_EQ(its.hops, shorter.hops[i]) << round << ", " << plan.list_size;
      (static_cast<std::int64_t>(shorter.lists[i].size()) < plan.list_size ? shorter_than_asked : full) += 1;
    }
  }
  EXPECT_GT(shorter_than_asked, 50);
  EXPECT_GT(full, 500);
}

}  // namespace
}  // namespace kith::vamana
