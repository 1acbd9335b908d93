// The streams that a call comes after: what the caller's streams still do to its arrays, where no stream of
// ours could be ordered after them. No CUDA types: in a CPU-only build there is nothing to wait for.
#pragma once

#include <initializer_list>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"

namespace kith::cuda {

/// The device in whose memory something lies; -1 for the host's.
constexpr int place_of(MemorySpace space, int device) {
  return space == MemorySpace::cuda ? device : -1;
}

/// Waits until what the call comes after is done: all that `execution.stream` has been given, or the default
/// streams of the current device, of those that run the call, and of those where `arrays` lie (-1: none).
/// Call it on the caller's thread, with the caller's device current. @throws DeviceError
void wait_for_caller(const Execution& execution, std::initializer_list<int> arrays);

/// The same where more than the current device has a part in it, which `execution` then says: that nothing is
/// left to follow. Else it does nothing: the stream that does the work follows the caller's (wait_for() in
/// upload.hpp), and the host need not wait. @throws DeviceError
void follow_elsewhere(Execution& execution, std::initializer_list<int> arrays);

}  // namespace kith::cuda
