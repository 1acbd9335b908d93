// Sets of rows.
#include "kith/row_set.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "kith/error.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

TEST(RowSet, HoldsWhatWasPutIn) {
  for (const std::int64_t rows : {0, 1, 63, 64, 65, 1000}) {
    RowSet set(rows);
    EXPECT_EQ(set.rows(), rows);
    EXPECT_EQ(set.count(), 0);
    std::vector<std::uint8_t> flags(static_cast<std::size_t>(rows));
    std::vector<std::int64_t> numbers;
    for (std::int64_t row = rows - 1; row >= 0; row -= 3) {
      set.insert(row);
      set.insert(row);  // counts once
      flags[static_cast<std::size_t>(row)] = 2;
      numbers.push_back(row);
    }
    for (const RowSet& same : {set, RowSet::from_flags(flags), RowSet::from_indices(rows, numbers)}) {
      EXPECT_EQ(same.count(), static_cast<std::int64_t>(numbers.size()));
      for (std::int64_t row = 0; row < rows; ++row) {
        EXPECT_EQ(same.contains(row), flags[static_cast<std::size_t>(row)] != 0) << row;
      }
    }
  }
}

TEST(RowSet, RefusesRowsThatAreNotThere) {
  RowSet set(10);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { set.insert(10); }), "use 0 to 9"));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { set.insert(-1); }), "row -1 in a set over 10 rows"));
  EXPECT_EQ(set.count(), 0);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([] { RowSet(0).insert(0); }), "over no rows"));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([] { RowSet(-1); }), "-1 rows"));
}

}  // namespace
}  // namespace kith
