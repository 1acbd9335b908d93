// The vectorised partition of a k-d tree's records beside its promise.
#include "kd_tree/cpu/partition.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/instruction_set.hpp"

namespace kith::kd_tree {
namespace {

struct Record {
  float x[3];
  std::uint32_t row;
};

TEST(Partition, MovesWhatIsBelowToTheFront) {
#if defined(__x86_64__)
  const auto& sets = usable_instruction_sets();
  if (std::find(sets.begin(), sets.end(), InstructionSet::avx512_vnni) == sets.end()) {
    GTEST_SKIP() << "this CPU has no AVX-512";
  }
  std::mt19937 random(5);
  for (std::int64_t count = 0; count <= most_partitioned; count += count < 80 ? 1 : 211) {
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      for (const int values : {1, 3, 1000}) {
        constexpr std::uint32_t guard = 0xFFFFFFFFU;  // as a float a NaN
        std::vector<Record> records(static_cast<std::size_t>(count) + 4, Record{{-1, -1, -1}, guard});
        for (std::int64_t i = 0; i < count; ++i) {
          auto& record = records[static_cast<std::size_t>(i)];
          for (float& x : record.x) x = static_cast<float>(random() % static_cast<unsigned>(values));
          record.row = static_cast<std::uint32_t>(i);
        }
        const auto before = records;
        const auto pivot = static_cast<float>(values / 2);
        const std::int64_t below = partition_records_avx512(records.data(), count, axis, pivot);
        std::int64_t wrong = 0;
        std::vector<int> seen(static_cast<std::size_t>(count), 0);
        for (std::int64_t i = 0; i < count; ++i) {
          const Record& record = records[static_cast<std::size_t>(i)];
          wrong += (record.x[axis] < pivot) != (i < below) ? 1 : 0;
          if (record.row >= static_cast<std::uint32_t>(count)) {
            ++wrong;
            continue;
          }
          ++seen[record.row];
          wrong += std::equal(record.x, record.x + 3, before[record.row].x) ? 0 : 1;
        }
        wrong += count - std::count(seen.begin(), seen.end(), 1);
        for (std::int64_t i = count; i < count + 4; ++i) {
          wrong += records[static_cast<std::size_t>(i)].row == guard ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0) << count << " records, axis " << axis << ", " << values << " values";
      }
    }
  }
#endif
}

}  // namespace
}  // namespace kith::kd_tree
