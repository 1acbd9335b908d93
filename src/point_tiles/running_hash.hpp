// The checksum of bytes that come one part after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kith::point_tiles {

/// XXH3-64; how the bytes are cut into parts changes nothing. Move-only.
class RunningHash {
 public:
  RunningHash();
  void add(const void* from, std::size_t bytes);
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(void* state) const noexcept;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace kith::point_tiles
