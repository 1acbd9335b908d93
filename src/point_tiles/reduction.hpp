// What a device makes of the neighbours of a tile's own rows, for all of them at once: normals or mean
// distances, and how far the k-th neighbour is, which says whose lists need other tiles.
#pragma once

#include <cstdint>

#include "core/aligned_buffer.hpp"
#include "kith/execution.hpp"
#include "point_tiles/devices.hpp"
#include "point_tiles/question.hpp"
#include "point_tiles/resident.hpp"

namespace kith::point_tiles {

/// Whether that is so for a tile.
inline bool reduces(const Question& question, const Resident& where) {
  return question.reduction != Reduction::none && question.kind == Kind::nearest &&
         (where.device.kind == Device::Kind::cuda || cpu_as_device) && where.index.point_tree() != nullptr;
}

/// Of the rows of a tile. Keeps its memory from tile to tile. T: the type of distances.
template <class T>
class Reduced {
 public:
  /// @param where a tile whose tree lies on a device, which `execution` names
  void find(const Resident& where, const Question& question, const Execution& execution);

  /// Question::reduced_values() of each row.
  double* values() { return values_.data(); }
  /// The k-th distance of a row's list within the tile, +inf where that is shorter.
  T kth(std::int64_t row) const { return kth_[row]; }

 private:
  void planes(const Resident& where, const Question& question, const Execution& execution);
  void mean(const Resident& where, const Question& question, const Execution& execution);
  void reserve(std::int64_t rows, std::int64_t values);
  void distances(const PointTree& tree, const Neighborhood& others, const char* stage, double* mean,
                 const Execution& execution);
  void set_kth(std::int64_t rows, std::int64_t k, const Execution& execution);

  AlignedBuffer<double> values_;
  AlignedBuffer<T> kth_;
  AlignedBuffer<double> parts_;  // as the tree gives them
  AlignedBuffer<std::int64_t> counts_;
};

}  // namespace kith::point_tiles
