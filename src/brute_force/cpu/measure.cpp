// What a multiply-add of each kind of code takes, and what surrounds it: kernels alone, on rows that lie in a
// cache as those of a block of a search do.
#include "brute_force/measure.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "brute_force/cpu/filter.hpp"
#include "codes/codes.hpp"
#include "core/parallel.hpp"
#include "core/shortest.hpp"
#include "distance/canonical.hpp"
#include "kith/generate.hpp"

namespace kith::brute_force {
namespace {

constexpr Metric metric = Metric::sqeuclidean;
constexpr std::int64_t dim = 256;

std::vector<double> values_of(const DatasetView& data, std::int64_t row) {
  std::vector<double> values(static_cast<std::size_t>(canonical_padded(data.dim)));
  (void)prepare_canonical_query(data.row(row), data.dtype, data.dim, metric, values.data());
  return values;
}

// Seconds of work(i) for all i < parts; done over and over at once, so that starting threads is a small part.
template <class Work>
double time_of_parts(const Execution& execution, std::int64_t parts, const Work& work) {
  const std::int64_t rounds = std::max(2, resolve_threads(execution) / 2);
  return shortest(
             execution,
             [&] { parallel_for(execution, parts * rounds, [&](std::int64_t i) { work(i % parts); }); }) /
         static_cast<double>(rounds);
}

// A multiply-add of all threads together, nothing kept.
class MultiplyAdd {
 public:
  MultiplyAdd(const DatasetView& data, codes::CodeChoice choice, const Execution& execution)
      : codes_(codes::encode_rows(data, codes::make_code_space(data, metric, choice), execution)),
        filter_(codes_, queries),
        kernel_(filter_kernel(choice)) {
    for (std::int64_t q = 0; q < queries; ++q) {
      if (filter_.add(values_of(data, q).data()) == codes::RowKind::regular) filter_.set_bound(q, 0);
    }
  }
  MultiplyAdd(const MultiplyAdd&) = delete;
  MultiplyAdd& operator=(const MultiplyAdd&) = delete;
  ~MultiplyAdd() = default;

  double time(const Execution& execution) const {
    const TileQueries view = filter_.view();
    const std::int64_t count = filter_.size();
    const double seconds = time_of_parts(execution, codes_.tiles, [&](std::int64_t t) {
      std::array<std::uint64_t, queries> masks;
      kernel_(tile_of(codes_, t), view, 0, count, masks.data());
    });
    return 1e9 * seconds / static_cast<double>(codes_.rows * count * dim);
  }

 private:
  static constexpr std::int64_t queries = 64;
  codes::Codes codes_;
  FilterQueries filter_;
  TileFunction kernel_;
};

// Distances to rows in no order.
class Evaluation {
 public:
  Evaluation(std::int64_t dimension, const Execution& execution)
      : data_(generate({.rows = std::int64_t{32} << 10U, .dim = dimension}, execution)),
        ids_(static_cast<std::size_t>(data_.rows())),
        query_(values_of(data_, 0)) {
    // A stride that is no divisor of their number comes by every row, and far from the one before.
    constexpr std::int64_t stride = 12'345;
    for (std::size_t i = 0; i < ids_.size(); ++i)
      ids_[i] = static_cast<std::int64_t>(i) * stride % data_.rows();
  }

  double a_row(const Execution& execution) const {
    constexpr std::int64_t part = 256;
    const CanonicalFunction function = canonical_function(data_.dtype(), metric);
    const double seconds = time_of_parts(execution, data_.rows() / part, [&](std::int64_t i) {
      std::array<double, part> found;
      function(canonical_rows(data_), {query_.data(), 0}, ids_.data() + i * part, part, found.data());
    });
    return 1e9 * seconds / static_cast<double>(data_.rows());
  }

 private:
  Dataset data_;
  std::vector<std::int64_t> ids_;
  std::vector<double> query_;
};

}  // namespace

void measure_filters(WorkTimes& times, const Execution& asked) {
  const Execution execution = without_progress(asked);
  const Dataset data = generate({.rows = std::int64_t{8} << 10U, .dim = dim}, execution);
  std::deque<std::pair<double*, MultiplyAdd>> filters;
  for (const codes::CodeChoice choice : codes::possible_codes(data.dtype(), metric, dim)) {
    if (choice.form != codes::Form::triangle || choice.filter == Filter::none) continue;
    double* time = choice.filter == Filter::fp32   ? &times.fp32
                   : choice.filter == Filter::fp16 ? &times.fp16
                   : choice.narrow                 ? &times.int7
                                                   : &times.int8;
    filters.emplace_back(std::piecewise_construct, std::forward_as_tuple(time),
                         std::forward_as_tuple(data, choice, execution));
  }
  constexpr std::int64_t few = 32;
  constexpr std::int64_t many = 1024;
  const Evaluation of_short_rows(few, execution);
  const Evaluation of_long_rows(many, execution);
  constexpr std::int64_t count = 64;
  codes::CodeSpace along =
      codes::real_valued(data, codes::make_code_space(data, metric, {Filter::int8, codes::Form::triangle}));
  const codes::CodeSpace space = along;
  const auto find_directions = [&] { return codes::directions_of(data, space, count, execution); };
  along.projection = std::make_shared<codes::Projection>(codes::make_projection(find_directions(), count));

  // In turns, so that a slow moment of the machine hits all alike; the least of each counts.
  constexpr int turns = 3;
  constexpr double none = std::numeric_limits<double>::infinity();
  times.int8 = times.int7 = times.fp16 = times.fp32 = times.directions = times.projection = none;
  double short_row = none;
  double long_row = none;
  const auto keep = [](double& least, double time) { least = std::min(least, time); };
  for (int turn = 0; turn < turns; ++turn) {
    for (auto& [time, filter] : filters) keep(*time, filter.time(execution));
    keep(short_row, of_short_rows.a_row(execution));
    keep(long_row, of_long_rows.a_row(execution));
    keep(times.directions,
         1e9 * shortest(execution, [&] { (void)find_directions(); }) / static_cast<double>(dim * dim * dim));
    keep(times.projection, 1e9 * shortest(execution, [&] {
                             (void)codes::encode_rows(data, along, execution);
                           }) / static_cast<double>(data.rows() * dim * count));
  }
  if (times.int7 == none) times.int7 = times.int8;
  // Rows cost something, and so do their values, however the figures of a disturbed machine fall out.
  times.exact_value = std::max(long_row - short_row, long_row / 2) / static_cast<double>(many - few);
  times.exact_row = std::max(short_row - static_cast<double>(few) * times.exact_value, short_row / 4);
}

}  // namespace kith::brute_force
