#include "point_tiles/running_hash.hpp"

#include <new>

#include <xxhash.h>

namespace kith::point_tiles {
namespace {

XXH3_state_t* as_state(void* state) {
  return static_cast<XXH3_state_t*>(state);
}

}  // namespace

RunningHash::RunningHash() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  (void)XXH3_64bits_reset(as_state(state_.get()));
}

void RunningHash::add(const void* from, std::size_t bytes) {
  (void)XXH3_64bits_update(as_state(state_.get()), from, bytes);
}

std::uint64_t RunningHash::value() const {
  return XXH3_64bits_digest(as_state(state_.get()));
}

void RunningHash::Free::operator()(void* state) const noexcept {
  (void)XXH3_freeState(as_state(state));
}

}  // namespace kith::point_tiles
