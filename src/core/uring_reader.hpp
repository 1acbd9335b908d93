// The reader by io_uring, which not every build and not every kernel has.
#pragma once

#include <memory>

#include "core/piece_reader.hpp"

namespace kith {

/// Null where there is none: built without liburing, or the kernel refuses (too old, or a sandbox).
std::unique_ptr<PieceReader> make_uring_reader();

}  // namespace kith
