#include "point_tiles/planes.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/visit_dtype.hpp"
#include "point_tree/cpu/planes.hpp"
#include "point_tree/neighborhoods.hpp"

namespace kith::point_tiles {
namespace {

std::int64_t number_of(const PlanesOf& task, std::int64_t i) {
  return task.numbers == nullptr ? i : task.numbers[i];
}

template <class Value, int dim>
void load(const std::byte* from, double (&to)[dim]) {
  for (double& value : to) {
    Value held;
    std::memcpy(&held, from, sizeof(Value));
    from += sizeof(Value);
    value = to_double(held);
  }
}

template <class Value, int dim>
void fit_one(const PlanesOf& task, std::int64_t i) {
  constexpr std::size_t row_bytes = dim * sizeof(Value);
  const bool ragged = task.offsets != nullptr;
  const std::int64_t* rows = task.rows + (ragged ? task.offsets[i] : i * task.k);
  const std::int64_t count =
      ragged ? task.offsets[i + 1] - task.offsets[i] : std::find(rows, rows + task.k, -1) - rows;
  if (count < dim) return;
  const std::int64_t number = number_of(task, i);
  double center[dim];
  load<Value>(task.centers + static_cast<std::size_t>(number) * row_bytes, center);
  point_tree::PlaneFit<dim> plane;
  for (std::int64_t j = 0; j < count; ++j) {
    double point[dim];
    load<Value>(task.points + static_cast<std::size_t>(task.in_order ? j : rows[j]) * row_bytes, point);
    plane.add(point, center);
  }
  double normal[dim];
  double curvature = 0;
  if (!plane.solve(normal, curvature)) return;
  point_tree::orient<dim>(normal, center, task.viewpoint);
  double* out = task.values + number * (dim + 1);
  std::copy_n(normal, dim, out);
  out[dim] = curvature;
}

// Several at once, where this machine can. @return whether it was done
template <class T>
bool fit_together(const PlanesOf& task) {
  const point_tree::PlaneKernels* kernels = point_tree::plane_kernels();
  const bool same = task.dtype == (std::is_same_v<T, double> ? Dtype::f64 : Dtype::f32);
  if (kernels == nullptr || task.dim != 3 || !same || task.in_order) return false;
  kernels->fit(point_tree::PlaneTask<T>{
      reinterpret_cast<const T*>(task.points), reinterpret_cast<const T*>(task.centers), task.numbers,
      task.count, task.rows, task.k, task.offsets, task.viewpoint, task.values, 4, task.values + 3, 4});
  return true;
}

}  // namespace

template <class T>
void fit_planes(const PlanesOf& task) {
  if (fit_together<T>(task)) return;
  visit_dtype(task.dtype, [&]<class Value>(Value) {
    for (std::int64_t i = 0; i < task.count; ++i) {
      task.dim == 2 ? fit_one<Value, 2>(task, i) : fit_one<Value, 3>(task, i);
    }
  });
}

template void fit_planes<float>(const PlanesOf&);
template void fit_planes<double>(const PlanesOf&);

}  // namespace kith::point_tiles
