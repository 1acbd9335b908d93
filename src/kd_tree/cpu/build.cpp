// Building a k-d tree: points are records that move as they are divided.
//
// A large node takes a sample of its points, divides the sample at medians of the widest axis four times over
// and sends every point down these 15 comparisons to one of 16 children: one pass to look, one to move, for
// four levels (the sieve of the Pkd-tree: Men et al., SIGMOD 2025). A small one is divided by exact medians,
// in cache, at places that fill the leaves. So the expected cost is O(n log n) with a small constant, and
// equal values cannot make it worse: where a sample divides badly, exact medians, which divide by count, take
// over.
//
// The root is divided straight from the caller's rows. What one thread divides moves between its records and
// a buffer of the thread's, which stays in its cache; fresh memory costs more than the work on it.
#include "kd_tree/cpu/build.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <oneapi/tbb/enumerable_thread_specific.h>

#include "core/instruction_set.hpp"
#include "core/parallel.hpp"
#include "core/sample.hpp"
#include "kd_tree/cpu/partition.hpp"
#include "point_tree/builder.hpp"
#include "point_tree/tuning.hpp"

namespace kith::kd_tree {
namespace {

using point_tree::Arrays;
using point_tree::Branch;
using point_tree::for_each_point;
using point_tree::Growth;
using point_tree::node_width;
using point_tree::Points;
namespace tuning = point_tree::tuning;

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

// Of a leaf size, the multiple that medians are moved to, so that leaves fill whole registers.
constexpr std::int64_t register_points = 16;

// Moves items for which `before` holds to the front, without a branch that depends on the data (Lomuto's
// partition, as in Edelkamp and Weiss, "BlockQuicksort", 2016). Returns how many.
template <class R, class Before>
std::int64_t partition(R* items, std::int64_t count, const Before& before) {
  std::int64_t front = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const R item = items[i];
    items[i] = items[front];
    items[front] = item;
    front += before(item) ? 1 : 0;
  }
  return front;
}

// As std::nth_element by key(item): for medians of many small ranges a branch a comparison costs most.
// below(items, count, pivot) moves the items whose keys are below to the front and counts them.
template <class R, class Key, class Below>
void nth_element(R* items, std::int64_t nth, std::int64_t count, const Key& key, const Below& below) {
  constexpr std::int64_t small = 24;
  for (int round = 0; count > small; ++round) {
    if (round == 64) {  // pivots that divide badly again and again
      std::nth_element(items, items + nth, items + count,
                       [&](const R& a, const R& b) { return key(a) < key(b); });
      return;
    }
    // The pivot is a median of nine near the place that is looked for.
    decltype(key(items[0])) sample[9];
    for (std::int64_t i = 0; i < 9; ++i) sample[i] = key(items[(2 * i + 1) * count / 18]);
    const auto place = std::clamp<std::int64_t>(nth * 9 / count, 1, 7);
    std::nth_element(sample, sample + place, sample + 9);
    const auto pivot = sample[place];
    const std::int64_t less = below(items, count, pivot);
    if (nth < less) {
      count = less;
      continue;
    }
    if (less > 0) {  // equal ones are looked for when nothing else is left of the pivot
      items += less;
      nth -= less;
      count -= less;
      continue;
    }
    const std::int64_t equal = partition(items, count, [&](const R& item) { return !(pivot < key(item)); });
    if (nth < equal) return;
    items += equal;
    nth -= equal;
    count -= equal;
  }
  for (std::int64_t i = 1; i < count; ++i) {
    const R item = items[i];
    std::int64_t j = i;
    for (; j > 0 && key(item) < key(items[j - 1]); --j) items[j] = items[j - 1];
    items[j] = item;
  }
}

// Null: nothing quicker than plain code.
PartitionRecords partition_records() {
#if defined(__x86_64__)
  if (active_instruction_set() == InstructionSet::avx512_vnni) return partition_records_avx512;
#endif
  return nullptr;
}

template <class T, class Id, int D>
class Builder {
  using R = Record<T, Id, D>;
  struct Range {
    std::int64_t begin;
    std::int64_t count;
    R* records = nullptr;  // null: still the caller's rows
    R* other = nullptr;    // where they can be moved to; null: nowhere yet
    bool identical = false;

    Range part(std::int64_t first, std::int64_t size) const {
      return {begin + first, size, records + first, other == nullptr ? nullptr : other + first};
    }
  };
  using Ranges = std::vector<Range>;

 public:
  Builder(const Points<T>& points, std::int64_t leaf_size, const Execution& execution)
      : points_(points),
        dim_(points.dim),
        leaf_(leaf_size),
        execution_(execution),
        threads_(points.count < tuning::parallel_build ? 1 : resolve_threads(execution)),
        arrays_(points.count, points.dim),
        records_(points.count),
        buckets_(points.count) {}

  point_tree::Tree run(const DatasetView& rows) {
    if (points_.count == 0) return arrays_.finish(nullptr, points_, rows);
    Range all{0, points_.count};
    if (!points_.left_out.empty() || sampled(points_.count) == 0) all.records = load(rows.rows);
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
    return arrays_.finish(root.get(), points_, rows);
  }

 private:
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

  R* load(std::int64_t rows) {
    for_each_point(points_, rows, threads_,
                   [&](std::int64_t i, std::int64_t to) { records_[to] = record(i); });
    return records_.data();
  }

  void write_leaf(Branch<T>& branch, std::int64_t child, const Range& range) {
    const R* records = range.records;
    arrays_.write_leaf(branch, child, range.begin, range.count, range.identical, [&](std::int64_t i) {
      const R& record = records[i];
      if constexpr (D > 0) {
        return std::pair<const T*, Id>(record.x, record.row);
      } else {
        return std::pair<const T*, Id>(points_.row(static_cast<std::int64_t>(record.row)), record.row);
      }
    });
  }

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

  // Cuts a range that is too large for a leaf into 1 to 16 parts, moving its records.
  Ranges divide(const Range& range, bool together) {
    Ranges ranges;
    if (sampled(range.count) > 0) {
      if (range.records != nullptr) {
        if (divide_by_sample(range, together, ranges, [&](std::int64_t i) { return range.records[i]; })) {
          return ranges;
        }
      } else {
        if (divide_by_sample(range, together, ranges, [&](std::int64_t i) { return record(i); })) {
          return ranges;
        }
      }
    }
    Range loaded = range;
    if (range.records == nullptr) loaded.records = load(range.count);
    const std::int64_t parts =
        range.count <= full() ? node_width : parts_of(static_cast<double>(range.count));
    divide_exactly(loaded, parts, ranges);
    return ranges;
  }

  // A place for the records of a range: memory of this thread, which finishes what it begins, or of all.
  R* place_for(const Range& range, bool together) {
    if (range.records == nullptr) return records_.data();
    if (range.other != nullptr) return range.other;
    if (together) {
      if (other_.empty()) other_ = AlignedBuffer<R>(points_.count);
      return other_.data() + range.begin;
    }
    AlignedBuffer<R>& own = own_.local();
    if (own.size() < range.count) own = AlignedBuffer<R>(range.count);
    return own.data();
  }

  // The axis along which some points spread the most, and whether they are all one point.
  struct Spread {
    std::int64_t widest = 0;
    bool point = false;
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
#if defined(__GNUC__)
    if constexpr (D == 3 && sizeof(R) == 16) {
      // A record is one register; what its row number is as a float does not matter.
      typedef float Four __attribute__((vector_size(16)));
      Four low;
      Four high;
      std::memcpy(&low, records, sizeof low);
      high = low;
      for (std::int64_t i = 1; i < count; ++i) {
        Four v;
        std::memcpy(&v, records + i, sizeof v);
        low = v < low ? v : low;
        high = v > high ? v : high;
      }
      for (std::int64_t j = 0; j < 3; ++j) {
        lower[j] = low[j];
        upper[j] = high[j];
      }
    } else
#endif
    {
      for (std::int64_t j = 0; j < dim; ++j) lower[j] = upper[j] = value(records[0], j);
      for (std::int64_t i = 1; i < count; ++i) {
        for (std::int64_t j = 0; j < dim; ++j) {
          const T v = value(records[i], j);
          lower[j] = v < lower[j] ? v : lower[j];
          upper[j] = v > upper[j] ? v : upper[j];
        }
      }
    }
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
    return spread;
  }

  // The nth of some records by an axis goes to its place, what is smaller before it.
  void select(R* records, std::int64_t nth, std::int64_t count, std::int64_t axis) const {
    nth_element(
        records, nth, count, [&](const R& r) { return value(r, axis); },
        [&](R* items, std::int64_t of, T pivot) {
          if constexpr (D == 3 && sizeof(R) == 16) {
            if (partition_records_ != nullptr && of <= most_partitioned) {
              return partition_records_(items, of, axis, pivot);
            }
          }
          return partition(items, of, [&](const R& r) { return value(r, axis) < pivot; });
        });
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
    select(records, middle, range.count, spread.widest);
    divide_exactly(range.part(0, middle), parts / 2, ranges);
    divide_exactly(range.part(middle, range.count - middle), parts / 2, ranges);
  }

  // 15 comparisons (or 7, 3, 1) as a heap: node i has children 2i and 2i + 1.
  struct Sieve {
    std::int64_t parts = node_width;
    std::array<std::int64_t, node_width> axis{};
    std::array<T, node_width> value{};
  };

  void fill(Sieve& sieve, std::int64_t node, R* sample, std::int64_t count) const {
    if (node >= sieve.parts) return;
    if (count == 0) {
      fill(sieve, 2 * node, sample, 0);
      fill(sieve, 2 * node + 1, sample, 0);
      return;
    }
    const Spread spread = spread_of(sample, count);
    const std::int64_t middle = count / 2;
    select(sample, middle, count, spread.widest);
    sieve.axis[static_cast<std::size_t>(node)] = spread.widest;
    sieve.value[static_cast<std::size_t>(node)] = value(sample[middle], spread.widest);
    fill(sieve, 2 * node, sample, middle);
    fill(sieve, 2 * node + 1, sample + middle, count - middle);
  }

  // The part that a point falls to.
  template <int levels>
  static std::size_t sift(const Sieve& sieve, const T* x) {
    std::size_t node = 1;
    for (int level = 0; level < levels; ++level) {
      node = 2 * node + (x[sieve.axis[node]] >= sieve.value[node] ? 1U : 0U);
    }
    return node - (std::size_t{1} << static_cast<unsigned>(levels));
  }

  // False when the sample divides badly; nothing has moved then. at(i): the record of the i-th point.
  template <class At>
  bool divide_by_sample(const Range& range, bool together, Ranges& ranges, const At& at) {
    std::vector<R> sample;
    const std::int64_t samples = sampled(range.count);
    sample.reserve(static_cast<std::size_t>(samples));
    for (const std::int64_t i : sample_rows(range.count, samples)) sample.push_back(at(i));
    if (spread_of(sample.data(), samples).point) return false;
    Sieve sieve;
    // Parts are a tenth larger or smaller than others.
    sieve.parts = parts_of(1.1 * static_cast<double>(range.count));
    fill(sieve, 1, sample.data(), samples);
    switch (sieve.parts) {
      case 2: return deal<1>(range, together, ranges, sieve, at);
      case 4: return deal<2>(range, together, ranges, sieve, at);
      case 8: return deal<3>(range, together, ranges, sieve, at);
      default: return deal<4>(range, together, ranges, sieve, at);
    }
  }

  template <int levels, class At>
  bool deal(const Range& range, bool together, Ranges& ranges, const Sieve& sieve, const At& at) {
    constexpr std::size_t parts = std::size_t{1} << static_cast<unsigned>(levels);
    unsigned char* bucket = buckets_.data() + range.begin;
    const int threads = together ? threads_ : 1;
    const std::int64_t blocks = threads == 1 ? 1 : 4 * threads;
    std::vector<std::array<std::int64_t, parts>> counts(static_cast<std::size_t>(blocks));
    const auto first_of = [&](std::int64_t b) { return range.count * b / blocks; };
    parallel_for(threads, blocks, [&](std::int64_t b) {
      std::array<std::int64_t, parts> seen{};
      for (std::int64_t i = first_of(b); i < first_of(b + 1); ++i) {
        std::size_t part;
        if constexpr (D > 0) {
          const R r = at(i);
          part = sift<levels>(sieve, r.x);
        } else {
          part = sift<levels>(sieve, points_.row(static_cast<std::int64_t>(at(i).row)));
        }
        bucket[i] = static_cast<unsigned char>(part);
        ++seen[part];
      }
      counts[static_cast<std::size_t>(b)] = seen;
      progress_->advance(0);
    });
    std::int64_t place = 0;
    std::int64_t most = 0;
    std::array<std::int64_t, parts + 1> begins{};
    for (std::size_t c = 0; c < parts; ++c) {
      for (auto& block : counts) place += std::exchange(block[c], place);
      begins[c + 1] = place;
      most = std::max(most, place - begins[c]);
    }
    if (most > range.count / 4 * (parts == 2 ? 3 : 2)) return false;
    R* to = place_for(range, together);
    parallel_for(threads, blocks, [&](std::int64_t b) {
      auto next = counts[static_cast<std::size_t>(b)];
      for (std::int64_t i = first_of(b); i < first_of(b + 1); ++i) to[next[bucket[i]]++] = at(i);
    });
    const Range moved{range.begin, range.count, to, range.records};
    for (std::size_t c = 0; c < parts; ++c) {
      if (begins[c + 1] > begins[c]) ranges.push_back(moved.part(begins[c], begins[c + 1] - begins[c]));
    }
    return true;
  }

  const Points<T>& points_;
  std::int64_t dim_;
  std::int64_t leaf_;
  const Execution& execution_;
  int threads_;
  ProgressCounter* progress_ = nullptr;
  PartitionRecords partition_records_ = partition_records();
  Arrays<T, Id> arrays_;
  AlignedBuffer<R> records_;
  AlignedBuffer<R> other_;                                 // only where all threads divide a second time
  tbb::enumerable_thread_specific<AlignedBuffer<R>> own_;  // of each thread
  AlignedBuffer<unsigned char> buckets_;
};

template <class T, class Id>
point_tree::Tree build_as(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution) {
  const Points<T> points = point_tree::read_points<T>(rows, execution);
  switch (rows.dim) {
    case 2: return Builder<T, Id, 2>(points, leaf_size, execution).run(rows);
    case 3: return Builder<T, Id, 3>(points, leaf_size, execution).run(rows);
    default: return Builder<T, Id, 0>(points, leaf_size, execution).run(rows);
  }
}

}  // namespace

std::uint64_t build_bytes_a_point(const DatasetView& rows) {
  const std::uint64_t id = rows.rows > point_tree::largest_narrow_tree() ? 8 : 4;
  const std::uint64_t element = rows.dtype == Dtype::f64 ? 8 : 4;
  const std::uint64_t record =
      rows.dim == 2 || rows.dim == 3 ? static_cast<std::uint64_t>(rows.dim) * element : 0;
  return 2 * ((record + id + element - 1) / element * element) + 1;
}

point_tree::Tree build(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution) {
  const bool wide = rows.rows > point_tree::largest_narrow_tree();
  if (rows.dtype == Dtype::f64) {
    return wide ? build_as<double, std::int64_t>(rows, leaf_size, execution)
                : build_as<double, std::uint32_t>(rows, leaf_size, execution);
  }
  return wide ? build_as<float, std::int64_t>(rows, leaf_size, execution)
              : build_as<float, std::uint32_t>(rows, leaf_size, execution);
}

}  // namespace kith::kd_tree
