// Codes and their rows in order: CUB's radix sort.
#include <type_traits>

#include <cub/device/device_radix_sort.cuh>

#include "point_tree/cuda/build_common.cuh"

namespace kith::point_tree::build_steps {
namespace {

// CUB counts in 32 bits where that is enough.
template <class Id>
using SortCount = std::conditional_t<sizeof(Id) == 4, std::uint32_t, std::int64_t>;

template <class Id>
cudaError_t sort_with(void* temporary, std::size_t& bytes, cub::DoubleBuffer<std::uint64_t>& keys,
                      cub::DoubleBuffer<Id>& values, std::int64_t count, int bits, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, values, static_cast<SortCount<Id>>(count), 0,
                                         bits, stream);
}

}  // namespace

template <class Id>
std::size_t sort_bytes(std::int64_t count, int bits) {
  cub::DoubleBuffer<std::uint64_t> keys;
  cub::DoubleBuffer<Id> values;
  std::size_t bytes = 0;
  KITH_CUDA(sort_with(nullptr, bytes, keys, values, count, bits, nullptr));
  return bytes;
}

template <class Id>
int sort(std::uint64_t* const keys[2], Id* const values[2], std::int64_t count, int bits, void* temporary,
         std::size_t temporary_bytes, cudaStream_t stream) {
  cub::DoubleBuffer<std::uint64_t> key_buffers(keys[0], keys[1]);
  cub::DoubleBuffer<Id> value_buffers(values[0], values[1]);
  KITH_CUDA(sort_with(temporary, temporary_bytes, key_buffers, value_buffers, count, bits, stream));
  // CUB swaps both or neither.
  return key_buffers.selector;
}

#define KITH_FOR_ID(Id)                                                                               \
  template std::size_t sort_bytes<Id>(std::int64_t, int);                                             \
  template int sort<Id>(std::uint64_t* const[2], Id* const[2], std::int64_t, int, void*, std::size_t, \
                        cudaStream_t);
KITH_FOR_ID(std::uint32_t)
KITH_FOR_ID(std::int64_t)

}  // namespace kith::point_tree::build_steps
