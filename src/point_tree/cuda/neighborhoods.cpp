// Normals and mean distances on a device: lists of neighbours in its memory, all at once where there is room,
// else in batches of rows in the tree's order, and kernels that reduce them. Where groups of queries do the
// search, lists are of places in the tree or of distances, in columns, 4 bytes an entry.
#include "point_tree/cuda/neighborhoods.hpp"

#include "core/parallel.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/cuda/functions.hpp"
#include "point_tree/cuda/neighborhood_columns.hpp"
#include "point_tree/cuda/neighborhood_lists.hpp"
#include "point_tree/queries.hpp"

namespace kith::point_tree {
namespace {

// What all rows' neighbourhoods are reduced by: of columns where groups search, of lists where they do not,
// and of lists for the few rows that groups hand on. `room` is called once, when it is known that there is
// memory for `kept` bytes of results beside the search.
template <class Room, class UseColumns, class UseLists>
void reduce(const Tree& tree, const Neighborhood& how, bool normals, std::uint64_t kept, const char* stage,
            const Execution& execution, const Room& room, const UseColumns& use_columns,
            const UseLists& use_lists) {
  GroupNeighborhoods groups(tree, how, normals, normals, kept, stage, execution);
  if (!groups.fits()) {
    visit_distances(tree, [&]<class T>() {
      Neighborhoods<T> lists(tree, how, normals, normals, kept, execution);
      room();
      lists.for_each(stage, [&](const Lists<T>& some) { use_lists(some, lists.table(), lists.stream()); });
    });
    return;
  }
  const std::uint64_t taken = room();
  groups.for_each([&](const Columns& columns) { use_columns(columns, groups.stream()); });
  SomeRows left = groups.left();
  if (left.count > 0) {
    const Execution quiet = without_progress(execution);
    // What is free has no room for the results any more.
    const std::uint64_t still = execution.device_memory_limit > 0 ? kept : kept - taken;
    visit_distances(tree, [&]<class T>() {
      Neighborhoods<T> lists(tree, how, normals, normals, still, quiet, &left);
      lists.for_each(stage, [&](const Lists<T>& some) { use_lists(some, lists.table(), lists.stream()); });
    });
  }
  groups.finish();
}

}  // namespace

void normals_on_device(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                       const NormalsView& out, const Execution& execution) {
  const cuda::DeviceGuard guard(execution.devices.front().ordinal);
  const bool there = out.space == MemorySpace::cuda;
  const cuda::Stream stream;
  cuda::wait_for(execution, stream);
  cuda::Buffer<double> planes;
  const std::uint64_t planes_bytes = bytes_of<double>(tree.rows * plane_values);
  reduce(
      tree, neighborhood, true, planes_bytes + (there ? 0 : bytes_of<double>(tree.rows * (tree.dim + 1))),
      "normals", execution,
      [&] {
        planes = cuda::Buffer<double>(tree.rows * plane_values, stream);
        if (tree.points < tree.rows) fill_with_nan(planes.data(), planes.size(), stream);
        stream.synchronize();
        return planes_bytes;
      },
      [&](const Columns& columns, cudaStream_t on) {
        fit_planes(columns, tree.dim, viewpoint, planes.data(), on);
      },
      [&](const auto& lists, const auto& table, cudaStream_t on) {
        fit_planes(lists, table, tree.dim, viewpoint, planes.data(), on);
      });
  if (there) {
    split_planes(planes.data(), tree.rows, tree.dim, out.normals, out.curvature, stream);
    stream.synchronize();
    return;
  }
  const cuda::Buffer<double> normals(tree.rows * tree.dim, stream);
  const cuda::Buffer<double> curvature(out.curvature != nullptr ? tree.rows : 0, stream);
  split_planes(planes.data(), tree.rows, tree.dim, normals.data(), curvature.data(), stream);
  cuda::download(normals.data(), out.normals, normals.bytes(), stream, execution);
  if (!curvature.empty()) {
    cuda::download(curvature.data(), out.curvature, curvature.bytes(), stream, execution);
  }
}

void distances_on_device(const Tree& tree, const Neighborhood& neighborhood, const char* stage,
                         const NeighborDistances& out, const Execution& execution) {
  const cuda::DeviceGuard guard(execution.devices.front().ordinal);
  const cuda::Stream stream;
  // NaN, or -1, until a kernel writes them.
  cuda::Buffer<double> mean;
  cuda::Buffer<double> farthest;
  cuda::Buffer<std::int64_t> counts;
  const auto results = static_cast<std::int64_t>(out.mean != nullptr) + (out.farthest != nullptr ? 1 : 0) +
                       (out.counts != nullptr ? 1 : 0);
  const std::uint64_t kept = bytes_of<double>(results * tree.rows);
  reduce(
      tree, neighborhood, false, kept, stage, execution,
      [&] {
        if (out.mean != nullptr) mean = cuda::Buffer<double>(tree.rows, stream);
        if (out.farthest != nullptr) farthest = cuda::Buffer<double>(tree.rows, stream);
        if (out.counts != nullptr) counts = cuda::Buffer<std::int64_t>(tree.rows, stream);
        fill_with_nan(mean.data(), mean.size(), stream);
        fill_with_nan(farthest.data(), farthest.size(), stream);
        if (!counts.empty()) KITH_CUDA(cudaMemsetAsync(counts.data(), 0xff, counts.bytes(), stream));
        stream.synchronize();
        return kept;
      },
      [&](const Columns& columns, cudaStream_t on) {
        reduce_distances(columns, mean.data(), farthest.data(), counts.data(), on);
      },
      [&](const auto& lists, const auto& /*table*/, cudaStream_t on) {
        reduce_distances(lists, mean.data(), farthest.data(), counts.data(), on);
      });
  const auto down = [&](const auto& from, auto* to) {
    if (!from.empty()) cuda::download(from.data(), to, from.bytes(), stream, execution);
  };
  down(mean, out.mean);
  down(farthest, out.farthest);
  down(counts, out.counts);
}

}  // namespace kith::point_tree
