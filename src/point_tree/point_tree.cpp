// PointTree: checks, and then queries.cpp and reductions.cpp.
#include "kith/point_tree.hpp"

#include <fmt/format.h>

#include "core/search_checks.hpp"
#include "cuda/caller_stream.hpp"
#include "kith/error.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/build.hpp"
#include "point_tree/file.hpp"
#include "point_tree/queries.hpp"
#include "point_tree/tree.hpp"
#include "point_tree/viewpoint.hpp"
#include "select_k/allowed_rows.hpp"

namespace kith {

using point_tree::infinity;
using point_tree::Tree;

namespace {

// Memory of a GPU is for a search on that GPU; `what` lies there: "queries lie".
void check_space(MemorySpace space, int device, const char* what, const Execution& execution) {
  if (space == MemorySpace::host) return;
  const Device there{Device::Kind::cuda, device};
  if (point_tree::backend_of(execution) == nullptr) {
    throw InvalidArgument(
        fmt::format("the {} in the memory of {} but the search is to run on the CPU; name a CUDA device, or "
                    "copy them to the host",
                    what, name(there)));
  }
  if (execution.devices.front() != there) {
    throw InvalidArgument(
        fmt::format("the {} in the memory of {} but the search is to run on {}; name {} first, or copy them",
                    what, name(there), name(execution.devices.front()), name(there)));
  }
}

// What a device memory limit leaves beside the copy of the tree, where the call is what brings it there.
std::uint64_t beside_tree(const Tree& tree, const Execution& execution) {
  const std::uint64_t limit = execution.device_memory_limit;
  const Device& device = execution.devices.front();
  if (limit == 0 || tree.lies_on(device.ordinal)) return limit;
  if (tree.bytes() >= limit) {
    throw OutOfMemory(
        fmt::format("a copy of the index {} of {} rows takes {} bytes of the memory of {}, the device memory "
                    "limit is {}; raise the limit, or search on the CPU",
                    tree.index, tree.rows, tree.bytes(), name(device), limit));
  }
  return limit - tree.bytes();
}

// A search on one device: of several the first does the work. What is given in GPU memory lies there.
Execution on_one_device(const Tree& tree, const Execution& asked) {
  point_tree::check_devices(asked);
  Execution execution = asked;
  execution.devices.resize(1);
  execution.device_memory_limit = beside_tree(tree, execution);
  cuda::follow_elsewhere(execution, {});
  return execution;
}

void check_queries(const Tree& tree, const DatasetView& queries, const Execution& execution) {
  validate(queries, "queries");
  check_queries_fit(queries, tree.dim, tree.dtype, tree.index);
  check_space(queries.space, queries.device, "queries lie", execution);
}

void check_answer(std::int64_t queries, const NeighborsView& out, double radius, const Execution& execution) {
  check_k(out.k);
  check_radius(radius);
  check_output(queries, out);
  if (out.space == MemorySpace::cuda && point_tree::backend_of(execution) == nullptr) {
    throw InvalidArgument("a search on the CPU cannot leave its answer in GPU memory; give host memory");
  }
  check_space(out.space, out.device, "answer's indices and distances lie", execution);
}

void check_neighborhood(const Neighborhood& how) {
  if (how.k < 0) throw InvalidArgument(fmt::format("k is {}; use 1 or more, or 0 with a radius", how.k));
  check_radius(how.radius);
  if (how.k == 0 && how.radius == infinity) {
    throw InvalidArgument("a neighbourhood needs k, a radius, or both");
  }
}

void check_normals(const Tree& tree, const Neighborhood& how,
                   const std::optional<std::vector<double>>& viewpoint) {
  check_neighborhood(how);
  if (tree.dim != 2 && tree.dim != 3) {
    throw InvalidArgument(fmt::format("normals are for points of dimension 2 or 3, these have {}", tree.dim));
  }
  if (tree.metric == Metric::manhattan) {
    throw InvalidArgument(
        "normals need euclidean neighbourhoods; build the tree for sqeuclidean or euclidean");
  }
  point_tree::check_viewpoint(viewpoint, tree.dim);
}

void check_built_from(const Tree& tree, const DatasetView& rows) {
  if (rows.data == nullptr) return;
  validate(rows, "rows that the tree was built from");
  if (rows.rows == tree.rows && rows.dim == tree.dim && rows.dtype == tree.dtype) return;
  throw InvalidArgument(
      fmt::format("the rows given beside the tree are [{}, {}] of {}, it was built from [{}, {}] of {}; give "
                  "these, or none",
                  rows.rows, rows.dim, name(rows.dtype), tree.rows, tree.dim, name(tree.dtype)));
}

// A tree does not know what class it is in: what both classes take.
double radius_of(const Tree& tree, const SearchOptions& options) {
  check_options({.name = tree.index, .class_name = {}, .summary = {}, .options = tree_options}, options);
  if (options.allowed != nullptr) check_allowed(*options.allowed, tree.rows, "index " + tree.index);
  return options.radius.value_or(infinity);
}

}  // namespace

Neighbors PointTree::search(const DatasetView& queries, std::int64_t k, const Execution& asked,
                            double radius) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_queries(*tree_, queries, execution);
  check_k(k);
  check_radius(radius);
  return point_tree::nearest(*tree_, {&queries}, k, radius, execution, "search");
}

SearchStatistics PointTree::search_into(const DatasetView& queries, const NeighborsView& out,
                                        const Execution& asked, double radius) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_queries(*tree_, queries, execution);
  check_answer(queries.rows, out, radius, execution);
  return point_tree::neighbors_or_out_of_memory(queries.rows, [&] {
    return point_tree::nearest_into(*tree_, {&queries}, radius, out, execution, "search");
  });
}

Neighbors PointTree::search(const DatasetView& queries, std::int64_t k, const Execution& asked,
                            const SearchOptions& options) const {
  const double radius = radius_of(*tree_, options);
  if (options.allowed == nullptr) return search(queries, k, asked, radius);
  Execution execution = on_one_device(*tree_, asked);
  check_queries(*tree_, queries, execution);
  check_k(k);
  check_radius(radius);
  // Several searches, and the host picks queries: once for all of them.
  cuda::wait_for_caller(execution, {cuda::place_of(queries.space, queries.device)});
  execution.follow_stream = false;
  return point_tree::nearest_allowed(*tree_, queries, k, radius, *options.allowed, execution);
}

SearchStatistics PointTree::search_into(const DatasetView& queries, const NeighborsView& out,
                                        const Execution& asked, const SearchOptions& options) const {
  const double radius = radius_of(*tree_, options);
  if (options.allowed == nullptr) return search_into(queries, out, asked, radius);
  check_answer(queries.rows, out, radius, on_one_device(*tree_, asked));
  const Neighbors found = search(queries, out.k, asked, options);
  deliver(found, out);
  return found.statistics;
}

Neighbors PointTree::all_knn(std::int64_t k, bool include_self, const Execution& asked, double radius) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_k(k);
  check_radius(radius);
  return point_tree::nearest(*tree_, {nullptr, include_self}, k, radius, execution, "all-knn");
}

SearchStatistics PointTree::all_knn_into(const NeighborsView& out, bool include_self, const Execution& asked,
                                         double radius) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_answer(tree_->rows, out, radius, execution);
  return point_tree::neighbors_or_out_of_memory(tree_->rows, [&] {
    return point_tree::nearest_into(*tree_, {nullptr, include_self}, radius, out, execution, "all-knn");
  });
}

RadiusNeighbors PointTree::radius_search(const DatasetView& queries, double radius,
                                         const RadiusOptions& options, const Execution& asked) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_queries(*tree_, queries, execution);
  check_radius(radius);
  if (options.max_neighbors < 0) {
    throw InvalidArgument(
        fmt::format("at most {} neighbours; use 1 or more, or 0 for all", options.max_neighbors));
  }
  return point_tree::within(*tree_, queries, radius, options, execution);
}

std::vector<std::int64_t> PointTree::count_within(const DatasetView& queries, double radius,
                                                  const Execution& asked) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_queries(*tree_, queries, execution);
  check_radius(radius);
  return point_tree::count(*tree_, queries, radius, execution);
}

Normals PointTree::normals(const Neighborhood& neighborhood,
                           const std::optional<std::vector<double>>& viewpoint,
                           const Execution& asked) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_normals(*tree_, neighborhood, viewpoint);
  return point_tree::neighbors_or_out_of_memory(tree_->rows, [&] {
    return point_tree::normals(*tree_, neighborhood, viewpoint ? viewpoint->data() : nullptr, execution);
  });
}

void PointTree::normals_into(const NormalsView& out, const Neighborhood& neighborhood,
                             const std::optional<std::vector<double>>& viewpoint, const Execution& asked,
                             const DatasetView& built_from) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_normals(*tree_, neighborhood, viewpoint);
  if (out.rows != tree_->rows || out.dim != tree_->dim) {
    throw InvalidArgument(
        fmt::format("the normals have room for [{}, {}], the tree's rows are [{}, {}]; "
                    "they must be the same",
                    out.rows, out.dim, tree_->rows, tree_->dim));
  }
  if (out.rows > 0 && out.normals == nullptr) {
    throw InvalidArgument("the normals are a null pointer; give memory for them");
  }
  check_space(out.space, out.device, "normals are to lie", execution);
  if (out.stride != 0 && (out.stride < out.dim || out.space != MemorySpace::host)) {
    throw InvalidArgument(
        fmt::format("a stride of {} for normals of {} {}; use at least as many, in host memory, or 0",
                    out.stride, out.dim, out.space == MemorySpace::host ? "values" : "values on a device"));
  }
  check_built_from(*tree_, built_from);
  point_tree::neighbors_or_out_of_memory(tree_->rows, [&] {
    point_tree::normals_into(*tree_, neighborhood, viewpoint ? viewpoint->data() : nullptr, out, execution,
                             built_from);
  });
}

Outliers PointTree::outliers(const Neighborhood& neighborhood, double ratio, const Execution& asked) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_neighborhood(neighborhood);
  if (!(ratio >= 0) || ratio == infinity) {
    throw InvalidArgument(fmt::format("a ratio of {} standard deviations; use a number of 0 or more", ratio));
  }
  return point_tree::neighbors_or_out_of_memory(
      tree_->rows, [&] { return point_tree::outliers(*tree_, neighborhood, ratio, execution); });
}

std::vector<double> PointTree::density(const Neighborhood& neighborhood, const Execution& asked) const {
  const Execution execution = on_one_device(*tree_, asked);
  check_neighborhood(neighborhood);
  if (tree_->metric == Metric::manhattan) {
    throw InvalidArgument(
        "density needs euclidean neighbourhoods; build the tree for sqeuclidean or euclidean");
  }
  return point_tree::neighbors_or_out_of_memory(
      tree_->rows, [&] { return point_tree::density(*tree_, neighborhood, execution); });
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
