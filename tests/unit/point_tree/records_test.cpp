// The vectorised kernels of a k-d tree's builder beside their promises.
#include "kd_tree/cpu/records.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"

#if defined(__x86_64__)
namespace kith::kd_tree {
namespace {

struct Record {
  float x[3];
  std::uint32_t row;
  bool operator==(const Record& other) const { return row == other.row && std::equal(x, x + 3, other.x); }
};

constexpr Record guard{{-1, -1, -1}, 0xFFFFFFFFU};  // as a float its row is a NaN
RecordKernels kernels = record_kernels_avx512;      // those that are tested

class Records : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    const auto& sets = usable_instruction_sets();
    if (std::find(sets.begin(), sets.end(), GetParam()) == sets.end()) {
      GTEST_SKIP() << "this CPU has no " << name(GetParam());
    }
    kernels = GetParam() == InstructionSet::avx2 ? record_kernels_avx2 : record_kernels_avx512;
  }

  // `count` records of about `values` values and a few guards.
  std::vector<Record> some(std::int64_t count, unsigned values) {
    std::vector<Record> records(static_cast<std::size_t>(count) + 4, guard);
    for (std::int64_t i = 0; i < count; ++i) {
      Record& record = records[static_cast<std::size_t>(i)];
      for (float& x : record.x)
        x = static_cast<float>(random_.below(values)) - static_cast<float>(values) / 4;
      record.row = static_cast<std::uint32_t>(i);
    }
    return records;
  }
  static bool guarded(const std::vector<Record>& records) {
    return std::all_of(records.end() - 4, records.end(), [](const Record& r) { return r == guard; });
  }

  conformance::Random random_{5};
};

TEST_P(Records, TheNthDividesThem) {
  for (std::int64_t count = 1; count <= most_selected; count += count < 80 ? 1 : 211) {
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      for (const unsigned values : {1U, 2U, 3U, 40U, 100000U}) {
        auto records = some(count, values);
        if (values == 40) {  // far from evenly spread
          for (auto& record : records) {
            if (!(record == guard)) record.x[axis] = std::ldexp(1.0F, static_cast<int>(record.x[axis]) * 3);
          }
        }
        const auto before = records;
        std::vector<float> sorted;
        for (std::int64_t i = 0; i < count; ++i)
          sorted.push_back(records[static_cast<std::size_t>(i)].x[axis]);
        std::sort(sorted.begin(), sorted.end());
        const auto nth = random_.below(count);
        float value = -1;
        ASSERT_TRUE(kernels.select(records.data(), nth, count, axis, sorted.front(), sorted.back(), &value));
        std::int64_t wrong = value == sorted[static_cast<std::size_t>(nth)] ? 0 : 1;
        std::vector<int> seen(static_cast<std::size_t>(count), 0);
        for (std::int64_t i = 0; i < count; ++i) {
          const Record& record = records[static_cast<std::size_t>(i)];
          wrong += (i < nth ? record.x[axis] <= value : record.x[axis] >= value) ? 0 : 1;
          if (record.row >= static_cast<std::uint32_t>(count)) {
            ++wrong;
            continue;
          }
          ++seen[record.row];
          wrong += record == before[record.row] ? 0 : 1;
        }
        wrong += count - std::count(seen.begin(), seen.end(), 1);
        EXPECT_TRUE(guarded(records));
        EXPECT_EQ(wrong, 0) << count << " records, axis " << axis << ", " << values << " values, nth " << nth;
      }
    }
  }
}

TEST_P(Records, BoxesAndLeavesHoldAllOfThem) {
  for (std::int64_t count = 1; count <= 100; ++count) {
    const auto records = some(count, 1000);
    float lower[4];
    float upper[4];
    float leaf_lower[4];
    float leaf_upper[4];
    kernels.box(records.data(), count, lower, upper);
    std::vector<float> coordinates(static_cast<std::size_t>(3 * count) + 1, -7);
    std::vector<std::uint32_t> rows(static_cast<std::size_t>(count) + 1, 77);
    kernels.write_leaf(records.data(), count, coordinates.data(), rows.data(), leaf_lower, leaf_upper);
    for (std::int64_t j = 0; j < 3; ++j) {
      std::vector<float> along;
      for (std::int64_t i = 0; i < count; ++i) along.push_back(records[static_cast<std::size_t>(i)].x[j]);
      const auto [least, most] = std::minmax_element(along.begin(), along.end());
      EXPECT_EQ(lower[j], *least);
      EXPECT_EQ(upper[j], *most);
      EXPECT_EQ(leaf_lower[j], *least);
      EXPECT_EQ(leaf_upper[j], *most);
      EXPECT_TRUE(std::equal(along.begin(), along.end(), coordinates.begin() + j * count)) << count;
    }
    for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(rows[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(coordinates.back(), -7);
    EXPECT_EQ(rows.back(), 77);
  }
}

// Sifts and deals `points` from one kind of place to another and compares with plain code.
void check_division(const std::vector<Record>& points, const Sieve<float>& sieve, bool from_records,
                    bool numbered, bool to_records) {
  const auto count = static_cast<std::int64_t>(points.size());
  const auto size = points.size();
  constexpr std::int64_t first_row = 1000;
  std::vector<float> values;
  std::vector<std::uint32_t> rows;
  std::vector<Record> records = points;
  for (std::size_t i = 0; i < size; ++i) {
    values.insert(values.end(), points[i].x, points[i].x + 3);
    rows.push_back(numbered ? static_cast<std::uint32_t>(first_row + static_cast<std::int64_t>(i))
                            : points[i].row);
    records[i].row = rows[i];
  }
  PointsFrom from{values.data(), 3, numbered ? nullptr : rows.data(), first_row};
  if (from_records) from = {records.data()->x, 4, nullptr, 0};

  const std::size_t parts = std::size_t{1} << static_cast<unsigned>(sieve.levels);
  std::vector<std::vector<Record>> expected(parts);
  std::vector<unsigned char> expected_part;
  for (const Record& record : records) {
    std::size_t node = 1;
    while (node < parts) node = 2 * node + (record.x[sieve.axis[node]] >= sieve.value[node] ? 1U : 0U);
    expected[node - parts].push_back(record);
    expected_part.push_back(static_cast<unsigned char>(node - parts));
  }

  std::vector<unsigned char> part(size + 1, 99);
  std::array<std::int64_t, most_parts> counts{};
  kernels.sift(from.values, from.stride, count, sieve, part.data(), counts.data());
  EXPECT_EQ(part.back(), 99);
  part.pop_back();
  ASSERT_EQ(part, expected_part);

  std::vector<Record> moved(size + 1, guard);
  std::vector<float> moved_values(3 * size + 1, -7);
  std::vector<std::uint32_t> moved_rows(size + 1, 77);
  PointsTo to{moved_values.data(), 3, moved_rows.data()};
  if (to_records) to = {moved.data()->x, 4, nullptr};
  std::array<std::int64_t, most_parts> next{};
  for (std::size_t c = 0; c < parts; ++c) {
    ASSERT_EQ(counts[c], static_cast<std::int64_t>(expected[c].size()));
    if (c + 1 < parts) next[c + 1] = next[c] + counts[c];
  }
  kernels.deal(from, count, part.data(), to, next.data());
  std::size_t at = 0;
  for (const auto& expected_points : expected) {
    for (const Record& record : expected_points) {
      if (to_records) {
        ASSERT_EQ(moved[at], record);
      } else {
        ASSERT_TRUE(std::equal(record.x, record.x + 3, moved_values.data() + 3 * at));
        ASSERT_EQ(moved_rows[at], record.row);
      }
      ++at;
    }
  }
  EXPECT_EQ(moved.back(), guard);
  EXPECT_EQ(moved_values.back(), -7);
  EXPECT_EQ(moved_rows.back(), 77);
}

TEST_P(Records, PointsGoWhereComparisonsSendThem) {
  for (const std::int64_t count : {1, 15, 16, 17, 63, 64, 65, 200, 1000}) {
    for (int levels = 1; levels <= 4; ++levels) {
      auto points = some(count, 100);
      points.resize(static_cast<std::size_t>(count));
      Sieve<float> sieve{};
      sieve.levels = levels;
      for (int node = 1; node < 1 << levels; ++node) {
        sieve.axis[node] = static_cast<std::int32_t>(random_.below(3));
        sieve.value[node] = static_cast<float>(random_.below(100)) - 25;
      }
      for (const bool sorted : {false, true}) {  // runs of one part take another way
        if (sorted) {
          std::sort(points.begin(), points.end(), [&](const Record& a, const Record& b) {
            return a.x[sieve.axis[1]] < b.x[sieve.axis[1]];
          });
        }
        for (const bool to_records : {false, true}) {
          check_division(points, sieve, true, false, to_records);
          check_division(points, sieve, false, false, to_records);
          check_division(points, sieve, false, true, to_records);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Records, testing::Values(InstructionSet::avx2, InstructionSet::avx512_vnni),
                         [](const auto& kernel) { return std::string(name(kernel.param)); });

}  // namespace
}  // namespace kith::kd_tree
#endif
