#include "point_tiles/answers.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"
#include "point_tree/cpu/planes.hpp"
#include "point_tree/neighborhoods.hpp"

namespace kith::point_tiles {
namespace {

// List i, and the padding behind it.
template <class T>
void copy_padded(const Lists<T>& lists, std::int64_t i, std::int64_t k, std::int64_t* rows, T* distances) {
  const std::int64_t count = lists.size(i);
  std::copy_n(lists.rows + lists.begin(i), count, rows);
  std::copy_n(lists.distances + lists.begin(i), count, distances);
  std::fill(rows + count, rows + k, -1);
  std::fill(distances + count, distances + k, std::numeric_limits<T>::infinity());
}

}  // namespace

template <class T>
void NearestInMemory<T>::put(std::int64_t first, const Block<T>& block) {
  for (std::int64_t i = 0; i < block.lists.queries; ++i) {
    copy_padded(block.lists, i, k_, rows_.data() + (first + i) * k_, distances_.data() + (first + i) * k_);
  }
}

template <class T>
std::vector<Column> NearestInColumns<T>::columns(std::int64_t k, std::int64_t width) {
  return {
      {"indices", width == 4 ? "<u4" : "<i8", k, k * width},
      {"distances", std::is_same_v<T, float> ? "<f4" : "<f8", k, k * static_cast<std::int64_t>(sizeof(T))}};
}

template <class T>
void NearestInColumns<T>::put(std::int64_t first, const Block<T>& block) {
  const Lists<T>& lists = block.lists;
  if (lists.offsets == nullptr) {  // padded already
    columns_.put_numbers(0, first, lists.queries, lists.rows);
    columns_.put(1, first, lists.queries, lists.distances);
    return;
  }
  rows_.resize(static_cast<std::size_t>(lists.queries * k_));
  distances_.resize(rows_.size());
  for (std::int64_t i = 0; i < lists.queries; ++i) {
    copy_padded(lists, i, k_, rows_.data() + i * k_, distances_.data() + i * k_);
  }
  columns_.put_numbers(0, first, lists.queries, rows_.data());
  columns_.put(1, first, lists.queries, distances_.data());
}

template <class T>
std::vector<Column> Counts<T>::columns() {
  return {{"counts", "<i8", 1, sizeof(std::int64_t), false}};
}

template <class T>
void Counts<T>::put(std::int64_t first, const Block<T>& block) {
  if (columns_ != nullptr) {
    columns_->put(0, first, block.lists.queries, block.lists.counts);
  } else {
    std::copy_n(block.lists.counts, block.lists.queries, counts_->begin() + first);
  }
}

template <class T>
NormalsInColumns<T>::NormalsInColumns(const Manifest& manifest, std::optional<std::vector<double>> viewpoint,
                                      Columns& columns, const Execution& execution)
    : manifest_(manifest),
      viewpoint_(std::move(viewpoint)),
      columns_(columns),
      execution_(without_progress(execution)) {
  execution_.threads =
      resolve_threads(execution_);  // else every list that is fitted alone would ask the system again
}

template <class T>
std::vector<Column> NormalsInColumns<T>::columns(std::int64_t dim, ValueWidth width) {
  const bool narrow = width == ValueWidth::f32;
  return {{"normals", narrow ? "<f4" : "<f8", dim + 1, (dim + 1) * (narrow ? 4 : 8)}};
}

// The operations of a tree in memory, on coordinates as doubles: its own are as wide or narrower.
template <class T>
template <class Value, int dim>
void NormalsInColumns<T>::fit(const Block<T>& block, double* values) const {
  const auto load = [](const std::byte* from, double(&to)[dim]) {
    for (int j = 0; j < dim; ++j) {
      Value value;
      std::memcpy(&value, from + static_cast<std::size_t>(j) * sizeof(Value), sizeof(Value));
      to[j] = to_double(value);
    }
  };
  constexpr std::size_t row_bytes = dim * sizeof(Value);
  constexpr std::int64_t part = 1 << 8;
  const Lists<T>& lists = block.lists;
  const double* viewpoint = viewpoint_ ? viewpoint_->data() : nullptr;
  const point_tree::PlaneKernels* kernels = point_tree::plane_kernels();
  parallel_for(execution_, (lists.queries + part - 1) / part, [&](std::int64_t p) {
    if constexpr (dim == 3 && std::is_same_v<Value, T>) {
      if (kernels != nullptr && !block.in_order) {
        const std::int64_t first = p * part;
        const std::int64_t count = std::min(part, lists.queries - first);
        double* out = values + first * (dim + 1);
        std::fill_n(out, count * (dim + 1), std::numeric_limits<double>::quiet_NaN());
        const bool ragged = lists.offsets != nullptr;
        kernels->fit(point_tree::PlaneTask<T>{
            reinterpret_cast<const T*>(block.points), reinterpret_cast<const T*>(block.queries) + first * dim,
            nullptr, count, ragged ? lists.rows : lists.rows + first * lists.k, lists.k,
            ragged ? lists.offsets + first : nullptr, viewpoint, out, dim + 1, out + dim, dim + 1});
        return;
      }
    }
    for (std::int64_t i = p * part; i < std::min(lists.queries, (p + 1) * part); ++i) {
      double* out = values + i * (dim + 1);
      std::fill_n(out, dim + 1, std::numeric_limits<double>::quiet_NaN());
      const std::int64_t count = lists.size(i);
      if (count < dim) continue;
      double center[dim];
      load(block.queries + static_cast<std::size_t>(i) * row_bytes, center);
      point_tree::PlaneFit<dim> plane;
      const std::int64_t* rows = lists.rows + lists.begin(i);
      for (std::int64_t j = 0; j < count; ++j) {
        double point[dim];
        load(block.points + static_cast<std::size_t>(block.in_order ? j : rows[j]) * row_bytes, point);
        plane.add(point, center);
      }
      double normal[dim];
      double curvature = 0;
      if (!plane.solve(normal, curvature)) continue;
      point_tree::orient<dim>(normal, center, viewpoint);
      std::copy_n(normal, dim, out);
      out[dim] = curvature;
    }
  });
}

template <class T>
void NormalsInColumns<T>::reduce(const Block<T>& block, double* values) const {
  visit_dtype(manifest_.dtype, [&]<class Value>(Value) {
    manifest_.dim == 2 ? fit<Value, 2>(block, values) : fit<Value, 3>(block, values);
  });
}

template <class T>
std::vector<Column> MeanDistances<T>::columns() {
  return {{"mean_distance", "<f8", 1, sizeof(double), false}};
}

template <class T>
void MeanDistances<T>::reduce(const Block<T>& block, double* values) const {
  for (std::int64_t i = 0; i < block.lists.queries; ++i) {
    const std::int64_t count = block.lists.size(i);
    const T* distances = block.lists.distances + block.lists.begin(i);
    double sum = 0;
    for (std::int64_t j = 0; j < count; ++j) sum += static_cast<double>(distances[j]);
    values[i] = count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
  }
}

template class NearestInMemory<float>;
template class NearestInMemory<double>;
template class NearestInColumns<float>;
template class NearestInColumns<double>;
template class Counts<float>;
template class Counts<double>;
template class NormalsInColumns<float>;
template class NormalsInColumns<double>;
template class MeanDistances<float>;
template class MeanDistances<double>;

}  // namespace kith::point_tiles
