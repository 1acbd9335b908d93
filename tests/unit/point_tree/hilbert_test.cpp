// The order that points and queries take on a GPU.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "point_tree/cuda/hilbert.cuh"

namespace kith {
namespace {

constexpr point_tree::HilbertTable table;
constexpr int digits = 4;
constexpr int cells = 1 << (3 * digits);

// As the device does it.
int along(int code) {
  int state = 0;
  for (int shift = 3 * (digits - 1); shift >= 0; shift -= 3) {
    const int entry = table.next[state | (code >> shift & 7)];
    state = entry & ~7;
    code = (code & ~(7 << shift)) | (entry & 7) << shift;
  }
  return code;
}

int coordinate(int code, int axis) {
  int value = 0;
  for (int bit = 0; bit < digits; ++bit) value |= (code >> (3 * bit + axis) & 1) << bit;
  return value;
}

TEST(Hilbert, VisitsEachCellOnceAndStepsToANeighbour) {
  std::vector<int> cell(cells, -1);
  for (int code = 0; code < cells; ++code) {
    const int place = along(code);
    ASSERT_GE(place, 0);
    ASSERT_LT(place, cells);
    ASSERT_EQ(cell[static_cast<std::size_t>(place)], -1);
    cell[static_cast<std::size_t>(place)] = code;
  }
  for (std::size_t i = 1; i < cell.size(); ++i) {
    int steps = 0;
    for (int axis = 0; axis < 3; ++axis)
      steps += std::abs(coordinate(cell[i], axis) - coordinate(cell[i - 1], axis));
    ASSERT_EQ(steps, 1) << i;
  }
}

// Trees cut codes at any bit: what shares the bits above lies in one of so many equal parts of space.
TEST(Hilbert, PrefixesAreBoxes) {
  std::vector<int> cell(cells);
  for (int code = 0; code < cells; ++code) cell[static_cast<std::size_t>(along(code))] = code;
  for (int bits = 1; bits < 3 * digits; ++bits) {
    const int size = cells >> bits;
    for (int first = 0; first < cells; first += size) {
      int volume = 1;
      for (int axis = 0; axis < 3; ++axis) {
        int least = cells;
        int most = -1;
        for (int i = first; i < first + size; ++i) {
          const int at = coordinate(cell[static_cast<std::size_t>(i)], axis);
          least = at < least ? at : least;
          most = at > most ? at : most;
        }
        volume *= most - least + 1;
      }
      ASSERT_EQ(volume, size) << bits << " bits, from " << first;
    }
  }
}

}  // namespace
}  // namespace kith
