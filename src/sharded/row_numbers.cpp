#include "sharded/row_numbers.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/positioned_file.hpp"
#include "kith/error.hpp"
#include "point_tiles/running_hash.hpp"

namespace kith::sharded {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t block_bytes = std::size_t{16} << 20U;

std::uint64_t hash_of(const MappedFile& file, const std::function<bool()>& cancelled) {
  StopRequest stop(cancelled);
  const auto bytes = file.bytes();
  point_tiles::RunningHash hash;
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    stop.check();
    hash.add(bytes.data() + at, std::min(block_bytes, bytes.size() - at));
  }
  return hash.value();
}

template <class Number>
bool ascend_below(std::span<const std::byte> bytes, std::int64_t end) {
  const std::span numbers(reinterpret_cast<const Number*>(bytes.data()), bytes.size() / sizeof(Number));
  return std::ranges::adjacent_find(numbers, std::greater_equal<>()) == numbers.end() &&
         (numbers.empty() || numbers.back() < static_cast<std::uint64_t>(end));
}

}  // namespace

RowNumbers RowNumbers::open(const fs::path& folder, const Shard& shard,
                            const std::function<bool()>& cancelled) {
  RowNumbers made(shard.base);
  if (shard.numbers.bytes == 0) return made;
  const fs::path path = folder / shard.numbers.file;
  const auto damaged = [&](const char* why) {
    return IoError(fmt::format("'{}' is corrupt: {}; build the shards again", path.string(), why));
  };
  made.file_ = MappedFile::open(path);
  const auto bytes = made.file_->bytes();
  if (bytes.size() != shard.numbers.bytes) throw damaged("it is not as long as the manifest says");
  if (hash_of(*made.file_, cancelled) != shard.numbers.hash) {
    throw damaged("it does not match its checksum in the manifest");
  }
  made.wide_ = bytes.size() / sizeof(std::uint64_t) == static_cast<std::uint64_t>(shard.rows);
  made.bytes_ = bytes.data();
  const bool sound = made.wide_ ? ascend_below<std::uint64_t>(bytes, shard.span)
                                : ascend_below<std::uint32_t>(bytes, shard.span);
  if (!sound) throw damaged("its row numbers do not ascend, or there are no such rows");
  return made;
}

NumbersFile write_numbers(const fs::path& folder, std::int64_t shard, std::span<const std::int64_t> numbers) {
  NumbersFile made{.file = numbers_file(shard)};
  OutputFile file = OutputFile::lasting(folder / made.file);
  file.truncate(0);
  const auto write = [&]<class Number>(Number) {
    std::vector<Number> block;
    constexpr std::size_t most = block_bytes / sizeof(Number);
    for (std::size_t at = 0; at < numbers.size(); at += most) {
      const auto some = numbers.subspan(at, std::min(most, numbers.size() - at));
      block.assign(some.begin(), some.end());
      file.write(at * sizeof(Number), block.data(), block.size() * sizeof(Number));
    }
  };
  if (numbers.empty() || numbers.back() <= std::numeric_limits<std::uint32_t>::max()) {
    write(std::uint32_t{});
  } else {
    write(std::uint64_t{});
  }
  file.sync();
  made.bytes = file.size();
  made.hash = numbers_hash(folder / made.file);
  return made;
}

std::uint64_t numbers_hash(const fs::path& path, const std::function<bool()>& cancelled) {
  return hash_of(*MappedFile::open(path), cancelled);
}

}  // namespace kith::sharded
