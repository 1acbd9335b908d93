// Rung 40: Kith's point tiles on the CPU, all cores.
//
// Idea      The two layers with the coarse one on disk: tiles are read one after the other, each searched by
// a
//           tree of its own for all queries that need it, and a query proves for itself when no other tile
//           can matter.
// Cost      Every tile that somebody needs is read once, and its tree built, for all queries together.
// Limit     A call reads tiles and builds their trees anew: few queries pay for it alone.
// Source    docs/point-tiles.md.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/positioned_file.hpp"
#include "engine.hpp"
#include "kith/point_tiles.hpp"

namespace kith::ladder {
namespace {

// n_max of the reports' two layers.
constexpr std::int64_t tile_points = 65'536;

// Removed with the object.
class TemporaryTiles {
 public:
  TemporaryTiles() : path_(temporary_name(std::filesystem::temp_directory_path() / "kith-ladder")) {}
  TemporaryTiles(const TemporaryTiles&) = delete;
  TemporaryTiles& operator=(const TemporaryTiles&) = delete;
  ~TemporaryTiles() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

Answer engine_tiles(const Problem& problem, Run& run) {
  const Execution execution = engine_execution(run);
  const TemporaryTiles place;
  std::optional<PointTiles> tiles;
  run.build([&] { tiles = PointTiles::build(place.path(), host_points(problem), {tile_points}, execution); });
  Answer answer(problem);
  run.search([&] {
    const Neighbors found = tiles->search(host_queries(problem), problem.k, {}, execution);
    std::ranges::copy(found.indices, answer.indices.begin());
    std::ranges::copy(found.distances_as<float>(), answer.distances.begin());
  });
  return answer;
}

}  // namespace kith::ladder
