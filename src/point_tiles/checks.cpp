#include "point_tiles/checks.hpp"

#include <limits>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/search_checks.hpp"
#include "cuda/device_choice.hpp"
#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "point_tiles/devices.hpp"
#include "point_tree/build.hpp"
#include "point_tree/viewpoint.hpp"

namespace kith::point_tiles {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// What calls with a radius of their own would ignore.
void check_no_radius(const TileSearchOptions& options, const char* whose) {
  if (options.radius != infinity) {
    throw InvalidArgument(fmt::format("the options have a radius of {}, {} has its own; leave that one out",
                                      options.radius, whose));
  }
}

// Lists of any length are what trees offer.
void check_tree_inside(const Question& question) {
  if (question.kind == Kind::nearest || question.inside != BruteForce::index_type.name) return;
  throw InvalidArgument(
      fmt::format("{} has no radius search; use kd_tree or octree inside, or name how many neighbours are "
                  "wanted at the most",
                  question.inside));
}

// Lists of more would be of no file's size, and their bytes of no number's.
void check_list_length(std::int64_t k) {
  constexpr std::int64_t most = std::int64_t{1} << 40U;
  if (k > most) {
    throw InvalidArgument(
        fmt::format("{} neighbours a row; point tiles have lists of up to {}, ask for fewer", k, most));
  }
}

Question of(Kind kind, std::int64_t k, double radius, const TileSearchOptions& options) {
  check_list_length(k);
  Question question;
  question.kind = kind;
  question.k = k;
  question.radius = radius;
  question.metric = options.metric;
  question.inside = options.inside;
  question.include_self = options.include_self;
  check_tree_inside(question);
  return question;
}

}  // namespace

Execution checked(const Execution& execution) {
  if (cuda::kind_of_devices(execution) == Device::Kind::cuda) point_tree::check_devices(execution);
  (void)resolve_threads(execution);
  return asked_by_one(execution);
}

Execution checked_on_cpu(const Execution& execution, const char* what) {
  if (cuda::kind_of_devices(execution) == Device::Kind::cuda) {
    throw InvalidArgument(fmt::format("{} on the CPU, the call names {}; use the device cpu", what,
                                      name(execution.devices.front())));
  }
  (void)resolve_threads(execution);
  return asked_by_one(execution);
}

void check_options(const TileSearchOptions& options) {
  if (!is_tree_metric(options.metric)) {
    throw InvalidArgument(fmt::format(
        "the metric {} has no bounding boxes, which tiles need; use sqeuclidean, euclidean or manhattan",
        name(options.metric)));
  }
  const IndexType& type = Indexes::get(options.inside);
  if (type.guarantee != Guarantee::exact) {
    throw InvalidArgument(
        fmt::format("the index {} is approximate, and tiles are searched exactly; use kd_tree, octree or "
                    "brute_force inside",
                    type.name));
  }
  check_radius(options.radius);
}

void check_no_self(const TileSearchOptions& options) {
  if (options.include_self) {
    throw InvalidArgument("include_self is for all_knn, whose queries are rows; these queries are none");
  }
}

void check_width(const TileAnswerOptions& answer, std::int64_t rows) {
  if (answer.index_width == IndexWidth::u32 && rows >= std::int64_t{0xFFFFFFFF}) {
    throw InvalidArgument(fmt::format("{} rows have no numbers of 32 bits; write i64", rows));
  }
}

void check_sorted(const RadiusOptions& how_many, const TileAnswerOptions& answer) {
  if (!how_many.sorted) {
    throw InvalidArgument(
        "lists from tiles are always sorted: they are merged that way; ask for sorted ones");
  }
  if (answer.order == AnswerOrder::tiles) {
    throw InvalidArgument("lists within a radius are written in the order of the input; ask for that");
  }
}

void check_queries(const Manifest& rows, const Manifest& queries) {
  if (queries.dim != rows.dim || queries.dtype != rows.dtype) {
    throw InvalidArgument(
        fmt::format("the queries are {} of dimension {}, the tiles {} of dimension {}; they must be the same",
                    name(queries.dtype), queries.dim, name(rows.dtype), rows.dim));
  }
}

void check_queries(const Manifest& rows, const DatasetView& queries) {
  validate(queries, "queries");
  if (queries.space != MemorySpace::host) {
    throw InvalidArgument(
        "the queries lie in the memory of a GPU, those of point tiles in the machine's; copy them");
  }
  check_queries_fit(queries, rows.dim, rows.dtype, "index point_tiles");
}

void check_normals(const Manifest& manifest, const TileSearchOptions& options,
                   const std::optional<std::vector<double>>& viewpoint) {
  if (manifest.dim != 2 && manifest.dim != 3) {
    throw InvalidArgument(
        fmt::format("normals are for points of dimension 2 or 3, these have {}", manifest.dim));
  }
  if (options.metric == Metric::manhattan) {
    throw InvalidArgument("normals need euclidean neighbourhoods; use sqeuclidean or euclidean");
  }
  point_tree::check_viewpoint(viewpoint, manifest.dim);
}

Question nearest_of(std::int64_t k, const TileSearchOptions& options) {
  check_k(k);
  return of(Kind::nearest, k, options.radius, options);
}

Question neighborhood_of(const Neighborhood& how, const TileSearchOptions& options) {
  check_no_radius(options, "the neighbourhood");
  if (options.include_self) {
    throw InvalidArgument("include_self is for all_knn: whether a row is in its neighbourhood is settled");
  }
  if (how.k < 0) throw InvalidArgument(fmt::format("k is {}; use 1 or more, or 0 with a radius", how.k));
  check_radius(how.radius);
  if (how.k == 0 && how.radius == infinity) {
    throw InvalidArgument("a neighbourhood needs k, a radius, or both");
  }
  return of(how.k > 0 ? Kind::nearest : Kind::within, how.k, how.radius, options);
}

Question within_of(double radius, std::int64_t max_neighbors, std::int64_t rows,
                   const TileSearchOptions& options) {
  check_no_radius(options, "the search");
  check_no_self(options);
  check_radius(radius);
  if (max_neighbors < 0) {
    throw InvalidArgument(fmt::format("at most {} neighbours; use 1 or more, or 0 for all", max_neighbors));
  }
  const bool some = max_neighbors > 0 && max_neighbors < rows;
  return of(some ? Kind::nearest : Kind::within, some ? max_neighbors : 0, radius, options);
}

Question count_of(double radius, const TileSearchOptions& options) {
  check_no_radius(options, "the search");
  check_no_self(options);
  check_radius(radius);
  return of(Kind::count, 0, radius, options);
}

}  // namespace kith::point_tiles
