// What is made of the neighbours of a tile's own rows, for all of them at once: normals or mean distances,
// and how far the k-th neighbour is, which says whose lists need other tiles. A device does so where the
// lists are; on the CPU a list is used while it is in the cache, and nobody keeps it.
#pragma once

#include <cstdint>
#include <limits>

#include "core/aligned_buffer.hpp"
#include "kith/execution.hpp"
#include "point_tiles/devices.hpp"
#include "point_tiles/question.hpp"
#include "point_tiles/resident.hpp"

namespace kith::point_tiles {

/// Whether that is so for a tile; otherwise its rows' lists are found first.
inline bool reduces(const Question& question, const Resident& where) {
  return question.reduction != Reduction::none && question.kind == Kind::nearest &&
         where.index.point_tree() != nullptr;
}

/// Of the rows of a tile. Keeps its memory from tile to tile. T: the type of distances.
template <class T>
class Reduced {
 public:
  /// @param where a tile whose tree lies where `execution` says
  void find(const Resident& where, const Question& question, const Execution& execution);

  /// Question::reduced_values() of each row.
  double* values() { return values_.data(); }
  /// The k-th distance of a row's list within the tile, +inf where that is shorter.
  T kth(std::int64_t row) const { return kth_[row]; }
  /// That neighbour's place in the tile, where it is known: on the CPU. Above all places elsewhere.
  std::int64_t kth_row(std::int64_t row) const {
    return kth_rows_.empty() ? std::numeric_limits<std::int64_t>::max() : kth_rows_[row];
  }

 private:
  void on_cpu(const Resident& where, const Question& question, const Execution& execution);
  void planes(const Resident& where, const Question& question, const Execution& execution);
  void mean(const Resident& where, const Question& question, const Execution& execution);
  void distances(const PointTree& tree, const Neighborhood& others, const char* stage, double* mean,
                 const Execution& execution);
  void set_kth(std::int64_t rows, std::int64_t k, const Execution& execution);

  AlignedBuffer<double> values_;
  AlignedBuffer<T> kth_;
  AlignedBuffer<std::int64_t> kth_rows_;
  AlignedBuffer<double> parts_;  // as a device gives them
  AlignedBuffer<std::int64_t> counts_;
};

}  // namespace kith::point_tiles
