// Folders of shards that were built apart become one.
#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/parallel.hpp"
#include "core/positioned_file.hpp"
#include "kith/error.hpp"
#include "point_tiles/work_folder.hpp"
#include "sharded/build.hpp"
#include "sharded/folder.hpp"
#include "sharded/manifest.hpp"

namespace kith::sharded {
namespace {

namespace fs = std::filesystem;
using point_tiles::WorkFolder;

constexpr const char* folder_name = "shards";

std::string kind_of(const Manifest& manifest) {
  return fmt::format("{} ({}) over {} of dimension {}", manifest.index, name(manifest.metric),
                     name(manifest.dtype), manifest.dim);
}

void check_alike(const Folder& first, const Folder& other) {
  const std::string expected = kind_of(first.manifest());
  const std::string found = kind_of(other.manifest());
  if (expected == found) return;
  throw InvalidArgument(fmt::format("'{}' holds shards of {}, '{}' of {}; join those that were built alike",
                                    first.path().string(), expected, other.path().string(), found));
}

// A second name for the same bytes, which nobody changes; a copy on another file system, or where there are
// no links.
void take(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::create_hard_link(from, to, failed);
  if (!failed) return;
  if (!fs::copy_file(from, to, failed) || failed) {
    throw IoError(fmt::format("cannot write '{}': {}", to.string(), failed.message()));
  }
  OutputFile::lasting(to).sync();
}

}  // namespace

void join(const fs::path& folder, std::span<const fs::path> parts, const Execution& execution) {
  if (parts.empty()) throw InvalidArgument("no folder of shards to join; name one or more");
  check_place(folder);
  StopRequest stop(execution);
  std::vector<std::unique_ptr<const Folder>> its;
  for (const fs::path& part : parts) {
    std::error_code ignored;
    if (fs::equivalent(part, folder, ignored)) {
      throw InvalidArgument(
          fmt::format("'{}' is one of the parts, which stay; name another folder", folder.string()));
    }
    its.push_back(std::make_unique<const Folder>(part));
    check_alike(*its.front(), *its.back());
  }
  // Linking is soon done again: nothing to go on from.
  WorkFolder work(folder, {{"call", "join"}}, false);
  const fs::path made = work.file(folder_name);
  std::error_code ignored;
  fs::create_directory(made, ignored);
  Manifest all = its.front()->manifest();
  all.shards.clear();
  all.rows = 0;
  for (const auto& part : its) {
    for (std::int64_t i = 0; i < part->shards(); ++i) {
      stop.check();
      part->check_shard(i, false, execution.cancelled);
      Shard shard = part->manifest().shards[static_cast<std::size_t>(i)];
      (void)RowNumbers::open(part->path(), shard, execution.cancelled);
      if (std::ssize(all.shards) == most_shards) {
        throw InvalidArgument(fmt::format("more than {} shards; join fewer", most_shards));
      }
      const auto number = std::ssize(all.shards);
      const auto take_as = [&](std::string& file, std::string name) {
        take(part->path() / file, made / name);
        file = std::move(name);
      };
      take_as(shard.file, shard_file(number));
      if (shard.numbers.bytes > 0) take_as(shard.numbers.file, numbers_file(number));
      shard.base += all.rows;
      all.shards.push_back(std::move(shard));
    }
    all.rows += part->manifest().rows;
  }
  OutputFile file = OutputFile::lasting(work.file(fmt::format("{}/{}", folder_name, io::manifest_name)));
  const std::string text = to_text(all);
  file.truncate(0);
  file.write(0, text.data(), text.size());
  file.sync();
  sync_folder(made);
  work.finish({{folder_name, folder.has_filename() ? folder : folder.parent_path()}});
}

}  // namespace kith::sharded
