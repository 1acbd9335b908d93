// The CPU-only build's device memory: there is none.
#include "cuda/device_memory.hpp"

#include "cuda/devices.hpp"
#include "kith/error.hpp"

namespace kith::cuda {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError("GPU memory cannot be used: " + absence() + "; use host memory");
}

}  // namespace

std::shared_ptr<void> allocate(int, std::uint64_t) {
  refuse();
}
std::uint64_t available_bytes(int) {
  refuse();
}
void copy_to_host(const void*, int, void*, std::uint64_t) {
  refuse();
}
void copy_rows_to_host(const DatasetView&, void*) {
  refuse();
}
void copy_to_device(const void*, void*, int, std::uint64_t) {
  refuse();
}
int device_of(const void*) {
  refuse();
}
void* meeting_stream(int) {
  refuse();
}
void meet(int, std::uintptr_t) {
  refuse();
}
void meet_default(int) {
  refuse();
}
void wait_for_meeting(int) {
  refuse();
}

}  // namespace kith::cuda
