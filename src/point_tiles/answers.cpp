#include "point_tiles/answers.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/parallel.hpp"
#include "point_tiles/planes.hpp"

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

template <class T>
void NormalsInColumns<T>::reduce(const Block<T>& block, double* values) const {
  constexpr std::int64_t part = 1 << 8;
  const Lists<T>& lists = block.lists;
  const bool ragged = lists.offsets != nullptr;
  const auto row_bytes = static_cast<std::int64_t>(manifest_.row_bytes());
  parallel_for(execution_, (lists.queries + part - 1) / part, [&](std::int64_t p) {
    const std::int64_t first = p * part, count = std::min(part, lists.queries - first);
    double* planes = values + first * (manifest_.dim + 1);
    std::fill_n(planes, count * (manifest_.dim + 1), std::numeric_limits<double>::quiet_NaN());
    fit_planes<T>({manifest_.dtype, manifest_.dim, block.points, block.queries + first * row_bytes, nullptr,
                   count, ragged ? lists.rows : lists.rows + first * lists.k, lists.k,
                   ragged ? lists.offsets + first : nullptr, block.in_order,
                   viewpoint_ ? viewpoint_->data() : nullptr, planes});
  });
}

template <class T>
std::vector<Column> MeanDistances<T>::columns() {
  return {{"mean_distance", "<f8", 1, sizeof(double), false}};
}

template <class T>
void MeanDistances<T>::reduce(const Block<T>& block, double* values) const {
  for (std::int64_t i = 0; i < block.lists.queries; ++i) {
    values[i] = mean_of(block.lists.distances + block.lists.begin(i), block.lists.size(i));
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
