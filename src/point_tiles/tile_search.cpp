#include "point_tiles/tile_search.hpp"

#include <algorithm>
#include <limits>
#include <variant>

#include "core/parallel.hpp"
#include "kith/error.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {

template <class T>
TileSearch<T>::TileSearch(const Question& question, std::int64_t block_rows, std::int64_t bytes)
    : question_(question),
      block_rows_(block_rows),
      bytes_(bytes),
      together_(std::min(block_rows, tuning::least_block)) {}

template <class T>
Lists<T> TileSearch<T>::find(const Resident& where, const DatasetView& queries, std::int64_t first, bool own,
                             const Execution& execution) {
  switch (question_.kind) {
    case Kind::nearest: return nearest(where, queries, first, own, execution);
    case Kind::within: return within(where, queries, first, own, execution);
    case Kind::count: return count(where, queries, first, execution);
  }
  return {};
}

template <class T>
Lists<T> TileSearch<T>::nearest(const Resident& where, const DatasetView& queries, std::int64_t first,
                                bool own, const Execution& execution) {
  const std::int64_t count = std::min(block_rows_, queries.rows - first);
  const PointTree* tree = where.index.point_tree();
  const bool whole = own && tree != nullptr && count == queries.rows;
  // A query of the tile's own finds itself as well: one more, and it is taken out.
  const bool one_more = own && !question_.include_self && !whole;
  const std::int64_t k = question_.k + (one_more ? 1 : 0);
  make_room();
  if (whole) {
    (void)tree->all_knn_into({rows_.data(), distances_.data(), count, k}, question_.include_self, execution,
                             question_.radius);
  } else {
    search(where, queries.slice(first, count), k, execution);
  }
  if (one_more) take_out_self(count, [&](std::int64_t i) { return first + i; });
  if (tree == nullptr && question_.radius < std::numeric_limits<double>::infinity()) {
    cut_at_radius(count, execution);
  }
  return {count, rows_.data(), distances_.data(), question_.k};
}

template <class T>
void TileSearch<T>::make_room() {
  if (!rows_.empty()) return;
  rows_ = AlignedBuffer<std::int64_t>(block_rows_ * (question_.k + 1));
  distances_ = AlignedBuffer<T>(block_rows_ * (question_.k + 1));
}

template <class T>
void TileSearch<T>::search(const Resident& where, const DatasetView& queries, std::int64_t k,
                           const Execution& execution) {
  const NeighborsView out{rows_.data(), distances_.data(), queries.rows, k};
  if (const PointTree* tree = where.index.point_tree()) {
    (void)tree->search_into(queries, out, execution, question_.radius);
  } else {
    (void)where.index.search_into(queries, out, execution);
  }
}

template <class T>
Lists<T> TileSearch<T>::find_some(const Resident& where, const DatasetView& queries,
                                  const std::int64_t* places, const Execution& execution) {
  make_room();
  search(where, queries, question_.k + (question_.include_self ? 0 : 1), execution);
  if (!question_.include_self) take_out_self(queries.rows, [&](std::int64_t i) { return places[i]; });
  return {queries.rows, rows_.data(), distances_.data(), question_.k};
}

// In place and in order: a list moves to where the ones before it were.
template <class T>
template <class Self>
void TileSearch<T>::take_out_self(std::int64_t count, const Self& self_of) {
  const std::int64_t k = question_.k;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t* rows = rows_.data() + i * (k + 1);
    const std::int64_t self = std::find(rows, rows + k, self_of(i)) - rows;
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t from = i * (k + 1) + j + (j >= self ? 1 : 0);
      rows_[i * k + j] = rows_[from];
      distances_[i * k + j] = distances_[from];
    }
  }
}

// Brute force knows of no radius.
template <class T>
void TileSearch<T>::cut_at_radius(std::int64_t count, const Execution& execution) {
  constexpr std::int64_t part = 1 << 10;
  parallel_for(execution, (count + part - 1) / part, [&](std::int64_t p) {
    for (std::int64_t i = p * part; i < std::min(count, (p + 1) * part); ++i) {
      std::int64_t* rows = rows_.data() + i * question_.k;
      T* distances = distances_.data() + i * question_.k;
      std::int64_t j = 0;
      while (j < question_.k && rows[j] >= 0 && !(static_cast<double>(distances[j]) > question_.radius)) ++j;
      std::fill(rows + j, rows + question_.k, -1);
      std::fill(distances + j, distances + question_.k, std::numeric_limits<T>::infinity());
    }
  });
}

template <class T>
Lists<T> TileSearch<T>::within(const Resident& where, const DatasetView& queries, std::int64_t first,
                               bool own, const Execution& execution) {
  Execution limited = execution;
  limited.memory_limit = static_cast<std::uint64_t>(bytes_);
  std::int64_t count = std::min(together_, queries.rows - first);
  found_ = {};
  while (true) {
    try {
      found_ =
          where.index.point_tree()->radius_search(queries.slice(first, count), question_.radius, {}, limited);
      break;
    } catch (const OutOfMemory&) {
      if (count == 1) throw;
      count = together_ = count / 2;
    }
  }
  auto& distances = std::get<std::vector<T>>(found_.distances);
  constexpr auto entry = static_cast<std::int64_t>(sizeof(std::int64_t) + sizeof(T));
  // Lists are there twice while they are put together.
  if (found_.offsets.back() * entry < bytes_ / 6) together_ = std::min(block_rows_, 2 * together_);
  if (own && !question_.include_self) {
    std::int64_t to = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t from = found_.offsets[static_cast<std::size_t>(i)];
      const std::int64_t end = found_.offsets[static_cast<std::size_t>(i) + 1];
      found_.offsets[static_cast<std::size_t>(i)] = to;
      for (std::int64_t j = from; j < end; ++j) {
        if (found_.indices[static_cast<std::size_t>(j)] == first + i) continue;
        found_.indices[static_cast<std::size_t>(to)] = found_.indices[static_cast<std::size_t>(j)];
        distances[static_cast<std::size_t>(to++)] = distances[static_cast<std::size_t>(j)];
      }
    }
    found_.offsets.back() = to;
  }
  return {count, found_.indices.data(), distances.data(), 0, found_.offsets.data()};
}

template <class T>
Lists<T> TileSearch<T>::count(const Resident& where, const DatasetView& queries, std::int64_t first,
                              const Execution& execution) {
  const std::int64_t count = std::min(block_rows_, queries.rows - first);
  counts_ = where.index.point_tree()->count_within(queries.slice(first, count), question_.radius, execution);
  return {count, nullptr, nullptr, 0, nullptr, counts_.data()};
}

template class TileSearch<float>;
template class TileSearch<double>;

}  // namespace kith::point_tiles
