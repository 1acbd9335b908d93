// The parts of a Vamana index, for rooms above that read and write other libraries' graphs.
#pragma once

#include <cstddef>
#include <vector>

#include "kith/vamana.hpp"
#include "vamana/file.hpp"

namespace kith::vamana {

struct Parts {
  static const Contents& of(const Vamana& index);

  /// An index over a graph that has a node for each row, in their order, with edges within its nodes. Codes
  /// are made, recall is measured.
  /// @param layers goes into Contents::layers
  /// @throws InvalidArgument for rows or parameters that an index does not take, or a row with a NaN;
  /// OutOfMemory,
  ///   DeviceError, Cancelled
  static Vamana assemble(const Dataset& rows, Graph graph, const VamanaParameters& parameters,
                         std::vector<std::byte> layers, const Execution& execution);
};

}  // namespace kith::vamana
