// 10,000 damaged files of every format: a graph, or an exception of Kith, never anything else.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "fuzz/graph_harness.hpp"
#include "support/graph_files.hpp"

namespace kith {
namespace {

bool read(const std::string& format, const std::string& bytes) {
  return fuzz::try_graph_reader(format, std::as_bytes(std::span(bytes)));
}

// Flips bits, writes telling numbers over others, cuts, or appends.
std::string damaged(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  // Headers are damaged as often as all the rest.
  const auto place = [&] {
    return below(random() % 2 == 0 ? std::min<std::size_t>(bytes.size(), 128) : bytes.size());
  };
  switch (random() % 4) {
    case 0:
      for (std::size_t i = 0; i <= below(4); ++i) {
        char& byte = bytes[place()];
        byte = static_cast<char>(byte ^ (1 << below(8)));
      }
      break;
    case 1: {
      constexpr std::uint64_t numbers[] = {0,          1,          0xFF,        0xFFFF,
                                           0x7FFFFFFF, 0xFFFFFFFF, 0x100000001, ~std::uint64_t{0}};
      const std::string number = test::raw_bytes(numbers[below(std::size(numbers))]);
      const std::size_t at = place() / 4 * 4;
      bytes.replace(at, std::min(number.size(), bytes.size() - at), number, 0,
                    std::min(number.size(), bytes.size() - at));
      break;
    }
    case 2: bytes.resize(below(bytes.size())); break;
    default: bytes.append(1 + below(64), static_cast<char>(random() % 256));
  }
  return bytes;
}

TEST(DamagedGraphs, SeedsAreValid) {
  for (const auto& [format, seeds] : test::graph_seeds()) {
    for (const auto& [name, bytes] : seeds) EXPECT_TRUE(read(format, bytes)) << format << " " << name;
  }
}

TEST(DamagedGraphs, TruncationAtEveryLengthIsNoticed) {
  for (const auto& [format, seeds] : test::graph_seeds()) {
    for (const auto& [name, bytes] : seeds) {
      for (std::size_t size = 0; size<bytes.size(); size += bytes.size()> 2000 ? 13 : 1) {
        EXPECT_FALSE(read(format, bytes.substr(0, size))) << format << " " << name << " cut to " << size;
      }
    }
  }
}

TEST(DamagedGraphs, TenThousandOfEachFormat) {
  for (const auto& [format, seeds] : test::graph_seeds()) {
    std::mt19937_64 random(20231);
    int good = 0;
    for (int i = 0; i < 10'000; ++i) {
      good += read(format, damaged(seeds[static_cast<std::size_t>(i) % seeds.size()].second, random)) ? 1 : 0;
    }
    EXPECT_LT(good, 6000) << format;  // bits of rows may be any
  }
}

}  // namespace
}  // namespace kith
