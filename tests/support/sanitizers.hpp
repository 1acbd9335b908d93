// Sanitizers slow a program down a hundredfold: what tools/sanitize.sh and compute-sanitizer run is smaller.
#pragma once

#include <cstdlib>
#include <string_view>

namespace kith::test {

/// Whether KITH_CONFORMANCE asks for less than all.
inline bool reduced() {
  const char* size = std::getenv("KITH_CONFORMANCE");
  return size != nullptr && (std::string_view(size) == "reduced" || std::string_view(size) == "brief");
}

}  // namespace kith::test
