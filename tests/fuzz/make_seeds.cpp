// make_seeds FOLDER: writes the starting corpus, FOLDER/<format>/<file>.
#include <cstdio>
#include <exception>

#include "fuzz/seeds.hpp"
#include "fuzz/tile_harness.hpp"
#include "sharded/manifest.hpp"
#include "support/graph_files.hpp"

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const auto scratch = folder / "scratch";
  std::filesystem::create_directories(scratch);
  for (const auto& [format, seeds] : kith::fuzz::make_seeds(scratch)) {
    std::filesystem::create_directories(folder / format);
    for (const auto& seed : seeds) {
      std::ofstream(folder / format / seed.name, std::ios::binary) << seed.bytes;
    }
  }
  for (const auto& [format, seeds] : kith::test::graph_seeds()) {
    std::filesystem::create_directories(folder / format);
    for (const auto& [name, bytes] : seeds) {
      std::ofstream(folder / format / name, std::ios::binary) << bytes;
    }
  }
  for (const auto& [format, seeds] : kith::fuzz::tile_seeds()) {
    std::filesystem::create_directories(folder / format);
    for (const auto& seed : seeds) {
      std::ofstream(folder / format / seed.name, std::ios::binary) << seed.bytes;
    }
  }
  // The content alone: the fuzzer puts the rest around it.
  kith::sharded::Manifest shards = {.index = "kd_tree", .dim = 3, .rows = 5};
  shards.shards = {{.file = "shard-0.kith", .base = 0, .rows = 2, .bytes = 4096, .hash = 7},
                   {.file = "shard-1.kith", .base = 2, .rows = 3, .bytes = 8192, .hash = 8}};
  shards.shards[1].lower = {0, 0.5, -1};
  shards.shards[1].upper = {1, 0.5, 4e9};
  std::filesystem::create_directories(folder / "shards");
  const auto save_content = [&](const char* name) {
    const std::string text = kith::sharded::to_text(shards);
    constexpr std::string_view mark = "\"content\":";
    const std::size_t content = text.find(mark) + mark.size();
    std::ofstream(folder / "shards" / name, std::ios::binary)
        << text.substr(content, text.size() - content - 2);
  };
  save_content("two.json");
  shards.shards[0].numbers = {.file = "shard-0.rows", .bytes = 8, .hash = 9};
  shards.shards[1].numbers = {.file = "shard-1.rows", .bytes = 12, .hash = 10};
  shards.shards[1].base = 0;
  save_content("by-space.json");
  std::filesystem::remove_all(scratch);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "make_seeds: %s\n", error.what());
  return 1;
}
