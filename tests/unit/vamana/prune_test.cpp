// Robust prune against its definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "vamana/cpu/prune.hpp"
#include "vamana/grow.hpp"

namespace kith::vamana {
namespace {

constexpr std::int64_t bytes = 32;

std::int64_t distance(const std::vector<std::uint8_t>& codes, std::uint32_t a, std::uint32_t b) {
  std::int64_t sum = 0;
  for (std::int64_t j = 0; j < bytes; ++j) {
    const int difference =
        codes[static_cast<std::size_t>(a * bytes + j)] - codes[static_cast<std::size_t>(b * bytes + j)];
    sum += difference * difference;
  }
  return sum;
}

// Algorithm 2 of Subramanya et al. as it is printed: the nearest candidate is chosen, then those that it
// covers are struck out.
std::vector<std::uint32_t> as_printed(const std::vector<std::uint8_t>& codes, std::uint32_t node,
                                      std::vector<std::uint32_t> candidates, double alpha,
                                      std::size_t degree) {
  std::erase(candidates, node);
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  std::vector<std::uint32_t> chosen;
  while (!candidates.empty() && chosen.size() < degree) {
    const auto nearest =
        *std::min_element(candidates.begin(), candidates.end(), [&](std::uint32_t a, std::uint32_t b) {
          return std::pair(distance(codes, node, a), a) < std::pair(distance(codes, node, b), b);
        });
    chosen.push_back(nearest);
    std::erase_if(candidates, [&](std::uint32_t c) {
      return c == nearest ||
             fixed_alpha(alpha) * distance(codes, nearest, c) <= distance(codes, node, c) * 65536;
    });
  }
  return chosen;
}

TEST(RobustPrune, IsWhatThePaperPrints) {
  conformance::Random random(5);
  for (int round = 0; round < 60; ++round) {
    const auto nodes = static_cast<std::uint32_t>(2 + random.below(120));
    const std::int64_t levels = round % 3 == 0 ? 3 : 256;  // many ties, or few
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(nodes * bytes));
    for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(levels));
    std::vector<std::uint32_t> candidates;
    for (std::uint32_t i = 0; i < 2 * nodes; ++i) {
      candidates.push_back(static_cast<std::uint32_t>(random.below(nodes)));
    }
    for (const double alpha : {1.0, 1.1, 1.2, 2.0}) {
      for (const std::int64_t degree : {1, 4, 32, 1000}) {
        const auto expected = as_printed(codes, 0, candidates, alpha, static_cast<std::size_t>(degree));
        for (const InstructionSet set : usable_instruction_sets()) {
          force_instruction_set(set);
          Pruner pruner(codes.data(), bytes, codes::estimate_kernels().gathered, alpha, degree);
          const auto chosen = pruner.prune(0, candidates);
          EXPECT_TRUE(std::equal(chosen.begin(), chosen.end(), expected.begin(), expected.end()))
              << "round " << round << " alpha " << alpha << " degree " << degree << " " << name(set);
        }
        force_instruction_set(std::nullopt);
      }
    }
  }
}

TEST(Keys, OrderByEstimateThenNode) {
  constexpr std::int32_t most = 2147483647;
  const Key last = make_key(most, no_node - 1);
  EXPECT_EQ(estimate_of(last), most);
  EXPECT_EQ(node_of(last), no_node - 1);
  EXPECT_EQ(node_of(last | expanded), no_node - 1);
  EXPECT_LT(make_key(1, 7), make_key(2, 3));
  EXPECT_LT(make_key(2, 3) | expanded, make_key(2, 4));
}

}  // namespace
}  // namespace kith::vamana
