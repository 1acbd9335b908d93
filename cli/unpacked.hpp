// LAZ, COPC and E57, which Python unpacks: python/kith/_unpack.py.
#pragma once

#include <filesystem>
#include <vector>

#include "common.hpp"

namespace kith::cli {

/// The same files, with an npy beside `folder` in the place of each that is compressed, while the object
/// lives.
class UnpackedClouds {
 public:
  /// @throws IoError, Cancelled
  UnpackedClouds(const Common& common, std::vector<std::filesystem::path> paths,
                 const std::filesystem::path& folder);
  UnpackedClouds(const UnpackedClouds&) = delete;
  UnpackedClouds& operator=(const UnpackedClouds&) = delete;
  ~UnpackedClouds() { remove(); }

  const std::vector<std::filesystem::path>& paths() const noexcept { return paths_; }

 private:
  void remove() noexcept;
  std::vector<std::filesystem::path> paths_;
  std::vector<std::filesystem::path> made_;
};

}  // namespace kith::cli
