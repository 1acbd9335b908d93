// Point tiles for Python: checked names in, NumPy arrays and names of files out.
#include "_tiles.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "_answer.hpp"
#include "_rows.hpp"
#include "_run.hpp"
#include "kith/error.hpp"
#include "kith/point_tiles.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

/// metric, inside, include_self, radius: what _search() of _tiles.py makes.
using Search = std::tuple<std::string, std::string, bool, double>;

TileSearchOptions search_options(const Search& search) {
  const auto& [metric, inside, include_self, radius] = search;
  return {parse_metric(metric), inside, include_self, radius};
}

TileAnswerOptions answer_options(const std::string& order, const std::string& dtype,
                                 const std::string& values = "float64") {
  TileAnswerOptions options;
  if (values != "float64" && values != "float32") {
    throw InvalidArgument(fmt::format("value_dtype '{}'; use 'float64' or 'float32'", values));
  }
  options.values = values == "float32" ? ValueWidth::f32 : ValueWidth::f64;
  if (order != "input" && order != "tiles") {
    throw InvalidArgument(fmt::format("order '{}'; use 'input' or 'tiles'", order));
  }
  if (dtype != "int64" && dtype != "uint32") {
    throw InvalidArgument(fmt::format("index_dtype '{}'; use 'int64' or 'uint32'", dtype));
  }
  options.order = order == "tiles" ? AnswerOrder::tiles : AnswerOrder::input;
  options.index_width = dtype == "uint32" ? IndexWidth::u32 : IndexWidth::i64;
  return options;
}

nb::dict statistics_of(const TileStatistics& s) {
  nb::dict dict;
  dict["queries"] = s.queries;
  dict["nan_rows"] = s.nan_rows;
  dict["nan_queries"] = s.nan_queries;
  dict["tiles"] = s.tiles;
  dict["tile_bytes"] = s.tile_bytes;
  dict["bytes_read"] = s.bytes_read;
  dict["bytes_direct"] = s.bytes_direct;
  dict["tiles_read_again"] = s.tiles_read_again;
  dict["crossed"] = s.crossed;
  dict["visits"] = s.visits;
  dict["postponed"] = s.postponed;
  dict["resumed_tiles"] = s.resumed_tiles;
  dict["reader"] = s.reader;
  dict["read_seconds"] = s.read_seconds;
  dict["waited_seconds"] = s.waited_seconds;
  dict["device"] = s.device;
  dict["device_seconds"] = s.device_seconds;
  dict["seconds"] = s.seconds;
  return dict;
}

PointTiles build_from_files(const std::filesystem::path& folder,
                            const std::vector<std::filesystem::path>& clouds,
                            const std::vector<std::filesystem::path>& sources, std::int64_t tile_points,
                            const CallLimits& limits, const nb::object& report) {
  std::optional<PointTiles> tiles;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    tiles = PointTiles::build(folder, clouds, {tile_points, {}, sources}, execution);
  });
  return *std::move(tiles);  // NOLINT(bugprone-unchecked-optional-access): run() has built them, or thrown
}

PointTiles build_from_rows(const std::filesystem::path& folder, const Rows& rows, std::int64_t tile_points,
                           const CallLimits& limits, const nb::object& report) {
  std::optional<PointTiles> tiles;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    tiles = PointTiles::build(folder, rows.dataset.view(), {tile_points}, execution);
  });
  return *std::move(tiles);  // NOLINT(bugprone-unchecked-optional-access): run() has built them, or thrown
}

nb::tuple all_knn(const PointTiles& tiles, const std::filesystem::path& output, std::int64_t k,
                  const Search& search, const std::string& order, const std::string& dtype,
                  const CallLimits& limits, const nb::object& report) {
  TileAnswer answer;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    answer = tiles.all_knn(output, k, search_options(search), answer_options(order, dtype), execution);
  });
  return nb::make_tuple(answer.files, statistics_of(answer.statistics));
}

nb::tuple all_knn_of_tiles(const PointTiles& tiles, std::int64_t first, std::int64_t last, std::int64_t k,
                           const Search& how, const CallLimits& limits, const nb::object& report) {
  std::pair<Neighbors, std::vector<std::int64_t>> found;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    found = tiles.all_knn_of_tiles(first, last, k, search_options(how), execution);
  });
  const std::size_t rows = found.second.size();
  return nb::make_tuple(own(std::move(found.second), {rows}), to_python(std::move(found.first)));
}

nb::tuple search(const PointTiles& tiles, const Rows& queries, std::int64_t k, const Search& how,
                 const CallLimits& limits, const nb::object& report) {
  Neighbors found;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    found = tiles.search(queries.dataset.view(), k, search_options(how), execution);
  });
  return to_python(std::move(found));
}

// The rest of an answer in files: order, index_dtype.
using Written = std::pair<std::string, std::string>;

nb::tuple search_files(const PointTiles& tiles, const std::filesystem::path& output,
                       const PointTiles& queries, std::int64_t k, const Search& how, const Written& written,
                       const CallLimits& limits, const nb::object& report) {
  TileAnswer answer;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    answer = tiles.search_tiles(output, queries, k, search_options(how),
                                answer_options(written.first, written.second), execution);
  });
  return nb::make_tuple(answer.files, statistics_of(answer.statistics));
}

nb::tuple normals(const PointTiles& tiles, const std::filesystem::path& output, std::int64_t k, double radius,
                  const std::optional<std::vector<double>>& viewpoint, const Search& how,
                  const Written& written, const std::string& values, const CallLimits& limits,
                  const nb::object& report) {
  TileAnswer answer;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    answer = tiles.normals(output, {k, radius}, viewpoint, search_options(how),
                           answer_options(written.first, written.second, values), execution);
  });
  return nb::make_tuple(answer.files, statistics_of(answer.statistics));
}

nb::tuple outliers(const PointTiles& tiles, const std::filesystem::path& outlier,
                   const std::filesystem::path& mean_distance, std::int64_t k, double radius, double ratio,
                   const Search& how, const CallLimits& limits, const nb::object& report) {
  TileOutliers found;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    found = tiles.outliers({outlier, mean_distance, {}}, {k, radius}, ratio, search_options(how), execution);
  });
  return nb::make_tuple(found.mean, found.deviation, found.threshold);
}

nb::tuple radius_search(const PointTiles& tiles, const Rows& queries, double radius,
                        std::int64_t max_neighbors, const Search& how, const CallLimits& limits,
                        const nb::object& report) {
  RadiusNeighbors found;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    found = tiles.radius_search(queries.dataset.view(), radius, {.max_neighbors = max_neighbors},
                                search_options(how), execution);
  });
  return to_python(std::move(found));
}

nb::object radius_files(const PointTiles& tiles, const std::filesystem::path& output,
                        const PointTiles& queries, double radius, std::int64_t max_neighbors,
                        const Search& how, const CallLimits& limits, const nb::object& report) {
  TileAnswer answer;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    answer = tiles.radius_search(output, queries, radius, {.max_neighbors = max_neighbors},
                                 search_options(how), {}, execution);
  });
  return nb::cast(answer.files);
}

nb::object count_within(const PointTiles& tiles, const Rows& queries, double radius, const Search& how,
                        const CallLimits& limits, const nb::object& report) {
  std::vector<std::int64_t> counts;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    counts = tiles.count_within(queries.dataset.view(), radius, search_options(how), execution);
  });
  const std::size_t size = counts.size();
  return own(std::move(counts), {size});
}

nb::object count_files(const PointTiles& tiles, const std::filesystem::path& output,
                       const PointTiles& queries, double radius, const Search& how, const CallLimits& limits,
                       const nb::object& report) {
  TileAnswer answer;
  run(make_execution(limits), report, false, [&](const Execution& execution) {
    answer = tiles.count_within(output, queries, radius, search_options(how), {}, execution);
  });
  return nb::cast(answer.files);
}

void verify(const PointTiles& tiles, const CallLimits& limits, const nb::object& report) {
  run(make_execution(limits), report, false, [&](const Execution& execution) { tiles.verify(execution); });
}

}  // namespace

void bind_tiles(nb::module_& module) {
  nb::class_<PointTiles>(module, "PointTiles", "A folder of point tiles.")
      .def_prop_ro("rows", &PointTiles::rows)
      .def_prop_ro("dim", &PointTiles::dim)
      .def_prop_ro("dtype", [](const PointTiles& tiles) { return std::string(numpy_name(tiles.dtype())); })
      .def_prop_ro("tiles", &PointTiles::tiles)
      .def_prop_ro("tile_points", &PointTiles::tile_points)
      .def_prop_ro("nan_rows", &PointTiles::nan_rows)
      .def_prop_ro("bytes", &PointTiles::bytes)
      .def_prop_ro("folder", [](const PointTiles& tiles) { return tiles.folder(); })
      .def("tile_sizes", &PointTiles::tile_sizes)
      .def("bounds", &PointTiles::bounds);
  module.def("build_tiles", &build_from_files, nb::arg("folder"), nb::arg("clouds"), nb::arg("sources"),
             nb::arg("tile_points"), nb::arg("limits"), nb::arg("report").none(),
             "Point tiles of the files, which are one cloud.");
  module.def("build_tiles_of_rows", &build_from_rows, nb::arg("folder"), nb::arg("rows"),
             nb::arg("tile_points"), nb::arg("limits"), nb::arg("report").none(), "Point tiles of an array.");
  module.def(
      "open_tiles", [](const std::filesystem::path& folder) { return PointTiles::open(folder); },
      nb::arg("folder"), "A folder that was built.");
  module.def("tiles_all_knn", &all_knn, nb::arg("tiles"), nb::arg("output"), nb::arg("k"), nb::arg("search"),
             nb::arg("order"), nb::arg("index_dtype"), nb::arg("limits"), nb::arg("report").none(),
             "(files, statistics) of the nearest others of every row.");
  module.def("tiles_all_knn_of", &all_knn_of_tiles, nb::arg("tiles"), nb::arg("first"), nb::arg("last"),
             nb::arg("k"), nb::arg("search"), nb::arg("limits"), nb::arg("report").none(),
             "(rows, (distances, indices, statistics)) of the rows of some tiles.");
  module.def("tiles_search", &search, nb::arg("tiles"), nb::arg("queries"), nb::arg("k"), nb::arg("search"),
             nb::arg("limits"), nb::arg("report").none(), "(distances, indices, statistics)");
  module.def("tiles_search_files", &search_files, nb::arg("tiles"), nb::arg("output"), nb::arg("queries"),
             nb::arg("k"), nb::arg("search"), nb::arg("written"), nb::arg("limits"), nb::arg("report").none(),
             "(files, statistics) of the nearest rows of queries in tiles.");
  module.def("tiles_normals", &normals, nb::arg("tiles"), nb::arg("output"), nb::arg("k"), nb::arg("radius"),
             nb::arg("viewpoint").none(), nb::arg("search"), nb::arg("written"), nb::arg("values"),
             nb::arg("limits"), nb::arg("report").none(), "(files, statistics) of the normals of every row.");
  module.def("tiles_outliers", &outliers, nb::arg("tiles"), nb::arg("outlier"), nb::arg("mean_distance"),
             nb::arg("k"), nb::arg("radius"), nb::arg("ratio"), nb::arg("search"), nb::arg("limits"),
             nb::arg("report").none(), "(mean, deviation, threshold); the rest is in the files.");
  module.def("tiles_radius_search", &radius_search, nb::arg("tiles"), nb::arg("queries"), nb::arg("radius"),
             nb::arg("max_neighbors"), nb::arg("search"), nb::arg("limits"), nb::arg("report").none(),
             "(offsets, indices, distances, statistics) of the rows within a radius.");
  module.def("tiles_radius_files", &radius_files, nb::arg("tiles"), nb::arg("output"), nb::arg("queries"),
             nb::arg("radius"), nb::arg("max_neighbors"), nb::arg("search"), nb::arg("limits"),
             nb::arg("report").none(), "The files of the same, of queries in tiles.");
  module.def("tiles_count_within", &count_within, nb::arg("tiles"), nb::arg("queries"), nb::arg("radius"),
             nb::arg("search"), nb::arg("limits"), nb::arg("report").none(),
             "Numbers of rows within a radius.");
  module.def("tiles_count_files", &count_files, nb::arg("tiles"), nb::arg("output"), nb::arg("queries"),
             nb::arg("radius"), nb::arg("search"), nb::arg("limits"), nb::arg("report").none(),
             "The file of the same, of queries in tiles.");
  module.def("verify_tiles", &verify, nb::arg("tiles"), nb::arg("limits"), nb::arg("report").none(),
             "Raises where a tile is damaged.");
}

}  // namespace kith::python
