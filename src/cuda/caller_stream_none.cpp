// The CPU-only build: no stream of anybody's to wait for.
#include "cuda/caller_stream.hpp"

namespace kith::cuda {

void wait_for_caller(const Execution&, std::initializer_list<int>) {}

void follow_elsewhere(Execution&, std::initializer_list<int>) {}

}  // namespace kith::cuda
