// Every format against cut, flipped and mutated files: an answer or an exception of Kith, never anything
// else.
#include <chrono>
#include <random>

#include "fuzz/harness.hpp"
#include "fuzz/seeds.hpp"
#include "unit/io/support.hpp"

namespace kith {
namespace {

using Damage = test::IoTest;

// The readers that start a process for each file are given fewer of them.
bool is_slow(const std::string& format) {
  return format == "hdf5";
}

// Where a file may end early and still be whole: fewer rows of fvecs and its like (2 rows in the seeds),
// ground truth without its distances, text whose last number only gets shorter. HDF5 leaves unused space at
// its end.
bool may_be_cut(const std::string& format, const fuzz::Seed& seed, std::size_t bytes) {
  if (format == "xyz") return true;
  if (seed.name.find("ascii") != std::string::npos) return bytes + 2 >= seed.bytes.size();
  if (format == "json" || format == "table") return bytes + 2 >= seed.bytes.size();
  if (format == "fvecs" || format == "bvecs" || format == "ivecs") return 2 * bytes == seed.bytes.size();
  if (format == "ibin") return bytes == 8 + (seed.bytes.size() - 8) / 2;
  return format == "hdf5";
}

TEST_F(Damage, SeedsAreValid) {
  for (const auto& [format, seeds] : fuzz::make_seeds(folder_)) {
    for (const auto& entry : io::formats()) {
      if (entry.name != format) continue;
      for (const auto& seed : seeds) {
        const auto outcome = fuzz::try_readers(entry, seed.bytes);
        EXPECT_TRUE(outcome.inspected) << seed.name;
        EXPECT_TRUE(outcome.read || outcome.neighbors || format == "index") << seed.name;
      }
    }
  }
}

TEST_F(Damage, TruncationAtEveryLengthIsNoticed) {
  for (const auto& [format, seeds] : fuzz::make_seeds(folder_)) {
    for (const auto& entry : io::formats()) {
      if (entry.name != format) continue;
      for (const auto& seed : seeds) {
        const std::size_t step = is_slow(format) ? 97 : seed.bytes.size() > 4000 ? 13 : 1;
        for (std::size_t bytes = 0; bytes < seed.bytes.size(); bytes += step) {
          const auto outcome = fuzz::try_readers(entry, seed.bytes.substr(0, bytes));
          if (may_be_cut(format, seed, bytes)) continue;
          // A format may tell from the header alone that something is wrong, or only when it reads.
          EXPECT_FALSE(outcome.read || outcome.neighbors) << seed.name << " cut to " << bytes;
          EXPECT_FALSE(format == "index" && outcome.inspected) << seed.name << " cut to " << bytes;
        }
      }
    }
  }
}

TEST_F(Damage, EveryFlippedBitIsSurvived) {
  for (const auto& [format, seeds] : fuzz::make_seeds(folder_)) {
    if (is_slow(format)) continue;
    for (const auto& entry : io::formats()) {
      if (entry.name != format) continue;
      for (const auto& seed : seeds) {
        for (std::size_t bit = 0; bit < 8 * std::min<std::size_t>(seed.bytes.size(), 600); ++bit) {
          std::string bytes = seed.bytes;
          bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
          fuzz::try_readers(entry, bytes);
        }
      }
    }
  }
}

// The fuzzers' idea without their compiler: random edits of valid files, the same in every run.
TEST_F(Damage, MutationsAreSurvived) {
  std::mt19937_64 random(20240229);
  const auto all = fuzz::make_seeds(folder_);
  const auto below = [&random](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (const auto& [format, seeds] : all) {
    for (const auto& entry : io::formats()) {
      if (entry.name != format) continue;
      const int rounds = is_slow(format) ? 40 : 4000;
      for (int round = 0; round < rounds; ++round) {
        std::string bytes = seeds[below(seeds.size())].bytes;
        for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
          const std::size_t at = below(std::min<std::size_t>(bytes.size(), 1024));
          switch (below(6)) {
            case 0: bytes[at] = static_cast<char>(random()); break;
            case 1: bytes[at] = static_cast<char>(below(2) == 0 ? 0 : 0xFF); break;
            case 2: bytes.insert(at, 1 + below(9), "0129-. \n\xff"[below(9)]); break;
            case 3: bytes.erase(at, 1 + below(9)); break;
            case 4: bytes.resize(below(bytes.size())); break;
            default: {  // a large number where one may be
              const std::uint64_t value = random() >> below(64);
              if (at + 8 <= bytes.size()) bytes.replace(at, 8, test::raw(value));
            }
          }
          if (bytes.empty()) break;
        }
        fuzz::try_readers(entry, bytes);
      }
    }
  }
}

}  // namespace
}  // namespace kith
