// make_seeds FOLDER: writes the starting corpus, FOLDER/<format>/<file>.
#include <cstdio>
#include <exception>

#include "fuzz/seeds.hpp"
#include "fuzz/tile_harness.hpp"
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
  std::filesystem::remove_all(scratch);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "make_seeds: %s\n", error.what());
  return 1;
}
