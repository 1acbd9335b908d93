// Memory of a CUDA device for tests that hand it to the library.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kith::test {

inline void cuda_ok(cudaError_t status) {
  ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status);
}

/// Filled with 0xEE or with a copy, which is there when the constructor returns: for streams, too, that wait
/// for no other. A small copy from pageable memory returns when it is staged.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes, int device = 0) : bytes_(bytes), device_(device) {
    cuda_ok(cudaSetDevice(device));
    cuda_ok(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)));
    cuda_ok(cudaMemset(data_, 0xEE, std::max<std::size_t>(bytes, 1)));
    cuda_ok(cudaDeviceSynchronize());
    cuda_ok(cudaSetDevice(0));
  }
  DeviceMemory(const void* from, std::size_t bytes, int device = 0) : DeviceMemory(bytes, device) {
    cuda_ok(cudaSetDevice(device));
    cuda_ok(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice));
    cuda_ok(cudaDeviceSynchronize());
    cuda_ok(cudaSetDevice(0));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { (void)cudaFree(data_); }
  void* data() const { return data_; }
  int device() const { return device_; }
  void read(void* to) const { cuda_ok(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost)); }
  template <class T>
  std::vector<T> read() const {
    std::vector<T> out(bytes_ / sizeof(T));
    read(out.data());
    return out;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
  int device_;
};

}  // namespace kith::test
