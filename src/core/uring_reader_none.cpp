// Stands in where the build has no liburing.
#include "core/uring_reader.hpp"

namespace kith {

std::unique_ptr<PieceReader> make_uring_reader() {
  return nullptr;
}

}  // namespace kith
