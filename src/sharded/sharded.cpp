// Sharded: folders, what they are built from and what they hold. Answers are in search.cpp.
#include "kith/sharded.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include "core/parallel.hpp"
#include "core/plural.hpp"
#include "core/search_checks.hpp"
#include "io/point_stream.hpp"
#include "kith/error.hpp"
#include "sharded/build.hpp"
#include "sharded/folder.hpp"
#include "sharded/row_numbers.hpp"

namespace kith {

std::string_view name(Partition partition) noexcept {
  switch (partition) {
    case Partition::automatic: return "auto";
    case Partition::rows: return "rows";
    case Partition::space: return "space";
  }
  return "?";
}

Partition parse_partition(std::string_view text) {
  for (const Partition partition : {Partition::automatic, Partition::rows, Partition::space}) {
    if (text == name(partition)) return partition;
  }
  throw InvalidArgument(fmt::format("partition '{}' is not one Kith knows; use auto, rows or space", text));
}

namespace {

namespace fs = std::filesystem;

// A file as it is now: name, bytes, time of its last change. 0: what came through a pipe is no file that
// another run finds again, nor is one whose time is 0, by which programs mark what they write for this call
// alone.
nlohmann::json source_of(const fs::path& file) {
  struct stat status {};
  const bool found =
      ::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && !file.string().starts_with("/proc/");
  const std::int64_t bytes = found ? status.st_size : 0;
  const std::int64_t modified =
      found ? std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec : 0;
  return {file.string(), bytes, modified};
}

// The next rows of a stream, in host memory.
Dataset read_rows(io::PointStream& stream, std::int64_t first, std::int64_t count,
                  const Execution& execution) {
  constexpr std::size_t block_bytes = std::size_t{16} << 20U;
  StopRequest stop(execution);
  Dataset rows = Dataset::allocate(stream.dtype(), count, stream.dim());
  const std::size_t row_bytes = static_cast<std::size_t>(stream.dim()) * size_of(stream.dtype());
  const auto block = static_cast<std::int64_t>(std::max<std::size_t>(block_bytes / row_bytes, 1));
  auto* to = static_cast<std::byte*>(rows.mutable_data());
  stream.seek(first);
  for (std::int64_t at = 0; at < count; at += block) {
    stop.check();
    stream.read(to + static_cast<std::size_t>(at) * row_bytes, std::min(block, count - at));
  }
  return rows;
}

void check_number(std::int64_t number, std::int64_t shards) {
  if (number >= 0 && number < shards) return;
  throw InvalidArgument(fmt::format("shard {} of {}; use 0 to {}", number, shards, shards - 1));
}

}  // namespace

Sharded Sharded::build(const fs::path& folder, std::span<const fs::path> files,
                       const ShardedParameters& parameters, const Execution& execution) {
  if (files.empty()) throw InvalidArgument("no file to build shards from; name one or more");
  std::vector<std::unique_ptr<io::PointStream>> parts;
  nlohmann::json sources = nlohmann::json::array();
  bool resumable = true;
  for (const fs::path& file : files) {
    parts.push_back(io::open_point_stream(file, execution.memory_limit / 2, {}, execution.cancelled));
    sources.push_back(source_of(file));
    resumable = resumable && sources.back().back() != 0;
  }
  const auto stream = io::concatenate(std::move(parts), files);
  const sharded::RowSource rows = {.rows = stream->rows(),
                                   .dim = stream->dim(),
                                   .dtype = stream->dtype(),
                                   .in_memory = false,
                                   .take = [&](std::int64_t first, std::int64_t count) {
                                     return read_rows(*stream, first, count, execution);
                                   }};
  sharded::build(rows, sources, resumable, folder, parameters, execution);
  return open(folder);
}

Sharded Sharded::build(const fs::path& folder, const DatasetView& rows, const ShardedParameters& parameters,
                       const Execution& execution) {
  validate(rows, "dataset");
  if (rows.space != MemorySpace::host) {
    throw InvalidArgument(
        "the rows lie in the memory of a GPU, shards are saved from host memory; copy them to the host");
  }
  const sharded::RowSource source = {.rows = rows.rows,
                                     .dim = rows.dim,
                                     .dtype = rows.dtype,
                                     .in_memory = true,
                                     .take = [&](std::int64_t first, std::int64_t count) {
                                       return Dataset::adopt(rows.slice(first, count), nullptr);
                                     }};
  // Another process does not find these rows.
  sharded::build(source, nlohmann::json::array(), false, folder, parameters, execution);
  return open(folder);
}

Sharded Sharded::join(const fs::path& folder, std::span<const fs::path> parts, const Execution& execution) {
  sharded::join(folder, parts, execution);
  return open(folder);
}

Sharded Sharded::open(const fs::path& folder) {
  return Sharded(std::make_shared<const sharded::Folder>(folder));
}

bool Sharded::is_at(const fs::path& path) {
  return io::has_manifest(sharded::manifest_kind, path);
}

AnyIndex Sharded::shard(std::int64_t number, const Execution& execution) const {
  check_number(number, shards());
  return folder_->open_shard(number, execution).index;
}

std::vector<std::int64_t> Sharded::row_numbers(std::int64_t number, const Execution& execution) const {
  check_number(number, shards());
  const sharded::Shard& shard = folder_->manifest().shards[static_cast<std::size_t>(number)];
  check_answer_memory(shard.rows, sizeof(std::int64_t), plural(shard.rows, "row"), "their numbers",
                      execution);
  const auto numbers = sharded::RowNumbers::open(folder_->path(), shard, execution.cancelled);
  return or_out_of_memory([&] { return fmt::format("the numbers of {} rows", shard.rows); },
                          [&] {
                            std::vector<std::int64_t> rows(static_cast<std::size_t>(shard.rows));
                            for (std::int64_t i = 0; i < shard.rows; ++i) {
                              rows[static_cast<std::size_t>(i)] = numbers(i);
                            }
                            return rows;
                          });
}

void Sharded::verify(const Execution& execution) const {
  ProgressCounter progress(execution, "verify", rows());
  std::optional<RowSet> group;  // the rows of shards that share a base
  for (std::int64_t i = 0; i < shards(); ++i) {
    folder_->check_shard(i, true, execution.cancelled);
    const sharded::Shard& shard = folder_->manifest().shards[static_cast<std::size_t>(i)];
    if (shard.numbers.bytes > 0) {
      const auto numbers = sharded::RowNumbers::open(folder_->path(), shard, execution.cancelled);
      if (!group) group.emplace(shard.span);
      const std::int64_t before = group->count();
      for (std::int64_t row = 0; row < shard.rows; ++row) group->insert(numbers(row) - shard.base);
      if (group->count() - before < shard.rows) {
        throw IoError(
            fmt::format("'{}' is corrupt: it has rows that another shard has, too; build the shards again",
                        (folder_->path() / shard.numbers.file).string()));
      }
      if (group->count() == shard.span) group.reset();
    }
    progress.advance(shard.rows);
  }
  progress.finish();
}

void Sharded::close() const {
  folder_->close();
}

const IndexType& Sharded::index_type() const noexcept {
  return folder_->type();
}
std::int64_t Sharded::rows() const noexcept {
  return folder_->manifest().rows;
}
std::int64_t Sharded::dim() const noexcept {
  return folder_->manifest().dim;
}
Dtype Sharded::dtype() const noexcept {
  return folder_->manifest().dtype;
}
Metric Sharded::metric() const noexcept {
  return folder_->manifest().metric;
}
std::int64_t Sharded::shards() const noexcept {
  return folder_->shards();
}
Partition Sharded::partition() const noexcept {
  const bool any = std::ranges::any_of(folder_->manifest().shards,
                                       [](const sharded::Shard& shard) { return shard.numbers.bytes > 0; });
  return any ? Partition::space : Partition::rows;
}
std::vector<std::int64_t> Sharded::shard_rows() const {
  std::vector<std::int64_t> rows;
  for (const sharded::Shard& shard : folder_->manifest().shards) rows.push_back(shard.rows);
  return rows;
}
std::int64_t Sharded::open_shards() const {
  return folder_->open_shards();
}
std::uint64_t Sharded::memory_bytes() const {
  return folder_->memory_bytes();
}
std::uint64_t Sharded::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const sharded::Shard& shard : folder_->manifest().shards) sum += shard.files_bytes();
  return sum;
}
std::uint64_t Sharded::largest_shard_bytes() const noexcept {
  std::uint64_t largest = 0;
  for (const sharded::Shard& shard : folder_->manifest().shards)
    largest = std::max(largest, shard.files_bytes());
  return largest;
}
const fs::path& Sharded::folder() const noexcept {
  return folder_->path();
}

}  // namespace kith
