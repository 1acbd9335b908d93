// What is computed from the neighbourhoods of all rows: normals, outliers, density.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "core/large_vector.hpp"
#include "core/long_sort.hpp"
#include "core/memory_budget.hpp"
#include "core/parallel.hpp"
#include "cuda/caller_stream.hpp"
#include "cuda/device_memory.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/cpu/planes.hpp"
#include "point_tree/cpu/search.hpp"
#include "point_tree/memory.hpp"
#include "point_tree/neighborhoods.hpp"
#include "point_tree/queries.hpp"

namespace kith::point_tree {
namespace {

template <class T, class Use>
void for_each_neighborhood_on_cpu(const Tree& tree, const Neighborhood& how, bool include_self,
                                  const Execution& execution, const char* stage, const Use& use) {
  const Asked asked{nullptr, include_self};
  if (how.k > 0) {
    run<T>(tree, asked, Kind::nearest, how.k, how.radius, execution, stage, [&](const Part<T>& part) {
      for (std::int64_t i = 0; i < part.count; ++i) {
        const std::int64_t* rows = part.rows + i * part.k;
        const auto found = std::find(rows, rows + part.k, -1) - rows;
        use(part.queries[i], rows, part.distances + i * part.k, found);
      }
    });
    return;
  }
  // Of a neighbourhood the entries, twice while they grow, and its rows and distances apart.
  const auto limit =
      execution.memory_limit > 0
          ? static_cast<std::int64_t>(std::min<std::uint64_t>(execution.memory_limit, INT64_MAX))
          : available_memory();
  MemoryBudget budget(limit);
  StopRequest stop(execution);
  const auto take = [&](const Part<T>& part) {
    std::vector<std::int64_t> rows;
    std::vector<T> distances;
    std::int64_t from = 0;
    for (std::int64_t i = 0; i < part.count; ++i) {
      sort_long(part.entries + from, part.entries + part.ends[i], before<T>, [&] { stop.check(); });
      rows.clear();
      distances.clear();
      for (; from < part.ends[i]; ++from) {
        rows.push_back(part.entries[from].row);
        distances.push_back(part.entries[from].distance);
      }
      use(part.queries[i], rows.data(), distances.data(), static_cast<std::int64_t>(rows.size()));
    }
  };
  try {
    run<T>(tree, asked, Kind::collect, 1, how.radius, execution, stage, take, &budget);
  } catch (const OverBudget&) {
    throw OutOfMemory(
        fmt::format("the neighbours of a row within the radius need more than {} {} bytes; use a smaller "
                    "radius, or name a k beside it",
                    execution.memory_limit > 0 ? "the limit of" : "this machine's", limit));
  }
}

template <class T>
bool has_nan(const Tree& tree, const T* points, std::int64_t row) {
  const T* values = points + row * tree.dim;
  return std::any_of(values, values + tree.dim, [](T v) { return std::isnan(v); });
}

// Calls use(row) for all rows but those with a NaN, by blocks in parallel.
template <class T, class Use>
void for_each_row(const Tree& tree, const std::vector<T>& points, const Execution& execution,
                  const Use& use) {
  constexpr std::int64_t block = 1 << 12;
  parallel_for(execution, (tree.rows + block - 1) / block, [&](std::int64_t b) {
    for (std::int64_t row = b * block; row < std::min(tree.rows, (b + 1) * block); ++row) {
      if (!has_nan(tree, points.data(), row)) use(row);
    }
  });
}

// The same for all within a radius, which a device found.
template <class T, class Use>
void for_each_neighborhood_on_device(const Tree& tree, double radius, bool include_self,
                                     const Execution& execution, const Use& use) {
  const std::vector<T> points = by_row<T>(tree, execution);
  const RadiusNeighbors found =
      within(tree, DatasetView(points.data(), tree.rows, tree.dim), radius, {}, execution);
  const auto& distances = std::get<std::vector<T>>(found.distances);
  for_each_row(tree, points, execution, [&](std::int64_t row) {
    const auto all = found.indices_of(row);
    const T* near = distances.data() + found.offsets[static_cast<std::size_t>(row)];
    const auto self = std::find(all.begin(), all.end(), row) - all.begin();
    const auto count = static_cast<std::int64_t>(all.size());
    if (include_self || self == count) {
      use(row, all.data(), near, count);
      return;
    }
    std::vector<std::int64_t> rows(all.begin(), all.end());
    std::vector<T> others(near, near + count);
    rows.erase(rows.begin() + self);
    others.erase(others.begin() + self);
    use(row, rows.data(), others.data(), count - 1);
  });
}

// The neighbourhoods of all rows, one at a time: use(row, rows and distances of its neighbours ascending,
// their number). Rows with a NaN have none.
template <class T, class Use>
void for_each_neighborhood(const Tree& tree, const Neighborhood& how, bool include_self,
                           const Execution& execution, const char* stage, const Use& use) {
  if (backend_of(execution) == nullptr) {
    for_each_neighborhood_on_cpu<T>(tree, how, include_self, execution, stage, use);
  } else {
    // Lists of k are reduced by the device itself: DeviceBackend::normals, distances.
    for_each_neighborhood_on_device<T>(tree, how.radius, include_self, execution, use);
  }
}

// use(row, how many rows are within the radius, itself included), for all rows but those with a NaN.
template <class T, class Use>
void count_around_rows(const Tree& tree, double radius, const Execution& execution, const Use& use) {
  if (backend_of(execution) == nullptr) {
    run<T>(tree, {nullptr, true}, Kind::count, 1, radius, execution, "density", [&](const Part<T>& part) {
      for (std::int64_t i = 0; i < part.count; ++i) use(part.queries[i], part.counts[i]);
    });
    return;
  }
  const std::vector<T> points = by_row<T>(tree, execution);
  const std::vector<std::int64_t> counts =
      count(tree, DatasetView(points.data(), tree.rows, tree.dim), radius, execution);
  for_each_row(tree, points, execution,
               [&](std::int64_t row) { use(row, counts[static_cast<std::size_t>(row)]); });
}

// The kernels that fit planes, where there are some for these neighbourhoods. They write all rows but those
// with a NaN.
const PlaneKernels* kernels_for(const Tree& tree, const Neighborhood& neighborhood,
                                const Execution& execution) {
  const bool suit = tree.dim == 3 && neighborhood.k > 0 && backend_of(execution) == nullptr;
  return suit ? plane_kernels() : nullptr;
}

// Calls use(first, last) for blocks of rows in parallel.
template <class Use>
void for_each_block(std::int64_t rows, const Execution& execution, const Use& use) {
  constexpr std::int64_t block = 1 << 16;
  parallel_for(execution, (rows + block - 1) / block,
               [&](std::int64_t b) { use(b * block, std::min(rows, (b + 1) * block)); });
}

void leave_undetermined(const NormalsView& out, std::int64_t row) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::fill_n(out.normals + row * out.normal_stride(), out.dim, nan);
  if (out.curvature != nullptr) out.curvature[row * out.curvature_stride()] = nan;
}

// Rows with a NaN: what no search has to do with.
template <class T>
void finish_nan_rows(const Tree& tree, const T* points, const NormalsView& out, const Execution& execution) {
  if (tree.nan_rows == 0) return;
  for_each_block(tree.rows, execution, [&](std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> done;
    for (std::int64_t row = first; row < last; ++row) {
      if (!has_nan(tree, points, row)) continue;
      leave_undetermined(out, row);
      done.push_back(row);
    }
    if (out.finished && !done.empty()) out.finished(done);
  });
}

template <int dim, class T>
void fit_planes(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                const Execution& execution, const NormalsView& out, const void* built_from) {
  const std::vector<T> copied = built_from == nullptr ? by_row<T>(tree, execution) : std::vector<T>();
  const T* points = built_from == nullptr ? copied.data() : static_cast<const T*>(built_from);
  if (const PlaneKernels* kernels = kernels_for(tree, neighborhood, execution)) {
    finish_nan_rows(tree, points, out, execution);
    run<T>(tree, {nullptr, true}, Kind::nearest, neighborhood.k, neighborhood.radius, execution, "normals",
           [&](const Part<T>& part) {
             kernels->fit(PlaneTask<T>{points, points, part.queries, part.count, part.rows, part.k, nullptr,
                                       viewpoint, out.normals, out.normal_stride(), out.curvature,
                                       out.curvature_stride()});
             if (out.finished) out.finished({part.queries, static_cast<std::size_t>(part.count)});
           });
    return;
  }
  for_each_neighborhood<T>(
      tree, neighborhood, true, execution, "normals",
      [&](std::int64_t row, const std::int64_t* rows, const T* /*distances*/, std::int64_t count) {
        if (count < dim) return;
        const T* center = points + row * dim;
        PlaneFit<dim> fit;
        for (std::int64_t i = 0; i < count; ++i) fit.add(points + rows[i] * dim, center);
        double normal[dim];
        double curvature = 0;
        if (!fit.solve(normal, curvature)) return;
        orient<dim>(normal, center, viewpoint);
        std::copy_n(normal, dim, out.normals + row * out.normal_stride());
        if (out.curvature != nullptr) out.curvature[row * out.curvature_stride()] = curvature;
      });
}

// `out` lies on the host and holds NaN, unless kernels write it. `built_from`: the tree's rows as it has
// them, or null.
void fit_planes(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                const NormalsView& out, const Execution& execution, const void* built_from) {
  visit_distances(tree, [&]<class T>() {
    if (tree.dim == 2) {
      fit_planes<2, T>(tree, neighborhood, viewpoint, execution, out, built_from);
    } else {
      fit_planes<3, T>(tree, neighborhood, viewpoint, execution, out, built_from);
    }
  });
}

// Rows of `out`, which are apart, from an answer that is in one piece.
void copy_apart(const Normals& found, const NormalsView& out, const Execution& execution) {
  for_each_block(out.rows, execution, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      std::copy_n(found.normals.data() + i * out.dim, out.dim, out.normals + i * out.normal_stride());
      if (out.curvature != nullptr)
        out.curvature[i * out.curvature_stride()] = found.curvature[static_cast<std::size_t>(i)];
    }
  });
}

}  // namespace

Normals normals(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                const Execution& execution) {
  check_memory(tree.rows, normals_bytes_a_row(tree.dtype, tree.dim), "the normals", tree.rows, execution);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Normals out;
  out.normals = large_vector<double>(tree.rows * tree.dim, execution, nan);
  out.curvature = large_vector<double>(tree.rows, execution, nan);
  const NormalsView view{out.normals.data(), out.curvature.data(), tree.rows, tree.dim};
  const DeviceBackend* device = backend_of(execution);
  if (device != nullptr && neighborhood.k > 0) {
    device->normals(tree, neighborhood, viewpoint, view, execution);
  } else {
    fit_planes(tree, neighborhood, viewpoint, view, execution, nullptr);
  }
  return out;
}

void normals_into(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                  const NormalsView& out, const Execution& execution, const DatasetView& built_from) {
  const DeviceBackend* device = backend_of(execution);
  if (device != nullptr && out.stride != 0) {
    return copy_apart(normals(tree, neighborhood, viewpoint, execution), out, execution);
  }
  if (device != nullptr && neighborhood.k > 0) {
    device->normals(tree, neighborhood, viewpoint, out, execution);
    return;
  }
  if (out.space != MemorySpace::host) {  // what is within a radius the device finds and the host reduces
    const Normals found = normals(tree, neighborhood, viewpoint, execution);
    cuda::wait_for_caller(execution, {out.device});
    cuda::copy_to_device(found.normals.data(), out.normals, out.device,
                         found.normals.size() * sizeof(double));
    if (out.curvature != nullptr) {
      cuda::copy_to_device(found.curvature.data(), out.curvature, out.device,
                           found.curvature.size() * sizeof(double));
    }
    return;
  }
  const bool at_hand = built_from.data != nullptr && built_from.dtype == distance_dtype(tree.dtype) &&
                       built_from.space == MemorySpace::host && built_from.contiguous();
  if (!at_hand) {
    check_memory(tree.rows, static_cast<std::size_t>(tree.dim) * (tree.is_double() ? 8 : 4),
                 "the points by row", tree.rows, execution);
  } else if (!(tree.is_double() ? are_points_of(tree, static_cast<const double*>(built_from.data))
                                : are_points_of(tree, static_cast<const float*>(built_from.data)))) {
    throw InvalidArgument(
        "the rows given beside the tree are not those that it was built from; give these, or none");
  }
  // Memory that nobody has touched before is touched where it is filled: a row at a time by kernels.
  if (kernels_for(tree, neighborhood, execution) == nullptr) {
    for_each_block(tree.rows, execution, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) leave_undetermined(out, row);
    });
  }
  fit_planes(tree, neighborhood, viewpoint, out, execution, at_hand ? built_from.data : nullptr);
}

Outliers outliers(const Tree& tree, const Neighborhood& neighborhood, double ratio,
                  const Execution& execution) {
  check_memory(tree.rows, outliers_bytes_a_row, "the mean distances", tree.rows, execution);
  Outliers out;
  const auto n = static_cast<std::size_t>(tree.rows);
  out.mean_distance = large_vector<double>(tree.rows, execution, std::numeric_limits<double>::quiet_NaN());
  const DeviceBackend* device = backend_of(execution);
  if (device != nullptr && neighborhood.k > 0) {
    device->distances(tree, neighborhood, "outliers", {.mean = out.mean_distance.data()}, execution);
  } else {
    visit_distances(tree, [&]<class T>() {
      for_each_neighborhood<T>(
          tree, neighborhood, false, execution, "outliers",
          [&](std::int64_t row, const std::int64_t* /*rows*/, const T* distances, std::int64_t count) {
            double sum = 0;
            for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(distances[i]);
            if (count > 0)
              out.mean_distance[static_cast<std::size_t>(row)] = sum / static_cast<double>(count);
          });
    });
  }
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

std::vector<double> density(const Tree& tree, const Neighborhood& neighborhood, const Execution& execution) {
  const auto dim = static_cast<double>(tree.dim);
  const double unit_ball = std::pow(std::numbers::pi, dim / 2) / std::tgamma(dim / 2 + 1);
  const auto reach = [&](double distance) {
    return tree.metric == Metric::sqeuclidean ? std::sqrt(distance) : distance;
  };
  const bool by_radius = neighborhood.radius < infinity;
  check_memory(tree.rows, 8, "the densities", tree.rows, execution);
  auto out = large_vector<double>(tree.rows, execution, std::numeric_limits<double>::quiet_NaN());
  visit_distances(tree, [&]<class T>() {
    if (by_radius && neighborhood.k == 0) {
      const double volume = unit_ball * std::pow(reach(neighborhood.radius), dim);
      count_around_rows<T>(tree, neighborhood.radius, execution, [&](std::int64_t row, std::int64_t count) {
        out[static_cast<std::size_t>(row)] = static_cast<double>(count) / volume;
      });
      return;
    }
    // Fewer than k within the radius: the radius is the ball.
    const auto density_of = [&](std::int64_t count, double farthest) {
      const double r = reach(count == neighborhood.k ? farthest : neighborhood.radius);
      return static_cast<double>(count) / (unit_ball * std::pow(r, dim));
    };
    const DeviceBackend* device = backend_of(execution);
    if (device != nullptr) {
      auto counts = large_vector<std::int64_t>(tree.rows, execution);
      device->distances(tree, neighborhood, "density", {.farthest = out.data(), .counts = counts.data()},
                        execution);
      parallel_for(resolve_threads(execution), tree.rows, [&](std::int64_t row) {
        const auto at = static_cast<std::size_t>(row);
        out[at] = counts[at] < 0 ? std::numeric_limits<double>::quiet_NaN() : density_of(counts[at], out[at]);
      });
      return;
    }
    for_each_neighborhood<T>(
        tree, neighborhood, false, execution, "density",
        [&](std::int64_t row, const std::int64_t* /*rows*/, const T* distances, std::int64_t count) {
          const double farthest = count > 0 ? static_cast<double>(distances[count - 1]) : 0;
          out[static_cast<std::size_t>(row)] = density_of(count, farthest);
        });
  });
  return out;
}

}  // namespace kith::point_tree
