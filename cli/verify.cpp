// kith verify: every checksum of what Kith has saved.
#include <exception>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "io/index_file.hpp"
#include "run.hpp"
#include "shards.hpp"
#include "tiles.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

// What it is. @throws IoError
std::string verify(const Common& common, const std::string& path) {
  const Execution execution = make_execution(common);
  if (is_shards(path)) {
    const Sharded shards = Sharded::open(path);
    run_cancellable(common, execution, [&](const Execution& how) {
      shards.verify(how);
      return 0;
    });
    return fmt::format("{}, {} in {}", Sharded::type_name, plural(shards.rows(), "row"),
                       plural(shards.shards(), "shard"));
  }
  if (is_tiles(path)) {
    const PointTiles tiles = PointTiles::open(path);
    run_cancellable(common, execution, [&](const Execution& how) {
      tiles.verify(how);
      return 0;
    });
    return fmt::format("{}, {} in {}", PointTiles::type_name, plural(tiles.rows(), "row"),
                       plural(tiles.tiles(), "tile"));
  }
  return run_cancellable(common, execution, [&](const Execution& how) {
    const IndexFile file = IndexFile::open(path, true, how.cancelled);
    return fmt::format("index of type {}", file.header().at("index").get<std::string>());
  });
}

void run(const Common& common, const std::vector<std::string>& files) {
  nlohmann::json list = nlohmann::json::array();
  std::exception_ptr first_failure;
  for (const std::string& path : files) {
    try {
      const std::string what = verify(common, path);
      list.push_back({{"file", path}, {"content", what}});
      if (!common.json) print(fmt::format("{}: sound ({})\n", path, what));
    } catch (const IoError& error) {
      // The others are still read; the first failure decides the exit status.
      if (first_failure != nullptr) {
        fmt::print(stderr, "kith verify: error: {}\n", error.what());
      } else {
        first_failure = std::current_exception();
      }
    }
  }
  if (common.json && first_failure == nullptr) print_json({{"sound", list}});
  flush_stdout();
  if (first_failure != nullptr) std::rethrow_exception(first_failure);
}

}  // namespace

void add_verify(CLI::App& app, Common& common) {
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App& command =
      add_command(app, common, "verify", "Check every checksum of saved indexes, point tiles and shards",
                  [files, &common] { run(common, *files); });
  common.file(command.add_option("INDEX", *files, "Files and folders that kith build and kith shard wrote")
                  ->type_name("FILE")
                  ->required());
  common.about(command).details = {
      "Reads all of each, so that damage is found now and not by a search. Of point tiles also the row "
      "numbers and the boxes "
      "are checked. The exit status is 2 where something is damaged, and the message names it."};
  common.about(command).examples = {{"kith verify county.tiles", "Every tile of a folder."},
                                    {"kith verify *.kith", "Many indexes."}};
}

}  // namespace kith::cli
