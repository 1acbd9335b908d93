// Lists of neighbours of some queries, as they are found and handed on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace kith::point_tiles {

/// In someone else's memory. T: the type of distances. Each list ascends by (distance, row).
template <class T>
struct Lists {
  std::int64_t queries = 0;
  std::int64_t* rows = nullptr;
  T* distances = nullptr;
  /// Entries of list i: [i * k, (i + 1) * k), the last ones -1 where it is shorter; or, where there are
  /// offsets, [offsets[i], offsets[i + 1]).
  std::int64_t k = 0;
  const std::int64_t* offsets = nullptr;
  /// Where only numbers are asked for: no list has entries then.
  std::int64_t* counts = nullptr;

  std::int64_t begin(std::int64_t i) const { return offsets == nullptr ? i * k : offsets[i]; }
  std::int64_t size(std::int64_t i) const {
    if (counts != nullptr) return counts[i];
    if (offsets != nullptr) return offsets[i + 1] - offsets[i];
    const std::int64_t* list = rows + i * k;
    if (k > 0 && list[k - 1] >= 0) return k;
    return std::find(list, list + k, -1) - list;
  }
  std::int64_t entries(std::int64_t i) const { return counts != nullptr ? 0 : size(i); }
};

/// Lists of queries, with the coordinates that they are about.
template <class T>
struct Block {
  Lists<T> lists;
  const std::byte* queries = nullptr;  ///< one after the other
  /// Coordinates of neighbours, where they are asked for: of entry j at its row, which is a place among
  /// them, or at its number `in_order`.
  const std::byte* points = nullptr;
  bool in_order = false;
};

/// Of a list's distances, summed in their order; NaN without any.
template <class T>
double mean_of(const T* distances, std::int64_t count) {
  double sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += static_cast<double>(distances[j]);
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

/// Takes blocks by the places of their queries. Called by one thread at a time.
template <class T>
class Answers {
 public:
  Answers() = default;
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  virtual ~Answers() = default;
  /// The lists of places [first, first + block.lists.queries), again where one has grown; but for answers
  /// that are numbers, below.
  virtual void put(std::int64_t /*first*/, const Block<T>& /*block*/) {}
  /// The lists of these places that are put next, ascending, are still growing; none: what is put is done.
  virtual void expect_again(std::span<const std::int64_t> /*places*/) {}
  /// Whether lists that are still growing are not to be put.
  virtual bool finished_only() const { return false; }
  /// Of answers that are numbers, the same number of them for each list (Question::reduction): what becomes
  /// of lists, and where that goes.
  virtual void reduce(const Block<T>& /*block*/, double* /*values*/) const {}
  virtual void put_values(std::int64_t /*first*/, std::int64_t /*count*/, const double* /*values*/) {}
  /// The same of places that need not follow each other, all of them done.
  virtual void put_values_at(std::span<const std::int64_t> /*places*/, const double* /*values*/) {}
};

}  // namespace kith::point_tiles
