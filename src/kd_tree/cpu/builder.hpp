// Building a k-d tree: points are records that move as they are divided.
//
// A large node takes a sample of its points, divides the sample at medians of the widest axis four times over
// and sends every point down these 15 comparisons to one of 16 children: one pass to look, one to move, for
// four levels (the sieve of the Pkd-tree: Men et al., SIGMOD 2025). A small one is divided by exact medians,
// in cache, at places that fill the leaves. So the expected cost is O(n log n) with a small constant, and
// equal values cannot make it worse: where a sample divides badly, exact medians, which divide by count, take
// over. Where the points lie meanwhile is the business of store.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "kd_tree/cpu/build.hpp"
#include "kd_tree/cpu/records.hpp"
#include "kd_tree/cpu/select.hpp"
#include "kd_tree/cpu/store.hpp"
#include "point_tree/builder.hpp"
#include "point_tree/tuning.hpp"

namespace kith::kd_tree {
namespace {

using point_tree::for_each_point;
using point_tree::Growth;
using point_tree::node_width;
namespace tuning = point_tree::tuning;

// Of a leaf size, the multiple that medians are moved to, so that leaves fill whole registers.
constexpr std::int64_t register_points = 16;

template <class T, class Id, int D>
class Builder : Store<T, Id, D> {
  using Base = Store<T, Id, D>;
  using Base::arrays_;
  using Base::bounds_of;
  using Base::dim_;
  using Base::give_records_back;
  using Base::has_kernels;
  using Base::hold;
  using Base::kernels_;
  using Base::packed;
  using Base::place_for;
  using Base::points_;
  using Base::points_from;
  using Base::points_to;
  using Base::put;
  using Base::record;
  using Base::value;
  using Base::visit;
  using Base::write_leaf;
  using typename Base::R;
  using typename Base::Range;
  using typename Base::Storage;
  using Ranges = std::vector<Range>;

 public:
  Builder(const Points<T>& points, std::int64_t leaf_size, const Execution& execution)
      : Base(points),
        leaf_(leaf_size),
        execution_(execution),
        threads_(points.count < tuning::parallel_build ? 1 : resolve_threads(execution)),
        parts_(points.count) {}

  point_tree::Tree run(const DatasetView& rows) {
    if (points_.count == 0) return arrays_.finish(nullptr, points_, rows, 1);
    Range all{0, points_.count};
    if (!points_.left_out.empty()) {
      StopRequest stop(execution_);
      for_each_point(points_, rows.rows, threads_, stop,
                     [&](std::int64_t i, std::int64_t to) { put(to, record(i)); });
      all.storage = Storage::arrays;
    }
    ProgressCounter progress(execution_, "build", points_.count);
    progress_ = &progress;
    const auto cut = [this](const Range& range, bool together) { return divide(range, together); };
    const auto write = [this](Branch<T>& branch, std::int64_t child, const Range& range) {
      write_leaf(branch, child, range);
    };
    const auto root =
        Growth<T, Range, decltype(cut), decltype(write)>(dim_, leaf_, threads_, progress, cut, write)
            .grow(all);
    progress.finish();
    // Not held beside the nodes.
    parts_ = {};
    give_records_back();
    return arrays_.finish(root.get(), points_, rows, threads_);
  }

 private:
  // Points that a node of leaves takes.
  std::int64_t full() const { return node_width * leaf_; }

  // Into how many parts to divide a node of more: so many that the nodes below are nearly full.
  std::int64_t parts_of(double count) const {
    std::int64_t parts = 2;
    while (parts < node_width && static_cast<double>(parts * full()) < count) parts *= 2;
    return parts;
  }

  // How many points to sample for the division of a node; 0: exact medians.
  std::int64_t sampled(std::int64_t count) const {
    if (count <= std::max(tuning::split_by_sample, full())) return 0;
    return count < 16 * tuning::sample ? tuning::sample / 4 : tuning::sample;
  }

  // Cuts a range that is too large for a leaf into 1 to 16 parts, moving its points.
  Ranges divide(const Range& range, bool together) {
    Ranges ranges;
    if (sampled(range.count) > 0 && divide_by_sample(range, together, ranges)) return ranges;
    const std::int64_t parts =
        range.count <= full() ? node_width : parts_of(static_cast<double>(range.count));
    divide_exactly(hold(range, together), parts, ranges);
    return ranges;
  }

  // The axis along which some points spread the most, and whether they are all one point.
  struct Spread {
    std::int64_t widest = 0;
    bool point = false;
    T low{};  // of the widest
    T high{};
  };

  Spread spread_of(const R* records, std::int64_t count) const {
    std::array<T, 64> fixed;
    std::vector<T> allocated;
    T* lower = fixed.data();
    if (2 * dim_ > static_cast<std::int64_t>(fixed.size())) {
      allocated.resize(static_cast<std::size_t>(2 * dim_));
      lower = allocated.data();
    }
    T* upper = lower + dim_;
    Spread spread;
    const std::int64_t dim = D > 0 ? D : dim_;
    bounds_of(records, count, lower, upper);
    // Halves, so that the widest of all cannot overflow.
    T widest = 0;
    for (std::int64_t j = 0; j < dim; ++j) {
      const T extent = upper[j] / 2 - lower[j] / 2;
      if (extent > widest) {
        widest = extent;
        spread.widest = j;
      }
    }
    if (widest == 0) {  // halves of neighbouring subnormals may be equal
      spread.point = true;
      for (std::int64_t j = 0; j < dim; ++j) {
        if (lower[j] != upper[j]) {
          spread.point = false;
          spread.widest = j;
        }
      }
    }
    spread.low = lower[spread.widest];
    spread.high = upper[spread.widest];
    return spread;
  }

  // The nth of some records along an axis, which divides them; smaller ones go before it.
  T select(R* records, std::int64_t nth, std::int64_t count, const Spread& spread) const {
    if constexpr (has_kernels) {
      T found;
      if (kernels_ != nullptr && count <= most_selected &&
          kernels_->select(records, nth, count, spread.widest, spread.low, spread.high, &found)) {
        return found;
      }
    }
    nth_element(records, nth, count, [&](const R& r) { return value(r, spread.widest); });
    return value(records[nth], spread.widest);
  }

  // Medians of the widest axis, until `parts` parts are there or all are leaves.
  void divide_exactly(const Range& range, std::int64_t parts, Ranges& ranges) {
    R* records = range.records;
    if (range.count <= leaf_ || parts == 1) {
      ranges.push_back(range);
      return;
    }
    const Spread spread = spread_of(records, range.count);
    if (spread.point) {
      ranges.push_back(range);
      ranges.back().identical = true;
      return;
    }
    std::int64_t middle = (range.count / 2 + register_points - 1) / register_points * register_points;
    if (leaf_ < register_points || middle >= range.count) middle = range.count / 2;
    select(records, middle, range.count, spread);
    divide_exactly(range.part(0, middle), parts / 2, ranges);
    divide_exactly(range.part(middle, range.count - middle), parts / 2, ranges);
  }

  void fill(Sieve<T>& sieve, std::int64_t node, R* sample, std::int64_t count) const {
    if (node >= std::int64_t{1} << sieve.levels) return;
    if (count == 0) {
      fill(sieve, 2 * node, sample, 0);
      fill(sieve, 2 * node + 1, sample, 0);
      return;
    }
    const Spread spread = spread_of(sample, count);
    const std::int64_t middle = count / 2;
    sieve.axis[node] = static_cast<std::int32_t>(spread.widest);
    sieve.value[node] = spread.point ? spread.low : select(sample, middle, count, spread);
    fill(sieve, 2 * node, sample, middle);
    fill(sieve, 2 * node + 1, sample + middle, count - middle);
  }

  // The part that a point falls to.
  template <int levels>
  static std::size_t sift(const Sieve<T>& sieve, const T* x) {
    std::size_t node = 1;
    for (int level = 0; level < levels; ++level) {
      node = 2 * node + (x[sieve.axis[node]] >= sieve.value[node] ? 1U : 0U);
    }
    return node - (std::size_t{1} << static_cast<unsigned>(levels));
  }

  // False when the sample divides badly; nothing has moved then.
  bool divide_by_sample(const Range& range, bool together, Ranges& ranges) {
    const std::int64_t samples = sampled(range.count);
    std::vector<R> sample;
    sample.reserve(static_cast<std::size_t>(samples));
    visit(range, [&](const auto& at) {
      // One at a pseudo-random offset in each of as many equal parts: blind to periods in the data.
      const std::int64_t part = range.count / samples;
      std::uint64_t random = 0x9E3779B97F4A7C15ULL;
      for (std::int64_t i = 0; i < samples; ++i) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's MMIX
        const auto offset =
            static_cast<std::int64_t>((random >> 40U) * static_cast<std::uint64_t>(part) >> 24U);
        sample.push_back(at(part * i + offset));
      }
    });
    if (spread_of(sample.data(), samples).point) return false;
    Sieve<T> sieve{};
    // Parts are a tenth larger or smaller than others.
    const std::int64_t parts = parts_of(1.1 * static_cast<double>(range.count));
    for (sieve.levels = 1; (std::int64_t{1} << sieve.levels) < parts;) ++sieve.levels;
    fill(sieve, 1, sample.data(), samples);
    return deal(range, together, ranges, sieve);
  }

  using Counts = std::array<std::int64_t, most_parts>;

  // The parts of points [first, last) of a range.
  void sift_block(const Range& range, std::int64_t first, std::int64_t last, const Sieve<T>& sieve,
                  Counts& counts) {
    unsigned char* part = parts_.data() + range.begin;
    if constexpr (has_kernels) {
      if (kernels_ != nullptr && packed(range)) {
        const PointsFrom from = points_from(range);
        kernels_->sift(from.values + first * from.stride, from.stride, last - first, sieve, part + first,
                       counts.data());
        return;
      }
    }
    visit(range, [&](const auto& at) {
      const auto with_levels = [&](auto levels) {
        for (std::int64_t i = first; i < last; ++i) {
          const R r = at(i);
          std::size_t found;
          if constexpr (D > 0) {
            found = sift<levels()>(sieve, r.x);
          } else {
            found = sift<levels()>(sieve, points_.row(static_cast<std::int64_t>(r.row)));
          }
          part[i] = static_cast<unsigned char>(found);
          ++counts[found];
        }
      };
      switch (sieve.levels) {
        case 1: return with_levels(std::integral_constant<int, 1>());
        case 2: return with_levels(std::integral_constant<int, 2>());
        case 3: return with_levels(std::integral_constant<int, 3>());
        default: return with_levels(std::integral_constant<int, 4>());
      }
    });
  }

  // Moves them to where `next` says.
  void deal_block(const Range& range, std::int64_t first, std::int64_t last, const Range& moved,
                  Counts next) {
    const unsigned char* part = parts_.data() + range.begin;
    if constexpr (has_kernels) {
      if (kernels_ != nullptr && packed(range)) {
        PointsFrom from = points_from(range);
        from.values += first * from.stride;
        from.first_row += first;
        if (from.rows != nullptr) from.rows += first;
        kernels_->deal(from, last - first, part + first, points_to(moved), next.data());
        return;
      }
    }
    visit(range, [&](const auto& at) {
      if (moved.storage == Storage::arrays) {
        for (std::int64_t i = first; i < last; ++i) this->put(moved.begin + next[part[i]]++, at(i));
      } else {
        for (std::int64_t i = first; i < last; ++i) moved.records[next[part[i]]++] = at(i);
      }
    });
  }

  bool deal(const Range& range, bool together, Ranges& ranges, const Sieve<T>& sieve) {
    const std::size_t parts = std::size_t{1} << static_cast<unsigned>(sieve.levels);
    const int threads = together ? threads_ : 1;
    // One a thread and some more; each is over in some milliseconds.
    const std::int64_t blocks =
        std::max<std::int64_t>(threads == 1 ? 1 : 4 * threads, range.count / tuning::points_between_polls);
    std::vector<Counts> counts(static_cast<std::size_t>(blocks));
    const auto first_of = [&](std::int64_t b) { return range.count * b / blocks; };
    parallel_for(threads, blocks, [&](std::int64_t b) {
      sift_block(range, first_of(b), first_of(b + 1), sieve, counts[static_cast<std::size_t>(b)]);
      progress_->advance(0);
    });
    std::int64_t end = 0;
    std::int64_t most = 0;
    std::array<std::int64_t, most_parts + 1> begins{};
    for (std::size_t c = 0; c < parts; ++c) {
      for (auto& block : counts) end += std::exchange(block[c], end);
      begins[c + 1] = end;
      most = std::max(most, end - begins[c]);
    }
    if (most > range.count / 4 * 3) return false;
    const Range moved = place_for(range, together);
    parallel_for(threads, blocks, [&](std::int64_t b) {
      progress_->check();
      deal_block(range, first_of(b), first_of(b + 1), moved, counts[static_cast<std::size_t>(b)]);
    });
    for (std::size_t c = 0; c < parts; ++c) {
      if (begins[c + 1] > begins[c]) ranges.push_back(moved.part(begins[c], begins[c + 1] - begins[c]));
    }
    return true;
  }

  std::int64_t leaf_;
  const Execution& execution_;
  int threads_;
  ProgressCounter* progress_ = nullptr;
  AlignedBuffer<unsigned char> parts_;
};

}  // namespace

template <class T, class Id>
point_tree::Tree build_as(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution) {
  const Points<T> points = point_tree::read_points<T>(rows, execution);
  switch (rows.dim) {
    case 2: return Builder<T, Id, 2>(points, leaf_size, execution).run(rows);
    case 3: return Builder<T, Id, 3>(points, leaf_size, execution).run(rows);
    default: return Builder<T, Id, 0>(points, leaf_size, execution).run(rows);
  }
}

}  // namespace kith::kd_tree
