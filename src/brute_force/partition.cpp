// Lists by two levels of k-means over samples: rows go to the nearest of some centres, and within each to the
// nearest of its own. Any lists would do for the answer; radii are taken of all rows afterwards.
#include "brute_force/partition.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>

#include "core/parallel.hpp"
#include "core/sample.hpp"
#include "kith/error.hpp"

namespace kith::brute_force {
namespace {

constexpr std::int64_t rows_a_task = 2048;
constexpr std::int64_t iterations = 8;
constexpr std::int64_t rows_a_list = 1024;
constexpr std::int64_t most_lists = 8192;
/// Distances to centres are float32 sums: with so many terms still within 0.4 %.
constexpr std::int64_t longest_row = std::int64_t{1} << 16;
/// Lists of more rows are encoded by all threads together.
constexpr std::int64_t long_list = 1 << 14;

constexpr std::int32_t in_no_list = -1;
constexpr double grow = 1 + 0x1p-40;

// Rows on their way to code space; one thread's.
class Loader {
 public:
  Loader(const DatasetView& data, const codes::CodeSpace& space)
      : data_(data), space_(space), kernels_(codes::row_kernels()), scratch_(space) {}

  codes::RowKind load(std::int64_t row) {
    return codes::load_to_code_space(space_, kernels_, data_.row(row), scratch_.y.data(),
                                     codes::largest_row_entry, error_);
  }
  /// What was loaded last, as float32.
  const float* floats() {
    kernels_.round_to_float(scratch_.y.data(), space_.dim, scratch_.floats.data(), scratch_.decoded.data());
    return scratch_.floats.data();
  }
  /// At least its real distance to a point.
  double distance_to(const std::vector<double>& point) const {
    const double squares = kernels_.residual_squared(scratch_.y.data(), point.data(), space_.dim);
    return (std::sqrt(squares) * (1 + codes::sum_error) + error_) * grow + 0x1p-500;
  }

 private:
  const DatasetView& data_;
  const codes::CodeSpace& space_;
  const codes::RowKernels& kernels_;
  codes::Scratch scratch_;
  double error_ = 0;
};

class Maker {
 public:
  Maker(const DatasetView& data, const codes::CodeSpace& of_codes, const codes::Duplicates& duplicates,
        const Execution& execution)
      : data_(data),
        of_codes_(of_codes),
        duplicates_(duplicates),
        threads_(resolve_threads(execution)),
        cancelled_(execution.cancelled),
        stop_(cancelled_),
        list_of_(static_cast<std::size_t>(data.rows), 0),
        partition_(std::make_shared<Partition>()) {
    partition_->space = space_of_lists(data, of_codes.metric);
    for (const std::int64_t row : duplicates.collapsed())
      list_of_[static_cast<std::size_t>(row)] = in_no_list;
  }

  std::shared_ptr<const Partition> make(std::int64_t count) {
    const std::vector<float> centres = find_centres(count);
    group(std::ssize(centres) / data_.dim);
    finish(centres);
    return partition_;
  }

  // Centres alone, [lists, dim].
  std::vector<float> find_centres(std::int64_t count) {
    const auto coarse = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    set_aside();
    const std::vector<float> centres =
        centres_of(sample_rows(data_.rows, coarse * sampled_rows_a_centre), coarse);
    assign(centres, {0, std::ssize(centres) / data_.dim});
    group(std::ssize(centres) / data_.dim);
    return divide(count);
  }

 private:
  std::int32_t& list_of(std::int64_t row) { return list_of_[static_cast<std::size_t>(row)]; }

  template <class Body>
  void over_rows(const Body& body) {
    const std::int64_t tasks = (data_.rows + rows_a_task - 1) / rows_a_task;
    parallel_for(threads_, tasks, [&](std::int64_t task) {
      stop_.check();
      Loader loader(data_, partition_->space);
      const std::int64_t end = std::min(data_.rows, (task + 1) * rows_a_task);
      for (std::int64_t row = task * rows_a_task; row < end; ++row) {
        if (list_of(row) != in_no_list) body(row, loader);
      }
    });
  }

  // Rows without a place in code space. Those that were collapsed count where they have a NaN.
  void set_aside() {
    std::mutex mutex;
    Loader of_collapsed(data_, partition_->space);
    for (const std::int64_t row : duplicates_.collapsed())
      partition_->nan_rows += of_collapsed.load(row) == codes::RowKind::nan ? 1 : 0;
    over_rows([&](std::int64_t row, Loader& loader) {
      const codes::RowKind kind = loader.load(row);
      if (kind == codes::RowKind::regular) return;
      list_of(row) = in_no_list;
      const std::scoped_lock lock(mutex);
      if (kind == codes::RowKind::special) partition_->special.push_back(row);
      partition_->nan_rows += kind == codes::RowKind::nan ? 1 : 0;
    });
  }

  // k-means of some of the rows, those that are in a list.
  std::vector<float> centres_of(const std::vector<std::int64_t>& sample, std::int64_t count) {
    std::vector<float> rows;
    rows.reserve(sample.size() * static_cast<std::size_t>(data_.dim));
    Loader loader(data_, partition_->space);
    for (const std::int64_t row : sample) {
      if (list_of(row) == in_no_list || loader.load(row) != codes::RowKind::regular) continue;
      const float* values = loader.floats();
      rows.insert(rows.end(), values, values + data_.dim);
    }
    const auto n = static_cast<std::int64_t>(rows.size()) / data_.dim;
    if (n == 0) return std::vector<float>(static_cast<std::size_t>(data_.dim), 0.0F);
    return k_means(rows.data(), n, data_.dim, data_.dim,
                   {.count = std::min(count, n), .iterations = iterations, .seed = 0}, threads_,
                   [this] { stop_.check(); })
        .centroids;
  }

  // Every row to the nearest of the centres that its list so far has: those from begins[list] on.
  void assign(const std::vector<float>& centres, const std::vector<std::int64_t>& begins) {
    std::vector<SideBySide> of_list;
    for (std::size_t list = 0; list + 1 < begins.size(); ++list) {
      of_list.emplace_back(centres.data() + begins[list] * data_.dim, begins[list + 1] - begins[list],
                           data_.dim);
    }
    over_rows([&](std::int64_t row, Loader& loader) {
      (void)loader.load(row);
      const auto list = static_cast<std::size_t>(list_of(row));
      float distance = 0;
      list_of(row) =
          static_cast<std::int32_t>(begins[list] + of_list[list].nearest(loader.floats(), &distance));
    });
  }

  // Rows by their lists, ascending in each.
  void group(std::int64_t lists) {
    auto& first = partition_->first;
    first.assign(static_cast<std::size_t>(lists) + 1, 0);
    for (const std::int32_t list : list_of_) {
      if (list != in_no_list) ++first[static_cast<std::size_t>(list) + 1];
    }
    for (std::size_t list = 1; list < first.size(); ++list) first[list] += first[list - 1];
    partition_->rows.resize(static_cast<std::size_t>(first.back()));
    std::vector<std::int64_t> next(first.begin(), first.end() - 1);
    for (std::int64_t row = 0; row < data_.rows; ++row) {
      const std::int32_t list = list_of(row);
      if (list != in_no_list)
        partition_->rows[static_cast<std::size_t>(next[static_cast<std::size_t>(list)]++)] = row;
    }
  }

  // Each list into as many as its share of the rows, by k-means of some of its own.
  std::vector<float> divide(std::int64_t count) {
    std::vector<float> centres;
    std::vector<std::int64_t> begins = {0};
    const auto total = std::max<std::int64_t>(1, std::ssize(partition_->rows));
    for (std::int64_t list = 0; list + 1 < std::ssize(partition_->first); ++list) {
      const std::int64_t size = partition_->size_of(list);
      const std::int64_t parts = std::max<std::int64_t>(1, (size * count + total / 2) / total);
      std::vector<std::int64_t> sample = sample_rows(size, parts * sampled_rows_a_centre);
      for (std::int64_t& row : sample) row = partition_->rows_of(list)[row];
      const std::vector<float> its = centres_of(sample, parts);
      centres.insert(centres.end(), its.begin(), its.end());
      begins.push_back(std::ssize(centres) / data_.dim);
    }
    assign(centres, begins);
    return centres;
  }

  // Radii and codes; lists without rows go.
  void finish(const std::vector<float>& centres) {
    Partition& its = *partition_;
    std::vector<std::int64_t> kept;
    for (std::int64_t list = 0; list + 1 < std::ssize(its.first); ++list) {
      if (its.size_of(list) > 0) kept.push_back(list);
    }
    std::vector<float> their(kept.size() * static_cast<std::size_t>(data_.dim));
    std::vector<std::int64_t> first = {0};
    for (std::size_t i = 0; i < kept.size(); ++i) {
      std::copy_n(centres.data() + kept[i] * data_.dim, data_.dim,
                  their.begin() + static_cast<std::ptrdiff_t>(i) * data_.dim);
      first.push_back(its.first[static_cast<std::size_t>(kept[i]) + 1]);
    }
    its.first = std::move(first);
    its.centres = SideBySide(their.data(), std::ssize(kept), data_.dim);
    its.radii.assign(kept.size(), 0);
    its.codes.resize(kept.size());
    std::vector<std::int64_t> long_ones;
    for (std::int64_t list = 0; list < its.lists(); ++list) {
      if (its.size_of(list) > long_list) long_ones.push_back(list);
    }
    parallel_for(threads_, its.lists(), [&](std::int64_t list) {
      stop_.check();
      if (its.size_of(list) <= long_list) encode(list, their.data() + list * data_.dim, 1);
    });
    for (const std::int64_t list : long_ones) encode(list, their.data() + list * data_.dim, threads_);
    for (std::int64_t list = 0; list < its.lists(); ++list) {
      for (const std::int64_t position : its.codes[static_cast<std::size_t>(list)].special)
        its.special.push_back(its.rows_of(list)[position]);
    }
    std::sort(its.special.begin(), its.special.end());
  }

  void encode(std::int64_t list, const float* centre, int threads) {
    Partition& its = *partition_;
    const std::vector<double> point(centre, centre + data_.dim);
    const std::vector<std::int64_t> ids(its.rows_of(list), its.rows_of(list) + its.size_of(list));
    Loader loader(data_, its.space);
    double radius = 0;
    std::int64_t looked_at = 0;
    for (const std::int64_t row : ids) {
      if (looked_at++ % rows_a_task == 0) stop_.check();
      (void)loader.load(row);
      radius = std::max(radius, loader.distance_to(point));
    }
    its.radii[static_cast<std::size_t>(list)] = radius;
    Execution execution;
    execution.threads = threads;
    if (threads > 1) execution.cancelled = cancelled_;
    its.codes[static_cast<std::size_t>(list)] =
        codes::encode_rows(data_, space_of(point, radius), execution, &ids);
  }

  // Codes of differences to the centre, in steps that suit the radius, where codes have a mean at all.
  codes::CodeSpace space_of(const std::vector<double>& centre, double radius) const {
    codes::CodeSpace space = of_codes_;
    const codes::CodeSpace& whole = partition_->space;
    if (space.mean.empty() || whole.mean.empty()) return space;
    for (std::size_t i = 0; i < centre.size(); ++i) {
      const double value = whole.mean[i] + centre[i] / whole.unit;
      if (!std::isfinite(value)) return of_codes_;
      space.mean[i] = value;
    }
    const double length = radius / whole.unit;
    constexpr int furthest = 960;
    if (length > 0x1p-480 && std::isfinite(length))
      space.unit = std::ldexp(1.0, std::clamp(-std::ilogb(length), -furthest, furthest));
    return space;
  }

  const DatasetView& data_;
  const codes::CodeSpace& of_codes_;
  const codes::Duplicates& duplicates_;
  int threads_;
  const std::function<bool()>& cancelled_;
  StopRequest stop_;
  std::vector<std::int32_t> list_of_;
  std::shared_ptr<Partition> partition_;
};

}  // namespace

std::uint64_t Partition::bytes() const {
  std::uint64_t sum = centres.values.size() * sizeof(float) + radii.size() * sizeof(double) +
                      (first.size() + rows.size() + special.size()) * sizeof(std::int64_t);
  for (const codes::Codes& its : codes) sum += its.bytes() + its.space.mean.size() * sizeof(double);
  return sum;
}

std::uint64_t partition_bytes(const codes::CodeSpace& space, std::int64_t rows, std::int64_t count) {
  const auto n = static_cast<std::uint64_t>(rows);
  const auto lists = static_cast<std::uint64_t>(count);
  // Half a tile is lost in a list, and for a moment centres are held three times, lists of rows twice.
  return codes::code_bytes(space, rows + count * 32) + n * (sizeof(std::int32_t) + 2 * sizeof(std::int64_t)) +
         lists * static_cast<std::uint64_t>(space.dim) * (3 * sizeof(float) + sizeof(double)) + lists * 256;
}

const char* lacked_by_lists(Metric metric) {
  if (metric == Metric::inner_product || metric == Metric::manhattan)
    return "a metric whose distances obey the triangle inequality of lengths: sqeuclidean, euclidean, cosine";
  return nullptr;
}

const char* lacked_by_lists(const codes::CodeSpace& space) {
  if (const char* lacked = lacked_by_lists(space.metric)) return lacked;
  if (space.choice.filter == Filter::none) return "a filter; use auto, int8, fp16 or fp32";
  if (space.dim > longest_row) return "at most 65,536 dimensions";
  return nullptr;
}

codes::CodeSpace space_of_lists(const DatasetView& rows, Metric metric) {
  const codes::Form form = metric == Metric::cosine ? codes::Form::cauchy : codes::Form::triangle;
  return codes::make_code_space(rows, metric, {Filter::fp32, form});
}

std::int64_t usual_lists(std::int64_t rows) {
  return std::clamp<std::int64_t>(rows / rows_a_list, 1, most_lists);
}

std::shared_ptr<const Partition> make_partition(const DatasetView& data, const codes::CodeSpace& space,
                                                const codes::Duplicates& duplicates, std::int64_t count,
                                                const Execution& execution) {
  return Maker(data, space, duplicates, execution).make(count);
}

ListCentres centres_of_lists(const DatasetView& rows, Metric metric, std::int64_t count,
                             const Execution& execution) {
  const codes::CodeSpace space = space_of_lists(rows, metric);
  return {space, Maker(rows, space, {}, execution).find_centres(count)};
}

ListDistances::ListDistances(const Partition& partition)
    : partition_(partition),
      scratch_(partition.space),
      square_(static_cast<std::size_t>(partition.centres.padded_count)),
      centre_(partition.radii.size()) {}

codes::RowKind ListDistances::look(const double* values) {
  const codes::RowKernels& kernels = codes::row_kernels();
  const codes::CodeSpace& space = partition_.space;
  std::copy_n(values, space.dim, scratch_.y.begin());
  double error = 0;
  const codes::RowKind kind =
      codes::to_code_space(space, kernels, scratch_.y.data(), codes::largest_query_entry, error);
  if (kind != codes::RowKind::regular) return kind;
  kernels.round_to_float(scratch_.y.data(), space.dim, scratch_.floats.data(), scratch_.decoded.data());
  partition_.centres.distances(scratch_.floats.data(), square_.data());
  const double rounded =
      std::sqrt(kernels.residual_squared(scratch_.y.data(), scratch_.decoded.data(), space.dim));
  const double off = (rounded * (1 + codes::sum_error) + error) * grow + 0x1p-500;
  const double shrink = 1 - (static_cast<double>(space.dim) + 4) * 0x1p-24;
  for (std::size_t list = 0; list < centre_.size(); ++list) {
    const double length = std::sqrt(std::max(0.0, static_cast<double>(square_[list]) - 0x1p-100)) * shrink;
    const double least = length - off - (length + off) * 0x1p-40;
    centre_[list] = std::isfinite(least) ? least : -std::numeric_limits<double>::infinity();
  }
  return kind;
}

double ListDistances::reach(double real) const {
  if (partition_.space.metric == Metric::cosine) {
    // |q - y|^2 is twice the distance, or less for a row or query of zeros; the canonical one has errors.
    const double error = (static_cast<double>(partition_.space.dim) + 64) * 0x1p-52;
    return std::sqrt(2 * std::max(0.0, real + error)) * grow;
  }
  return std::sqrt(std::max(0.0, real)) * partition_.space.unit * grow + 0x1p-500;
}

}  // namespace kith::brute_force
