// Clouds that are read from front to back, a block of rows at a time, and never held whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/io.hpp"

namespace kith::io {

/// Rows in order. Read by one thread at a time.
class PointStream {
 public:
  PointStream() = default;
  PointStream(const PointStream&) = delete;
  PointStream& operator=(const PointStream&) = delete;
  virtual ~PointStream() = default;

  virtual std::int64_t rows() const = 0;
  virtual std::int64_t dim() const = 0;
  virtual Dtype dtype() const = 0;

  /// The row that read() goes on with, 0 to rows(); 0 at first. Going back, and then reading on, must give
  /// the same rows. At the end, rows(), what was held for reading may be let go.
  virtual void seek(std::int64_t row) = 0;
  /// These rows will be read soon, elsewhere than read() goes on. Only a hint.
  virtual void expect(std::int64_t /*row*/, std::int64_t /*count*/) {}
  /// The next `count` rows, contiguous; the caller asks for no more than there are.
  /// @throws IoError, Cancelled
  virtual void read(void* out, std::int64_t count) = 0;
};

/// Rows in host memory, kept alive by the stream.
std::unique_ptr<PointStream> stream_rows(const Dataset& rows);

/// The rows of a file, read block by block, whatever its size. Only HDF5 and the one block of a compressed
/// PCD are held whole while rows are read, which must take no more than `memory_limit` bytes (0: no limit).
/// @throws IoError, InvalidArgument, OutOfMemory
std::unique_ptr<PointStream> open_point_stream(const std::filesystem::path& path, std::uint64_t memory_limit,
                                               std::optional<FileFormat> format = {},
                                               std::function<bool()> cancelled = {});

/// Several as one, row numbers running through them in the order given.
/// @param names of each, for messages
/// @throws InvalidArgument where dimension or element type differ
std::unique_ptr<PointStream> concatenate(std::vector<std::unique_ptr<PointStream>> parts,
                                         std::span<const std::filesystem::path> names);

}  // namespace kith::io
