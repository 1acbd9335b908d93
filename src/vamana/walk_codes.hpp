// Codes that walks compare in place of the scalar ones: RaBitQ or product quantization, of fewer bits.
//
// They are codes of the scalar codes of 8 bits, which the graph is built by: vectors of small integers whose
// squared distance is nearly that of the rows, for every metric and dtype, without infinities. So rows that
// are one node have one code here too, and the graph is the one it would be without. Once it is built, the
// scalar codes are given up.
#pragma once

#include <cstdint>
#include <memory>

#include "codes/coding.hpp"
#include "codes/scalar.hpp"
#include "core/aligned_buffer.hpp"
#include "kith/execution.hpp"
#include "kith/vamana.hpp"
#include "vamana/graph.hpp"
#include "vamana/ruled_out.hpp"

namespace kith::vamana {

struct Backend;

struct WalkCodes {
  CodeKind kind = CodeKind::rabitq;
  std::shared_ptr<const codes::Coding> coding;
  AlignedBuffer<std::uint8_t> codes;  ///< [nodes, coding->code_bytes()]

  std::int64_t code_bytes() const { return coding->code_bytes(); }
  std::uint64_t bytes() const { return codes.bytes() + coding->memory_bytes(); }
};

/// What `parameters` ask for, with defaults filled in. @param code_dim values of the scalar codes
RabitqParameters rabitq_of(const VamanaParameters& parameters);
PqParameters pq_of(const VamanaParameters& parameters, std::int64_t code_dim);

/// Codes of all nodes; null where the parameters ask for scalar codes or there are no nodes.
/// @param coding of the index that nodes were added to; null: trained on these
/// @throws OutOfMemory, DeviceError, Cancelled
std::shared_ptr<const WalkCodes> make_walk_codes(const Nodes& nodes, const codes::ScalarSpace& space,
                                                 const VamanaParameters& parameters,
                                                 std::shared_ptr<const codes::Coding> coding,
                                                 const Backend& backend, const Execution& execution);

/// Bytes that make_walk_codes takes at its peak, for so many nodes.
std::uint64_t walk_code_bytes(const codes::ScalarSpace& space, const VamanaParameters& parameters,
                              std::int64_t nodes);

/// Which candidates of a walk need no evaluation, since RaBitQ's bound says, with rerank_confidence, that
/// they are farther than `worst`, a canonical distance.
class RuledOut {
 public:
  /// @param query in the rows' dtype @param worker told that query, with that confidence
  RuledOut(const codes::ScalarSpace& space, const WalkCodes& codes, codes::Worker& worker, const void* query);

  /// Candidates must be estimated at most this far, less their bound; infinite where none is ruled out.
  double limit(double worst) const;
  bool operator()(std::uint32_t node, double limit) const;

 private:
  RuledOutLimit limit_;
  const WalkCodes& codes_;
  codes::Worker& worker_;
  double norm_ = 0;  // inner product: |q|
};

}  // namespace kith::vamana
