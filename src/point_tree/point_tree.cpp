// PointTree: checks, dispatch, and what is built on kNN and radius search.
#include "kith/point_tree.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "core/int128.hpp"
#include "core/parallel.hpp"
#include "core/search_checks.hpp"
#include "kith/error.hpp"
#include "point_tree/build.hpp"
#include "point_tree/cpu/search.hpp"
#include "point_tree/file.hpp"
#include "point_tree/neighborhoods.hpp"
#include "point_tree/tree.hpp"

namespace kith {

using point_tree::Asked;
using point_tree::Kind;
using point_tree::Part;
using point_tree::Tree;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void check_devices(const Tree& tree, const Execution& execution) {
  if (kind_of_devices(execution) == Device::Kind::cpu) return;
  throw DeviceError(fmt::format("the index {} runs on the CPU, not on {}; use cpu, or the index brute_force",
                                tree.index, name(execution.devices.front())));
}

void check_queries(const Tree& tree, const DatasetView& queries) {
  validate(queries, "queries");
  check_queries_fit(queries, tree.dim, tree.dtype, tree.index);
  if (queries.space == MemorySpace::cuda) {
    throw InvalidArgument(fmt::format(
        "the queries lie in the memory of cuda:{} but the search is to run on the CPU; copy them to the host",
        queries.device));
  }
}

void check_radius(double radius) {
  if (!(radius >= 0)) {
    throw InvalidArgument(fmt::format("a radius of {}; use 0 or more, in units of the metric", radius));
  }
}

void check_memory(int128 values, std::size_t bytes_each, const char* what, std::int64_t queries,
                  const Execution& execution) {
  check_answer_memory(values, bytes_each, fmt::format("{} queries", queries), what, execution);
}

std::size_t cell_bytes(const Tree& tree) {
  return sizeof(std::int64_t) + size_of(distance_dtype(tree.dtype));
}

// A failed allocation becomes an error that says what was asked for.
template <class Work>
auto neighbors_or_out_of_memory(std::int64_t queries, Work&& work) {
  return or_out_of_memory(
      [&] {
        return fmt::format(
            "the neighbours of {} queries; ask for fewer neighbours, or search the queries in parts",
            queries);
      },
      work);
}

// Calls f.operator()<T>() with the type of the tree's distances.
template <class F>
decltype(auto) visit_distances(const Tree& tree, F&& f) {
  if (tree.is_double()) return f.template operator()<double>();
  return f.template operator()<float>();
}

// `indices` and `distances` hold -1 and +inf: queries with a NaN and what is past the last row stay so.
template <class T>
SearchStatistics nearest_into(const Tree& tree, const Asked& asked, std::int64_t k, double radius,
                              std::int64_t* indices, T* distances, const Execution& execution,
                              const char* stage) {
  return point_tree::run<T>(
      tree, asked, Kind::nearest, k, radius, execution, stage, [&](const Part<T>& part) {
        for (std::int64_t i = 0; i < part.count; ++i) {
          std::copy_n(part.rows + i * part.k, part.k, indices + part.queries[i] * k);
          std::copy_n(part.distances + i * part.k, part.k, distances + part.queries[i] * k);
        }
      });
}

Neighbors nearest(const Tree& tree, const Asked& asked, std::int64_t k, double radius,
                  const Execution& execution, const char* stage) {
  const std::int64_t count = asked.count(tree);
  check_memory(static_cast<int128>(count) * k, cell_bytes(tree), "the answer", count, execution);
  return neighbors_or_out_of_memory(count, [&] {
    Neighbors out;
    out.queries = count;
    out.k = k;
    out.indices.assign(static_cast<std::size_t>(count * k), -1);
    visit_distances(tree, [&]<class T>() {
      std::vector<T> distances(static_cast<std::size_t>(count * k), std::numeric_limits<T>::infinity());
      out.statistics =
          nearest_into<T>(tree, asked, k, radius, out.indices.data(), distances.data(), execution, stage);
      out.distances = std::move(distances);
    });
    return out;
  });
}

// What tasks found, until it is known how much each query has.
template <class T>
class Found {
 public:
  Found(std::int64_t queries, const Execution& execution)
      : counts_(static_cast<std::size_t>(queries) + 1), execution_(execution) {}

  void add(const Part<T>& part, bool sorted) {
    Piece piece;
    piece.queries.assign(part.queries, part.queries + part.count);
    piece.ends.assign(part.ends, part.ends + part.count);
    const std::int64_t total = part.count == 0 ? 0 : part.ends[part.count - 1];
    check_memory(entries_ += total, sizeof(point_tree::Entry<T>), "what is within the radius",
                 static_cast<std::int64_t>(counts_.size()) - 1, execution_);
    piece.entries.assign(part.entries, part.entries + total);
    std::int64_t from = 0;
    for (std::int64_t i = 0; i < part.count; ++i) {
      const std::int64_t end = part.ends[i];
      counts_[static_cast<std::size_t>(part.queries[i])] = end - from;
      if (sorted) {
        std::sort(piece.entries.begin() + from, piece.entries.begin() + end, point_tree::before<T>);
      }
      from = end;
    }
    const std::scoped_lock lock(mutex_);
    pieces_.push_back(std::move(piece));
  }

  void write(RadiusNeighbors& out) {
    out.offsets.resize(counts_.size());
    std::int64_t at = 0;
    for (std::size_t q = 0; q < counts_.size(); ++q) {
      out.offsets[q] = at;
      at += counts_[q];
    }
    const auto total = static_cast<std::size_t>(at);
    out.indices.resize(total);
    std::vector<T> distances(total);
    parallel_for(resolve_threads(execution_), static_cast<std::int64_t>(pieces_.size()), [&](std::int64_t p) {
      Piece& piece = pieces_[static_cast<std::size_t>(p)];
      std::int64_t from = 0;
      for (std::size_t i = 0; i < piece.queries.size(); ++i) {
        auto to = static_cast<std::size_t>(out.offsets[static_cast<std::size_t>(piece.queries[i])]);
        for (; from < piece.ends[i]; ++from, ++to) {
          out.indices[to] = piece.entries[static_cast<std::size_t>(from)].row;
          distances[to] = piece.entries[static_cast<std::size_t>(from)].distance;
        }
      }
      piece = Piece{};
    });
    out.distances = std::move(distances);
  }

 private:
  struct Piece {
    std::vector<std::int64_t> queries, ends;
    std::vector<point_tree::Entry<T>> entries;
  };
  std::vector<std::int64_t> counts_;
  const Execution& execution_;
  std::atomic<std::int64_t> entries_{0};
  std::mutex mutex_;
  std::vector<Piece> pieces_;
};

RadiusNeighbors nearest_within(const Tree& tree, const DatasetView& queries, double radius, std::int64_t most,
                               const Execution& execution) {
  const Neighbors found = nearest(tree, {&queries}, most, radius, execution, "search");
  RadiusNeighbors out;
  out.queries = found.queries;
  out.statistics = found.statistics;
  out.offsets.assign(static_cast<std::size_t>(found.queries) + 1, 0);
  for (std::int64_t q = 0; q < found.queries; ++q) {
    const auto row = found.indices_of(q);
    const auto count = std::find(row.begin(), row.end(), -1) - row.begin();
    out.offsets[static_cast<std::size_t>(q) + 1] = out.offsets[static_cast<std::size_t>(q)] + count;
    out.indices.insert(out.indices.end(), row.begin(), row.begin() + count);
  }
  std::visit(
      [&]<class T>(const std::vector<T>& all) {
        std::vector<T> kept;
        kept.reserve(out.indices.size());
        for (std::int64_t q = 0; q < found.queries; ++q) {
          const auto count =
              out.offsets[static_cast<std::size_t>(q) + 1] - out.offsets[static_cast<std::size_t>(q)];
          kept.insert(kept.end(), all.begin() + q * found.k, all.begin() + q * found.k + count);
        }
        out.distances = std::move(kept);
      },
      found.distances);
  return out;
}

// The neighbourhoods of all rows, one at a time: use(query row, its coordinates, rows and distances of its
// neighbours ascending). Rows with a NaN have none.
template <class T, class Use>
void for_each_neighborhood(const Tree& tree, const Neighborhood& how, bool include_self,
                           const Execution& execution, const char* stage, const Use& use) {
  const Asked asked{nullptr, include_self};
  if (how.k > 0) {
    point_tree::run<T>(tree, asked, Kind::nearest, how.k, how.radius, execution, stage,
                       [&](const Part<T>& part) {
                         for (std::int64_t i = 0; i < part.count; ++i) {
                           const std::int64_t* rows = part.rows + i * part.k;
                           const auto found = std::find(rows, rows + part.k, -1) - rows;
                           use(part.queries[i], rows, part.distances + i * part.k, found);
                         }
                       });
    return;
  }
  point_tree::run<T>(tree, asked, Kind::collect, 1, how.radius, execution, stage, [&](const Part<T>& part) {
    std::vector<point_tree::Entry<T>> sorted;
    std::vector<std::int64_t> rows;
    std::vector<T> distances;
    std::int64_t from = 0;
    for (std::int64_t i = 0; i < part.count; ++i) {
      sorted.assign(part.entries + from, part.entries + part.ends[i]);
      from = part.ends[i];
      std::sort(sorted.begin(), sorted.end(), point_tree::before<T>);
      rows.clear();
      distances.clear();
      for (const auto& entry : sorted) {
        rows.push_back(entry.row);
        distances.push_back(entry.distance);
      }
      use(part.queries[i], rows.data(), distances.data(), static_cast<std::int64_t>(rows.size()));
    }
  });
}

void check_neighborhood(const Neighborhood& how) {
  if (how.k < 0) throw InvalidArgument(fmt::format("k is {}; use 1 or more, or 0 with a radius", how.k));
  check_radius(how.radius);
  if (how.k == 0 && how.radius == infinity) {
    throw InvalidArgument("a neighbourhood needs k, a radius, or both");
  }
}

// Coordinates by the caller's row; rows that are not in the tree stay NaN.
template <class T>
std::vector<T> by_row(const Tree& tree, const Execution& execution) {
  std::vector<T> values(static_cast<std::size_t>(tree.rows * tree.dim), std::numeric_limits<T>::quiet_NaN());
  point_tree::copy_points<T>(tree, values.data(), execution);
  return values;
}

Normals normals_of(const Tree& tree, const Neighborhood& neighborhood,
                   const std::optional<std::vector<double>>& viewpoint, const Execution& execution) {
  check_devices(tree, execution);
  check_neighborhood(neighborhood);
  const std::int64_t dim = tree.dim;
  if (dim != 2 && dim != 3) {
    throw InvalidArgument(fmt::format("normals are for points of dimension 2 or 3, these have {}", dim));
  }
  if (tree.metric == Metric::manhattan) {
    throw InvalidArgument(
        "normals need euclidean neighbourhoods; build the tree for sqeuclidean or euclidean");
  }
  if (viewpoint && static_cast<std::int64_t>(viewpoint->size()) != dim) {
    throw InvalidArgument(
        fmt::format("the viewpoint has {} coordinates, the points have {}", viewpoint->size(), dim));
  }
  check_memory(tree.rows, static_cast<std::size_t>(dim) * (tree.is_double() ? 16 : 12) + 8, "the normals",
               tree.rows, execution);
  Normals out;
  out.normals.assign(static_cast<std::size_t>(tree.rows * dim), std::numeric_limits<double>::quiet_NaN());
  out.curvature.assign(static_cast<std::size_t>(tree.rows), std::numeric_limits<double>::quiet_NaN());
  visit_distances(tree, [&]<class T>() {
    const std::vector<T> points = by_row<T>(tree, execution);
    for_each_neighborhood<T>(
        tree, neighborhood, true, execution, "normals",
        [&](std::int64_t row, const std::int64_t* rows, const T* /*distances*/, std::int64_t count) {
          if (count < dim) return;
          const T* center = points.data() + row * dim;
          point_tree::PlaneFit fit(dim);
          for (std::int64_t i = 0; i < count; ++i) fit.add(points.data() + rows[i] * dim, center);
          double* normal = out.normals.data() + row * dim;
          double curvature = 0;
          if (!fit.solve(normal, curvature)) return;
          double towards = 0;
          if (viewpoint) {
            for (std::int64_t j = 0; j < dim; ++j) {
              towards +=
                  ((*viewpoint)[static_cast<std::size_t>(j)] - static_cast<double>(center[j])) * normal[j];
            }
          } else {
            const double* largest = std::max_element(
                normal, normal + dim, [](double a, double b) { return std::fabs(a) < std::fabs(b); });
            towards = *largest;
          }
          for (std::int64_t j = 0; j < dim; ++j) normal[j] = (towards < 0 ? -normal[j] : normal[j]) + 0.0;
          out.curvature[static_cast<std::size_t>(row)] = curvature;
        });
  });
  return out;
}

Outliers outliers_of(const Tree& tree, const Neighborhood& neighborhood, double ratio,
                     const Execution& execution) {
  check_devices(tree, execution);
  check_neighborhood(neighborhood);
  if (!(ratio >= 0) || ratio == infinity) {
    throw InvalidArgument(fmt::format("a ratio of {} standard deviations; use a number of 0 or more", ratio));
  }
  check_memory(tree.rows, 9, "the mean distances", tree.rows, execution);
  Outliers out;
  const auto n = static_cast<std::size_t>(tree.rows);
  out.mean_distance.assign(n, std::numeric_limits<double>::quiet_NaN());
  visit_distances(tree, [&]<class T>() {
    for_each_neighborhood<T>(
        tree, neighborhood, false, execution, "outliers",
        [&](std::int64_t row, const std::int64_t* /*rows*/, const T* distances, std::int64_t count) {
          double sum = 0;
          for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(distances[i]);
          if (count > 0) out.mean_distance[static_cast<std::size_t>(row)] = sum / static_cast<double>(count);
        });
  });
  // Two passes in the caller's order: the same bits for any number of threads.
  double sum = 0;
  std::int64_t counted = 0;
  for (const double m : out.mean_distance) {
    if (!std::isfinite(m)) continue;
    sum += m;
    ++counted;
  }
  out.mean = counted > 0 ? sum / static_cast<double>(counted) : std::numeric_limits<double>::quiet_NaN();
  double squares = 0;
  for (const double m : out.mean_distance) {
    if (std::isfinite(m)) squares += (m - out.mean) * (m - out.mean);
  }
  out.deviation = counted > 1 ? std::sqrt(squares / static_cast<double>(counted - 1)) : 0;
  out.threshold = out.mean + ratio * out.deviation;
  out.outlier.resize(n);
  for (std::size_t i = 0; i < n; ++i) out.outlier[i] = !(out.mean_distance[i] <= out.threshold);
  return out;
}

std::vector<double> density_of(const Tree& tree, const Neighborhood& neighborhood,
                               const Execution& execution) {
  check_devices(tree, execution);
  check_neighborhood(neighborhood);
  if (tree.metric == Metric::manhattan) {
    throw InvalidArgument(
        "density needs euclidean neighbourhoods; build the tree for sqeuclidean or euclidean");
  }
  const auto dim = static_cast<double>(tree.dim);
  const double unit_ball = std::pow(std::numbers::pi, dim / 2) / std::tgamma(dim / 2 + 1);
  const auto reach = [&](double distance) {
    return tree.metric == Metric::sqeuclidean ? std::sqrt(distance) : distance;
  };
  const bool by_radius = neighborhood.radius < infinity;
  check_memory(tree.rows, 8, "the densities", tree.rows, execution);
  std::vector<double> out(static_cast<std::size_t>(tree.rows), std::numeric_limits<double>::quiet_NaN());
  visit_distances(tree, [&]<class T>() {
    if (by_radius && neighborhood.k == 0) {
      const double volume = unit_ball * std::pow(reach(neighborhood.radius), dim);
      point_tree::run<T>(tree, {nullptr, true}, Kind::count, 1, neighborhood.radius, execution, "density",
                         [&](const Part<T>& part) {
                           for (std::int64_t i = 0; i < part.count; ++i) {
                             out[static_cast<std::size_t>(part.queries[i])] =
                                 static_cast<double>(part.counts[i]) / volume;
                           }
                         });
      return;
    }
    for_each_neighborhood<T>(
        tree, neighborhood, false, execution, "density",
        [&](std::int64_t row, const std::int64_t* /*rows*/, const T* distances, std::int64_t count) {
          // Fewer than k within the radius: the radius is the ball.
          const double r = count == neighborhood.k ? reach(static_cast<double>(distances[count - 1]))
                                                   : reach(neighborhood.radius);
          out[static_cast<std::size_t>(row)] = static_cast<double>(count) / (unit_ball * std::pow(r, dim));
        });
  });
  return out;
}

}  // namespace

Neighbors PointTree::search(const DatasetView& queries, std::int64_t k, const Execution& execution,
                            double radius) const {
  check_devices(*tree_, execution);
  check_queries(*tree_, queries);
  check_k(k);
  check_radius(radius);
  return nearest(*tree_, {&queries}, k, radius, execution, "search");
}

SearchStatistics PointTree::search_into(const DatasetView& queries, const NeighborsView& out,
                                        const Execution& execution) const {
  check_devices(*tree_, execution);
  check_queries(*tree_, queries);
  check_k(out.k);
  check_output(queries.rows, out);
  if (out.space == MemorySpace::cuda) {
    throw InvalidArgument("a search on the CPU cannot leave its answer in GPU memory; give host memory");
  }
  return neighbors_or_out_of_memory(queries.rows, [&] {
    return visit_distances(*tree_, [&]<class T>() {
      auto* distances = static_cast<T*>(out.distances);
      std::fill_n(out.indices, out.queries * out.k, -1);
      std::fill_n(distances, out.queries * out.k, std::numeric_limits<T>::infinity());
      return nearest_into<T>(*tree_, {&queries}, out.k, infinity, out.indices, distances, execution,
                             "search");
    });
  });
}

Neighbors PointTree::all_knn(std::int64_t k, bool include_self, const Execution& execution,
                             double radius) const {
  check_devices(*tree_, execution);
  check_k(k);
  check_radius(radius);
  return nearest(*tree_, {nullptr, include_self}, k, radius, execution, "all-knn");
}

RadiusNeighbors PointTree::radius_search(const DatasetView& queries, double radius,
                                         const RadiusOptions& options, const Execution& execution) const {
  check_devices(*tree_, execution);
  check_queries(*tree_, queries);
  check_radius(radius);
  if (options.max_neighbors < 0) {
    throw InvalidArgument(
        fmt::format("at most {} neighbours; use 1 or more, or 0 for all", options.max_neighbors));
  }
  if (options.max_neighbors > 0 && options.max_neighbors < tree_->rows) {
    return nearest_within(*tree_, queries, radius, options.max_neighbors, execution);
  }
  return neighbors_or_out_of_memory(queries.rows, [&] {
    RadiusNeighbors out;
    out.queries = queries.rows;
    visit_distances(*tree_, [&]<class T>() {
      Found<T> found(queries.rows, execution);
      out.statistics =
          point_tree::run<T>(*tree_, {&queries}, Kind::collect, 1, radius, execution, "radius search",
                             [&](const Part<T>& part) { found.add(part, options.sorted); });
      found.write(out);
    });
    return out;
  });
}

std::vector<std::int64_t> PointTree::count_within(const DatasetView& queries, double radius,
                                                  const Execution& execution) const {
  check_devices(*tree_, execution);
  check_queries(*tree_, queries);
  check_radius(radius);
  check_memory(queries.rows, 8, "the counts", queries.rows, execution);
  return neighbors_or_out_of_memory(queries.rows, [&] {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(queries.rows), 0);
    visit_distances(*tree_, [&]<class T>() {
      point_tree::run<T>(*tree_, {&queries}, Kind::count, 1, radius, execution, "count",
                         [&](const Part<T>& part) {
                           for (std::int64_t i = 0; i < part.count; ++i)
                             counts[static_cast<std::size_t>(part.queries[i])] = part.counts[i];
                         });
    });
    return counts;
  });
}

Normals PointTree::normals(const Neighborhood& neighborhood,
                           const std::optional<std::vector<double>>& viewpoint,
                           const Execution& execution) const {
  return neighbors_or_out_of_memory(tree_->rows,
                                    [&] { return normals_of(*tree_, neighborhood, viewpoint, execution); });
}

Outliers PointTree::outliers(const Neighborhood& neighborhood, double ratio,
                             const Execution& execution) const {
  return neighbors_or_out_of_memory(tree_->rows,
                                    [&] { return outliers_of(*tree_, neighborhood, ratio, execution); });
}

std::vector<double> PointTree::density(const Neighborhood& neighborhood, const Execution& execution) const {
  return neighbors_or_out_of_memory(tree_->rows, [&] { return density_of(*tree_, neighborhood, execution); });
}

void PointTree::save(const std::filesystem::path& path, const Execution& execution) const {
  point_tree::save(*tree_, path, execution);
}

std::int64_t PointTree::rows() const noexcept {
  return tree_->rows;
}
std::int64_t PointTree::dim() const noexcept {
  return tree_->dim;
}
Dtype PointTree::dtype() const noexcept {
  return tree_->dtype;
}
Metric PointTree::metric() const noexcept {
  return tree_->metric;
}
std::int64_t PointTree::leaf_size() const noexcept {
  return tree_->leaf_size;
}
std::uint64_t PointTree::memory_bytes() const noexcept {
  return tree_->bytes();
}

}  // namespace kith
