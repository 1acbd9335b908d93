// A folder of shards, and which of them are open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/fork.hpp"
#include "kith/any_index.hpp"
#include "kith/execution.hpp"
#include "sharded/manifest.hpp"
#include "sharded/row_numbers.hpp"

namespace kith::sharded {

/// Whether a call's devices are GPUs.
bool on_gpu(const Execution& execution);

/// The checksum that a manifest has of an index file. @throws IoError
std::uint64_t header_hash(const std::filesystem::path& path);

/// Thread-safe.
class Folder {
 public:
  /// Reads the manifest and looks at the files. @throws IoError
  explicit Folder(std::filesystem::path path);
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();

  const std::filesystem::path& path() const noexcept { return path_; }
  const Manifest& manifest() const noexcept { return manifest_; }
  const IndexType& type() const noexcept { return *type_; }
  std::int64_t shards() const noexcept { return static_cast<std::int64_t>(manifest_.shards.size()); }

  struct Opened {
    AnyIndex index;
    RowNumbers numbers;
    Execution left;  ///< with what is left of the limits for the search
  };
  /// The shard, opened if it is not, and kept open where there is room under the limits of `execution`.
  /// @throws IoError for a file that is not what the manifest says; what AnyIndex::load throws
  Opened open_shard(std::int64_t number, const Execution& execution) const;

  /// Checks a shard's index file against the manifest; `sections`: every byte of it. @throws IoError,
  /// Cancelled
  void check_shard(std::int64_t number, bool sections, const std::function<bool()>& cancelled) const;

  void close() const;
  std::int64_t open_shards() const;
  std::uint64_t memory_bytes() const;

 private:
  struct Slot;
  class Turn;
  /// Bytes of an open shard, or of several: of their files, made anew in host memory, on GPUs.
  struct Held {
    std::uint64_t file = 0;
    std::uint64_t made = 0;
    std::uint64_t device = 0;
  };
  /// Bytes that open shards may take.
  struct Room {
    std::uint64_t host = 0;
    std::uint64_t device = 0;
    explicit Room(const Execution& execution);
    bool holds(const Held& open, const Held& more) const;
  };

  const Shard& shard(std::int64_t number) const { return manifest_.shards[static_cast<std::size_t>(number)]; }
  Slot& slot(std::int64_t number) const { return *slots_[static_cast<std::size_t>(number)]; }
  std::filesystem::path file_of(std::int64_t number) const { return path_ / shard(number).file; }
  void check_file(const std::string& name, std::uint64_t bytes) const;
  AnyIndex load(std::int64_t number, const Execution& execution) const;
  Held held_by(std::int64_t number, const AnyIndex& index, const Execution& execution) const;
  // Under the lock:
  Held open_but(std::int64_t number) const;
  Held expected(std::int64_t number) const;
  Held largest_closed_but(std::int64_t number) const;
  void close_beyond(const Room& room, std::int64_t number) const;

  std::filesystem::path path_;
  Manifest manifest_;
  const IndexType* type_ = nullptr;
  mutable std::mutex mutex_;  // of what slots hold; not held while a shard is opened
  std::vector<std::unique_ptr<Slot>> slots_;
  std::optional<ForkHook> hook_;
};

}  // namespace kith::sharded
