// Where the points of a k-d tree lie while they are divided.
//
// Fresh memory costs more than the work on it. So the root is divided straight from the caller's rows, into
// the arrays that the tree will end as; what one thread divides further moves between two buffers of the
// thread's, which stay in its cache, and its leaves go where its points came from.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/aligned_buffer.hpp"
#include "core/by_thread.hpp"
#include "kd_tree/cpu/records.hpp"
#include "point_tree/builder.hpp"

namespace kith::kd_tree {

// Each file that includes this has types of its own: what nobody else calls is inlined freely.
namespace {

using point_tree::Arrays;
using point_tree::Branch;
using point_tree::Points;

// A point on the move: its coordinates go with it in low dimension, else it is only a number.
template <class T, class Id, int D>
struct Record {
  T x[D];
  Id row;
};
template <class T, class Id>
struct Record<T, Id, 0> {
  Id row;
};

// The box of records of 16 bytes; a row number as a float does not matter.
inline void box_by_fours(const void* records, std::int64_t count, float* lower, float* upper) {
  typedef float Four __attribute__((vector_size(16)));
  const auto* items = static_cast<const unsigned char*>(records);
  Four low;
  std::memcpy(&low, items, sizeof low);
  Four high = low;
  for (std::int64_t i = 1; i < count; ++i) {
    Four v;
    std::memcpy(&v, items + i * 16, sizeof v);
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  std::memcpy(lower, &low, sizeof low);
  std::memcpy(upper, &high, sizeof high);
}

template <class T, class Id, int D>
class Store {
 protected:
  using R = Record<T, Id, D>;
  static constexpr bool has_kernels = D == 3 && std::is_same_v<T, float> && std::is_same_v<Id, std::uint32_t>;

  // Where the points of a range lie: still in the caller's rows; in the tree's arrays, point by point; or as
  // records.
  enum class Storage : std::uint8_t { rows, arrays, records };
  struct Range {
    std::int64_t begin;
    std::int64_t count;
    Storage storage = Storage::rows;
    R* records = nullptr;
    R* other = nullptr;  // where records can be moved to; null: nowhere yet
    bool identical = false;

    Range part(std::int64_t first, std::int64_t size) const {
      return {begin + first, size, storage, records == nullptr ? nullptr : records + first,
              other == nullptr ? nullptr : other + first};
    }
  };

  explicit Store(const Points<T>& points)
      : points_(points), dim_(points.dim), arrays_(points.count, points.dim) {}

  T value(const R& record, std::int64_t axis) const {
    if constexpr (D > 0) {
      return record.x[axis];
    } else {
      return points_.row(static_cast<std::int64_t>(record.row))[axis];
    }
  }

  R record(std::int64_t row) const {
    R made;
    made.row = static_cast<Id>(row);
    if constexpr (D > 0) std::copy_n(points_.row(row), D, made.x);
    return made;
  }

  // Into the tree's arrays and out of them, point by point.
  void put(std::int64_t to, const R& record) {
    arrays_.row_numbers()[to] = record.row;
    if constexpr (D > 0) std::copy_n(record.x, D, arrays_.coordinates() + to * D);
  }
  R taken(std::int64_t from) {
    R made;
    made.row = arrays_.row_numbers()[from];
    if constexpr (D > 0) std::copy_n(arrays_.coordinates() + from * D, D, made.x);
    return made;
  }

  // Calls use(at), at(i) being the record of the range's i-th point.
  template <class Use>
  void visit(const Range& range, const Use& use) {
    switch (range.storage) {
      case Storage::rows: return use([&](std::int64_t i) { return record(range.begin + i); });
      case Storage::arrays: return use([&](std::int64_t i) { return taken(range.begin + i); });
      case Storage::records: return use([&](std::int64_t i) { return range.records[i]; });
    }
  }

  // The same range as records. A thread has its own: it finishes what it begins.
  Range hold(const Range& range, bool together) {
    if (range.storage == Storage::records) return range;
    Range held = range;
    make_room(held, together);
    visit(range, [&](const auto& at) {
      for (std::int64_t i = 0; i < range.count; ++i) held.records[i] = at(i);
    });
    return held;
  }

  // Makes `range` one of records, without values.
  void make_room(Range& range, bool together) {
    range.storage = Storage::records;
    if (together) {
      if (records_.empty()) records_ = AlignedBuffer<R>(points_.count);
      range.records = records_.data() + range.begin;
      return;
    }
    auto& [one, two] = own_.local();
    if (one.size() < range.count) {
      one = AlignedBuffer<R>(range.count);
      two = AlignedBuffer<R>(range.count);
    }
    range.records = one.data();
    range.other = two.data();
  }

  // All points are in leaves.
  void give_records_back() {
    records_ = {};
    own_.clear();
  }

  void write_leaf(Branch<T>& branch, std::int64_t child, const Range& given) {
    const Range range = hold(given, false);
    const R* records = range.records;
    if constexpr (has_kernels) {
      if (kernels_ != nullptr) {
        float lower[4];
        float upper[4];
        kernels_->write_leaf(records, range.count, arrays_.coordinates() + range.begin * D,
                             arrays_.row_numbers() + range.begin, lower, upper);
        for (std::int64_t j = 0; j < D; ++j) {
          branch.lower(j, child) = lower[j];
          branch.upper(j, child, D) = upper[j];
        }
        arrays_.close_leaf(branch, child, range.begin, range.count, range.identical);
        return;
      }
    }
    arrays_.write_leaf(branch, child, range.begin, range.count, range.identical, [&](std::int64_t i) {
      const R& record = records[i];
      if constexpr (D > 0) {
        return std::pair<const T*, Id>(record.x, record.row);
      } else {
        return std::pair<const T*, Id>(points_.row(static_cast<std::int64_t>(record.row)), record.row);
      }
    });
  }

  // The same range at a place that its points can be moved to.
  Range place_for(const Range& range, bool together) {
    Range moved = range;
    if (together && range.storage != Storage::arrays) {
      moved.storage = Storage::arrays;
      moved.records = moved.other = nullptr;
    } else if (range.storage != Storage::records) {
      make_room(moved, together);
    } else if (range.other != nullptr) {
      std::swap(moved.records, moved.other);
    } else {
      make_room(moved, false);
      moved.other = range.records;
    }
    return moved;
  }

  void bounds_of(const R* records, std::int64_t count, T* lower, T* upper) const {
    if constexpr (has_kernels) {
      std::array<float, 4> low;
      std::array<float, 4> high;
      if (kernels_ != nullptr) {
        kernels_->box(records, count, low.data(), high.data());
      } else {
        box_by_fours(records, count, low.data(), high.data());
      }
      std::copy_n(low.data(), 3, lower);
      std::copy_n(high.data(), 3, upper);
      return;
    }
    const std::int64_t dim = D > 0 ? D : dim_;
    for (std::int64_t j = 0; j < dim; ++j) lower[j] = upper[j] = value(records[0], j);
    for (std::int64_t i = 1; i < count; ++i) {
      for (std::int64_t j = 0; j < dim; ++j) {
        const T v = value(records[i], j);
        lower[j] = v < lower[j] ? v : lower[j];
        upper[j] = v > upper[j] ? v : upper[j];
      }
    }
  }

  // Whether kernels can read its points.
  bool packed(const Range& range) const { return range.storage != Storage::rows || points_.stride == dim_; }

  PointsFrom points_from(const Range& range) {
    switch (range.storage) {
      case Storage::rows: return {points_.row(range.begin), dim_, nullptr, range.begin};
      case Storage::arrays:
        return {arrays_.coordinates() + range.begin * dim_, dim_, arrays_.row_numbers() + range.begin, 0};
      default: return {range.records->x, 4, nullptr, 0};
    }
  }
  PointsTo points_to(const Range& range) {
    if (range.storage == Storage::records) return {range.records->x, 4, nullptr};
    return {arrays_.coordinates() + range.begin * dim_, dim_, arrays_.row_numbers() + range.begin};
  }

  const Points<T>& points_;
  std::int64_t dim_;
  const RecordKernels* kernels_ = record_kernels();
  Arrays<T, Id> arrays_;

 private:
  AlignedBuffer<R> records_;  // only where all threads need them
  struct Own {
    AlignedBuffer<R> one, two;
  };
  ByThread<Own> own_;
};

}  // namespace
}  // namespace kith::kd_tree
