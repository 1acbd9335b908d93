// Which filter, and the step of the int8 codes, from a sample of the rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "codes/codes.hpp"
#include "core/visit_dtype.hpp"
#include "distance/canonical.hpp"

namespace kith::brute_force {
namespace {

bool is_euclidean(Metric metric) {
  return metric == Metric::sqeuclidean || metric == Metric::euclidean;
}
bool is_integer(Dtype dtype) {
  return dtype == Dtype::u8 || dtype == Dtype::i8;
}

// The sample's rows in code space, one after the other; rows that are not finite are left out.
std::vector<double> in_code_space(const DatasetView& sample, const CudaChoice& choice, Metric metric) {
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(sample.rows * sample.dim));
  std::vector<double> row(static_cast<std::size_t>(sample.dim));
  for (std::int64_t i = 0; i < sample.rows; ++i) {
    bool finite = true;
    double squares = 0;
    visit_dtype(sample.dtype, [&]<class T>(T /*tag*/) {
      const T* values = static_cast<const T*>(sample.row(i));
      for (std::size_t j = 0; j < row.size(); ++j) {
        double v = to_double(values[j]);
        if (!choice.mean.empty()) v -= choice.mean[j];
        row[j] = v * choice.unit;
        finite = finite && std::isfinite(row[j]);
        squares += row[j] * row[j];
      }
    });
    // Rows that will be special have no say.
    const bool special = metric != Metric::cosine && std::any_of(row.begin(), row.end(), [](double v) {
                           return std::fabs(v) > codes::largest_row_entry;
                         });
    if (!finite || special || (metric == Metric::cosine && !(squares > 0x1p-900 && squares < 0x1p900)))
      continue;
    if (metric == Metric::cosine) {
      for (double& v : row) v /= std::sqrt(squares);
    }
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

// Residuals that a step leaves the rows with, ascending: the mean of rounding, and what lies beyond the
// range. Of `rows` rows, spread over all of them.
std::vector<double> residuals(const std::vector<double>& values, std::int64_t dim, double step,
                              std::int64_t rows) {
  const auto d = static_cast<std::size_t>(dim);
  const std::size_t all = values.size() / d;
  const std::size_t every =
      std::max<std::size_t>(1, all / static_cast<std::size_t>(std::max<std::int64_t>(1, rows)));
  const double rounding = static_cast<double>(dim) * step * step / 12;
  // Loops that compilers make vectors of: some hundred thousand values pass here for each of the steps tried.
  constexpr std::size_t lanes = 8;
  std::vector<double> beyond((d + lanes - 1) / lanes * lanes);
  std::vector<double> out;
  for (std::size_t i = 0; i < all; i += every) {
    const double* row = values.data() + i * d;
    for (std::size_t j = 0; j < d; ++j) {
      const double over = std::fabs(row[j]) - 127 * step;
      beyond[j] = over > 0 ? over : 0;
    }
    double squares[lanes] = {};
    for (std::size_t j = 0; j < beyond.size(); j += lanes) {
      for (std::size_t l = 0; l < lanes; ++l) squares[l] += beyond[j + l] * beyond[j + l];
    }
    out.push_back(std::sqrt(std::accumulate(squares, squares + lanes, rounding)));
  }
  std::sort(out.begin(), out.end());
  return out;
}

double share_of(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

// The step that leaves all but a few rows, and queries like them, with the least residual. A narrow range has
// a finer step, but a value beyond it costs its row or query all that it lies beyond.
double choose_step(const std::vector<double>& values, std::int64_t dim) {
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::fabs(v));
  if (!(largest > 0x1p-50)) return 0x1p-7;
  const std::int64_t few = std::max<std::int64_t>(64, 131072 / dim);
  double best = largest * 1.0625 / 127;
  double least = std::numeric_limits<double>::infinity();
  for (const double share : {1.0625, 0.95, 0.85, 0.75, 0.6, 0.45, 0.3, 0.2, 0.1, 0.03, 0.01, 0.003, 0.001}) {
    const double step = largest * share / 127;
    const double residual = share_of(residuals(values, dim, step, few), 0.99);
    if (residual < least) {
      least = residual;
      best = step;
    }
  }
  return static_cast<double>(static_cast<float>(best));
}

// Residuals of halves are shares of the row's length: rows far longer than the sample's are special.
double half_cap(const std::vector<double>& values, std::int64_t dim) {
  const auto d = static_cast<std::size_t>(dim);
  double largest = 0;
  for (std::size_t i = 0; i + d <= values.size(); i += d) {
    double squares = 0;
    for (std::size_t j = i; j < i + d; ++j) squares += values[j] * values[j];
    largest = std::max(largest, squares);
  }
  return 4 * std::sqrt(largest) * 0x1p-11 + 0x1p-18;
}

// Distances of some of the sample's rows to the nearest other one, ascending.
std::vector<double> nearest_distances(const std::vector<double>& values, std::int64_t dim) {
  const auto d = static_cast<std::size_t>(dim);
  const std::size_t n = values.size() / d;
  std::vector<double> nearest;
  if (n < 2) return nearest;
  // The canonical kernels, for their speed: this is most of what choosing takes.
  const CanonicalFunction distances_to = canonical_function(Dtype::f64, Metric::sqeuclidean);
  const CanonicalRows rows{values.data(), dim * static_cast<std::int64_t>(sizeof(double)), dim};
  std::vector<std::int64_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<double> query(static_cast<std::size_t>(canonical_padded(dim)));
  std::vector<double> squares(n);
  for (std::size_t i = 0; i < n; i += std::max<std::size_t>(1, n / 24)) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(i * d), d, query.begin());
    distances_to(rows, {query.data(), 0}, ids.data(), static_cast<std::int64_t>(n), squares.data());
    double least = std::numeric_limits<double>::infinity();
    for (const double square : squares) {
      if (square > 0) least = std::min(least, square);
    }
    if (std::isfinite(least)) nearest.push_back(std::sqrt(least));
  }
  std::sort(nearest.begin(), nearest.end());
  return nearest;
}

// Distance to the nearest other row among the sample, extrapolated to all rows as if they filled their
// dimension evenly (a generous guess where they do not).
double nearest_distance(const std::vector<double>& nearest, std::int64_t dim, std::size_t sample,
                        std::int64_t rows) {
  return share_of(nearest, 0.5) *
         std::pow(static_cast<double>(sample) / static_cast<double>(std::max<std::int64_t>(rows, 2)),
                  1.0 / static_cast<double>(dim));
}

}  // namespace

std::string CudaChoice::text() const {
  return fmt::format(
      "{}: int8 keeps about {:.3g} rows a neighbour; expected ms for 10^9 pairs: int8 {:.3g}, fp16 {:.3g}, "
      "fp32 {:.3g}",
      name(filter), surplus, int8_seconds * 1e3, fp16_seconds * 1e3, fp32_seconds * 1e3);
}

bool CudaChoice::may_be_halves() const {
  return filter == Filter::int8 && !exact_codes && !forced && fp16_fits && !short_rows &&
         projection == nullptr;
}

CudaChoice CudaChoice::as_halves() const {
  CudaChoice halves = *this;
  halves.filter = Filter::fp16;
  halves.step = 1;
  halves.typical_residual = 1e300;  // halves of all rows are about as exact
  halves.typical_reach = 0;
  halves.residual_cap = half_residual_cap;
  halves.projection = nullptr;
  halves.fine = false;
  return halves;
}

double int8_look_seconds(const tuning::Policy& policy, std::int64_t values) {
  const std::int64_t whole_steps = (values + 31) / 32;
  return std::max(policy.int8_step_seconds * static_cast<double>(whole_steps), policy.int8_least_seconds);
}

namespace {

// What follows from the step and the residuals it leaves.
void fit_reach(CudaChoice& choice) {
  // Twice as far as the sample's rows lie apart: early bounds are loose, and queries beyond the reach meet
  // the largest residual of all rows.
  const double reach = 2 * choice.sample_distance / choice.step + 1.1 * choice.typical_residual;
  // A row is special where its residual would make up much of its distances: then every query evaluates it,
  // where else some more queries keep it.
  choice.residual_cap = std::max(4 * choice.typical_residual + 4, choice.typical_residual + reach / 4);
  // In the Cauchy form the reach is the length of a query's code.
  choice.typical_reach =
      choice.form == codes::Form::triangle ? reach : 64 * std::sqrt(static_cast<double>(choice.coded_values));
}

}  // namespace

CudaChoice CudaChoice::widened(double by) const {
  CudaChoice wider = *this;
  wider.step = static_cast<double>(static_cast<float>(step * by));
  fit_reach(wider);
  return wider;
}

std::vector<double> fit_step(CudaChoice& choice, const std::vector<double>& rows, std::int64_t dim) {
  choice.step = choose_step(rows, dim);
  const std::vector<double> left = residuals(rows, dim, choice.step, tuning::code_sample_rows);
  std::vector<double> nearest = nearest_distances(rows, dim);
  choice.typical_residual = share_of(left, 0.98) / choice.step * 1.02 + 0.01;
  choice.sample_distance = share_of(nearest, 0.9);
  choice.coded_values = dim;
  fit_reach(choice);
  return nearest;
}

CudaChoice choose_cuda_codes(const DatasetView& sample, std::int64_t rows,
                             const BruteForceParameters& parameters, const tuning::Policy& policy,
                             std::int64_t longest) {
  const Metric metric = parameters.metric;
  const std::int64_t dim = sample.dim;
  const bool euclid = is_euclidean(metric);
  const bool can_int8 = metric != Metric::manhattan && dim <= longest;
  const bool can_fp32 = (euclid || metric == Metric::manhattan) && dim <= codes::largest_dim;
  CudaChoice choice;

  Filter filter = parameters.filter;
  choice.forced = filter != Filter::automatic;
  choice.fp16_fits = can_int8 && 2 * dim <= longest;
  choice.short_rows = dim <= tuning::low_dimension;
  if ((filter == Filter::fp32 && metric != Metric::manhattan && !euclid) ||
      ((filter == Filter::int8 || filter == Filter::fp16) && metric == Metric::manhattan)) {
    throw InvalidArgument(fmt::format(
        "the CUDA backend has no {} filter for {}: it has int8 and fp16 (all metrics but manhattan), "
        "fp32 (sqeuclidean, euclidean, manhattan) and none; leave the choice to auto",
        name(filter), name(metric)));
  }
  // Rows that are too long for a filter go without, as on the CPU.
  if (filter == Filter::int8 && !can_int8) filter = Filter::none;
  if (filter == Filter::fp16 && !choice.fp16_fits) filter = Filter::none;
  if (filter == Filter::fp32 && !can_fp32) filter = Filter::none;

  const auto adopt = [&](Filter f, codes::Form form) {
    const codes::CodeSpace space = codes::make_code_space(sample, metric, {f, form});
    choice.mean = space.mean;
    choice.unit = space.unit;
  };
  const bool raw = is_integer(sample.dtype) && metric != Metric::cosine && filter != Filter::fp16;
  choice.exact_codes = raw;
  if (can_int8 && filter != Filter::fp32 && filter != Filter::none) {
    choice.form = euclid ? codes::Form::triangle : codes::Form::cauchy;
    if (raw) {
      if (metric == Metric::inner_product) choice.form = codes::Form::integer;
    } else {
      adopt(filter == Filter::fp16 ? filter : Filter::int8,
            euclid ? codes::Form::triangle : codes::Form::cauchy);
      const std::vector<double> values = in_code_space(sample, choice, metric);
      const std::vector<double> nearest = fit_step(choice, values, dim);
      choice.half_residual_cap = half_cap(values, dim);
      if (euclid && can_fp32 && dim <= tuning::low_dimension && filter == Filter::automatic) {
        const double distance =
            nearest_distance(nearest, dim, values.size() / static_cast<std::size_t>(dim), rows);
        const std::vector<double> left = residuals(values, dim, choice.step, tuning::code_sample_rows);
        const double residual = left.empty() ? 0 : left.back();
        choice.surplus = distance > 0 ? std::pow(1 + 2 * residual / distance, static_cast<double>(dim))
                                      : std::numeric_limits<double>::infinity();
      }
    }
    const std::int64_t whole_steps = (dim + 31) / 32;
    const auto steps = static_cast<double>(whole_steps);
    choice.int8_seconds =
        int8_look_seconds(policy, dim) + policy.int8_kept_seconds * std::min(choice.surplus, 1e6) / 100;
    choice.fp16_seconds = 2 * std::max(policy.fp16_step_seconds * steps, policy.fp16_least_seconds);
    choice.fp32_seconds = can_fp32 ? policy.fp32_value_seconds * (2 * static_cast<double>(dim) + 1)
                                   : std::numeric_limits<double>::infinity();
    // Up to four dimensions a float32 row is no longer than its padded codes: these pay where rows are few
    // enough to stay in the cache, and lie far enough apart for codes to tell them apart.
    const bool short_rows =
        filter == Filter::automatic && can_fp32 && dim <= 4 &&
        !(euclid && rows <= policy.most_short_coded_rows && choice.surplus <= tuning::most_short_surplus);
    if (filter == Filter::fp16) return choice.as_halves();
    if (!short_rows && (filter == Filter::int8 || !can_fp32 || choice.int8_seconds <= choice.fp32_seconds)) {
      choice.filter = Filter::int8;
      return choice;
    }
  }
  choice.mean.clear();
  choice.unit = choice.step = 1;
  if (can_fp32 && filter != Filter::none) {
    choice.filter = Filter::fp32;
    choice.form = euclid ? codes::Form::difference : codes::Form::absolute;
    if (sample.dtype == Dtype::f64) {
      adopt(Filter::fp32, euclid ? codes::Form::difference : codes::Form::absolute);
    }
    return choice;
  }
  choice.filter = Filter::none;
  choice.form = codes::Form::none;
  return choice;
}

}  // namespace kith::brute_force
