// Searches of trees for Python: checked numbers in, NumPy arrays over the library's memory out.
#include "_trees.hpp"

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "_answer.hpp"
#include "_gpu.hpp"
#include "_rows.hpp"
#include "_run.hpp"
#include "cuda/device_memory.hpp"
#include "kith/error.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

const PointTree& tree_of(const AnyIndex& index) {
  const PointTree* tree = index.point_tree();
  if (tree == nullptr) throw nb::type_error(fmt::format("a {} is no tree", index.type()).c_str());
  return *tree;
}

double pairs(const PointTree& tree, std::int64_t queries) {
  return static_cast<double>(tree.rows()) * static_cast<double>(queries) * static_cast<double>(tree.dim());
}

// Radius searches and neighbourhoods of all rows may touch any number of rows.
bool is_quick_over(const PointTree& tree, std::int64_t queries) {
  return is_quick(Execution{}, pairs(tree, queries));
}

// Whether a walk is over soon; a GPU does more in that time, and all of it is over in the time of some
// kernels.
bool is_quick_on(const Execution& execution, const PointTree& tree, std::int64_t queries, std::int64_t k) {
  return execution.devices.front().kind == Device::Kind::cuda
             ? is_quick(execution, static_cast<double>(queries) * static_cast<double>(k * tree.dim()))
             : is_quick_walk(tree.rows(), tree.dim(), queries, k);
}

nb::tuple search_within(const AnyIndex& index, const Rows& queries, std::int64_t k, double radius,
                        const RowSet* allowed, const CallLimits& limits, const nb::object& report) {
  const PointTree& tree = tree_of(index);
  const DatasetView& q = queries.dataset;
  const SearchOptions options{.radius = radius, .allowed = allowed};
  const Execution asked = make_execution(limits);
  return search_for(asked, report, is_quick_on(asked, tree, q.rows, k), q, k,
                    {[&](const Execution& execution) { return tree.search(q, k, execution, options); },
                     [&](const NeighborsView& out, const Execution& execution) {
                       return tree.search_into(q, out, execution, options);
                     }});
}

// On the GPU of number `stays` the answer stays there; -1: on none.
nb::tuple all_knn(const AnyIndex& index, std::int64_t k, bool include_self, double radius, int stays,
                  const CallLimits& limits, const nb::object& report) {
  const PointTree& tree = tree_of(index);
  const Execution asked = make_execution(limits);
  const bool quick = is_quick_on(asked, tree, tree.rows(), k);
  if (asked.devices.front() == Device{Device::Kind::cuda, stays}) {
    if (k < 1) throw InvalidArgument(fmt::format("k is {}; at least 1 neighbour must be asked for", k));
    std::optional<GpuAnswer> answer;
    SearchStatistics statistics;
    run(asked, report, quick, [&](const Execution& execution) {
      answer.emplace(tree.rows(), k, distance_dtype(tree.dtype()), stays);
      statistics = tree.all_knn_into(answer->view(), include_self, execution, radius);
    });
    return answer->to_python(statistics);
  }
  Neighbors answer;
  run(asked, report, quick,
      [&](const Execution& execution) { answer = tree.all_knn(k, include_self, execution, radius); });
  return to_python(std::move(answer));
}

nb::tuple radius_search(const AnyIndex& index, const Rows& queries, double radius, bool sorted,
                        std::int64_t max_neighbors, const CallLimits& limits, const nb::object& report) {
  const PointTree& tree = tree_of(index);
  const DatasetView& q = queries.dataset;
  RadiusNeighbors found;
  run(make_execution(limits), report, is_quick_over(tree, q.rows), [&](const Execution& execution) {
    Execution following = execution;
    follow_queries(following, q);
    found = tree.radius_search(q, radius, {.sorted = sorted, .max_neighbors = max_neighbors}, following);
  });
  return to_python(std::move(found));
}

nb::object count_within(const AnyIndex& index, const Rows& queries, double radius, const CallLimits& limits,
                        const nb::object& report) {
  const PointTree& tree = tree_of(index);
  const DatasetView& q = queries.dataset;
  std::vector<std::int64_t> counts;
  run(make_execution(limits), report, is_quick_over(tree, q.rows), [&](const Execution& execution) {
    Execution following = execution;
    follow_queries(following, q);
    counts = tree.count_within(q, radius, following);
  });
  const std::size_t size = counts.size();
  return own(std::move(counts), {size});
}

// `stays` as of all_knn.
nb::tuple normals(const AnyIndex& index, std::int64_t k, double radius,
                  const std::optional<std::vector<double>>& viewpoint, int stays, const CallLimits& limits,
                  const nb::object& report) {
  const PointTree& tree = tree_of(index);
  const Execution asked = make_execution(limits);
  const bool quick = is_quick_over(tree, tree.rows());
  if (asked.devices.front() == Device{Device::Kind::cuda, stays}) {
    const std::int64_t rows = tree.rows();
    const std::int64_t dim = tree.dim();
    // Both in one block, the second where every library may have it. Other dimensions are refused below.
    constexpr std::int64_t alignment = 32;
    const std::int64_t normals = (rows * dim + alignment - 1) / alignment * alignment;
    const auto bytes = static_cast<std::uint64_t>(dim == 2 || dim == 3 ? normals + rows : 0) * sizeof(double);
    std::shared_ptr<void> memory;
    NormalsView view{nullptr, nullptr, rows, dim, MemorySpace::cuda, stays};
    run(asked, report, quick, [&](const Execution& execution) {
      Execution rest = execution;
      if (rest.device_memory_limit > 0) {
        if (rest.device_memory_limit <= bytes) {
          throw OutOfMemory(
              fmt::format("the normals of {} rows take {} bytes of the GPU's memory, the limit is "
                          "{}; raise the limit, or use fewer rows",
                          rows, bytes, rest.device_memory_limit));
        }
        rest.device_memory_limit -= bytes;
      }
      memory = cuda::allocate(stays, bytes);
      view.normals = static_cast<double*>(memory.get());
      view.curvature = rows > 0 && bytes > 0 ? view.normals + normals : nullptr;
      tree.normals_into(view, {k, radius}, viewpoint, rest);
    });
    return nb::make_tuple(GpuArray{memory, view.normals, nb::dtype<double>(), rows, dim, stays},
                          GpuArray{memory, view.curvature, nb::dtype<double>(), rows, 1, stays, true});
  }
  Normals found;
  run(asked, report, quick, [&](const Execution& execution) {
    found = tree.normals({k, radius}, viewpoint, execution);
  });
  const auto rows = static_cast<std::size_t>(tree.rows());
  return nb::make_tuple(own(std::move(found.normals), {rows, static_cast<std::size_t>(tree.dim())}),
                        own(std::move(found.curvature), {rows}));
}

nb::tuple outliers(const AnyIndex& index, std::int64_t k, double radius, double ratio,
                   const CallLimits& limits, const nb::object& report) {
  const PointTree& tree = tree_of(index);
  Outliers found;
  run(make_execution(limits), report, is_quick_over(tree, tree.rows()), [&](const Execution& execution) {
    found = tree.outliers({k, radius}, ratio, execution);
  });
  // The vector packs bits; NumPy has a byte for each.
  std::vector<std::uint8_t> flags(found.outlier.begin(), found.outlier.end());
  const auto rows = static_cast<std::size_t>(tree.rows());
  return nb::make_tuple(own(std::move(flags), {rows}), own(std::move(found.mean_distance), {rows}),
                        found.mean, found.deviation, found.threshold);
}

nb::object density(const AnyIndex& index, std::int64_t k, double radius, const CallLimits& limits,
                   const nb::object& report) {
  const PointTree& tree = tree_of(index);
  std::vector<double> found;
  run(make_execution(limits), report, is_quick_over(tree, tree.rows()), [&](const Execution& execution) {
    found = tree.density({k, radius}, execution);
  });
  const std::size_t rows = found.size();
  return own(std::move(found), {rows});
}

}  // namespace

void bind_trees(nb::class_<AnyIndex>& index) {
  index
      .def("search_within", &search_within, nb::arg("queries"), nb::arg("k"), nb::arg("radius"),
           nb::arg("allowed").none(), nb::arg("limits"), nb::arg("report").none(),
           "(distances, indices, statistics) of the k nearest rows within a radius of each query.")
      .def("all_knn", &all_knn, nb::arg("k"), nb::arg("include_self"), nb::arg("radius"), nb::arg("stays"),
           nb::arg("limits"), nb::arg("report").none(),
           "(distances, indices, statistics) of the k nearest rows of each row.")
      .def("radius_search", &radius_search, nb::arg("queries"), nb::arg("radius"), nb::arg("sorted"),
           nb::arg("max_neighbors"), nb::arg("limits"), nb::arg("report").none(),
           "(offsets, indices, distances, statistics) of the rows within a radius.")
      .def("count_within", &count_within, nb::arg("queries"), nb::arg("radius"), nb::arg("limits"),
           nb::arg("report").none(), "Numbers of rows within a radius.")
      .def("normals", &normals, nb::arg("k"), nb::arg("radius"), nb::arg("viewpoint").none(),
           nb::arg("stays"), nb::arg("limits"), nb::arg("report").none(),
           "(normals, curvature) of every row.")
      .def("outliers", &outliers, nb::arg("k"), nb::arg("radius"), nb::arg("ratio"), nb::arg("limits"),
           nb::arg("report").none(), "(outlier, mean_distance, mean, deviation, threshold) of every row.")
      .def("density", &density, nb::arg("k"), nb::arg("radius"), nb::arg("limits"), nb::arg("report").none(),
           "Rows a unit of volume around every row.")
      .def_prop_ro(
          "leaf_size", [](const AnyIndex& self) { return tree_of(self).leaf_size(); }, "Most points a leaf.");
}

}  // namespace kith::python
