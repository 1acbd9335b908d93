// What calls of PointTiles are refused for, and how their arguments become a question.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kith/execution.hpp"
#include "kith/point_tiles.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/question.hpp"

namespace kith::point_tiles {

/// @throws InvalidArgument, each of them
/// What a search runs by: the devices are checked. @throws DeviceError, too
Execution checked(const Execution& execution);
/// The same of what runs on the CPU alone. @param what "point tiles are made"
Execution checked_on_cpu(const Execution& execution, const char* what);
void check_options(const TileSearchOptions& options);
/// Where queries are no rows.
void check_no_self(const TileSearchOptions& options);
void check_width(const TileAnswerOptions& answer, std::int64_t rows);
/// Lists of any length are sorted, and in the order of the input.
void check_sorted(const RadiusOptions& how_many, const TileAnswerOptions& answer);
/// Queries of another folder.
void check_queries(const Manifest& rows, const Manifest& queries);
void check_queries(const Manifest& rows, const DatasetView& queries);
void check_normals(const Manifest& manifest, const TileSearchOptions& options,
                   const std::optional<std::vector<double>>& viewpoint);

Question nearest_of(std::int64_t k, const TileSearchOptions& options);
Question neighborhood_of(const Neighborhood& neighborhood, const TileSearchOptions& options);
Question within_of(double radius, std::int64_t max_neighbors, std::int64_t rows,
                   const TileSearchOptions& options);
Question count_of(double radius, const TileSearchOptions& options);

template <class F>
decltype(auto) visit_distances(Dtype dtype, F&& f) {
  if (dtype == Dtype::f64) return f.template operator()<double>();
  return f.template operator()<float>();
}

}  // namespace kith::point_tiles
