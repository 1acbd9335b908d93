// From rows and queries to one byte, or half a byte, a value.
#include "codes/scalar.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "codes/cpu/row_kernels.hpp"
#include "codes/leading.hpp"
#include "core/instruction_set.hpp"
#include "core/parallel.hpp"
#include "core/sample.hpp"

namespace kith::codes {
namespace {

constexpr std::int64_t sampled_rows = 2048;
constexpr std::size_t sampled_values = 1 << 17;
constexpr std::int64_t rows_a_task = 4096;
// Leading directions are looked for from so many dimensions and rows a dimension on, up to half of the
// dimensions, and taken where they hold so much of the variance. Measured, share and time at equal recall:
// 128 of 768 dimensions whose variances fall exponentially 0.96, a third of the time; 64 of the 128 of SIFT
// 0.93, two thirds. With 0.91 (96 of those 768) lists grow as fast as steps shrink, with 0.80 faster.
constexpr std::int64_t fewest_reduced = 96;
constexpr std::int64_t rows_a_dimension = 8;
constexpr std::int64_t most_leading = 512;
constexpr double share_kept = 0.925;

// Squared error of encoding `values` with a step, rounding and clipping together.
double quantization_error(const std::vector<double>& values, double step, double largest_code) {
  double error = 0;
  for (const double value : values) {
    const double code = std::min(std::nearbyint(value / step), largest_code);
    const double difference = value - code * step;
    error += difference * difference;
  }
  return error;
}

// The step that encodes a sample of magnitudes best: the largest one fits a few far values at the cost of all
// the others, a smaller one clips them.
double best_step(std::vector<double>& magnitudes, double largest_code) {
  double largest = 0;
  for (const double value : magnitudes) largest = std::max(largest, value);
  if (!(largest > 0)) return 1;
  for (double& value : magnitudes) value /= largest;  // so that no square overflows
  double best = 1 / largest_code;
  double least = quantization_error(magnitudes, best, largest_code);
  double step = best;
  for (int i = 1; i <= 24; ++i) {
    step *= 0x1.ae89f995ad3adp-1;  // 2^(-1/4)
    const double error = quantization_error(magnitudes, step, largest_code);
    if (error < least) {
      least = error;
      best = step;
    }
  }
  return std::max(best * largest, std::numeric_limits<double>::min());
}

// Largest finite norm of all rows whose values are small enough.
double norm_of_all(const DatasetView& rows, double largest_value, const Execution& execution) {
  const RowKernels& kernels = row_kernels();
  double largest = 0;
  std::mutex mutex;
  parallel_for(execution, (rows.rows + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
    std::vector<double> row(static_cast<std::size_t>(rows.dim));
    double most = 0;
    const std::int64_t end = std::min(rows.rows, (task + 1) * rows_a_task);
    for (std::int64_t i = task * rows_a_task; i < end; ++i) {
      kernels.load[static_cast<int>(rows.dtype)](rows.row(i), rows.dim, row.data());
      const double norm = std::sqrt(kernels.sum_of_squares(row.data(), rows.dim));
      if (!std::isfinite(norm) || kernels.largest(row.data(), rows.dim) > largest_value) continue;
      most = std::max(most, norm);
    }
    const std::scoped_lock lock(mutex);
    largest = std::max(largest, most);
  });
  return largest;
}

}  // namespace

const EstimateKernels& estimate_kernels() {
  switch (active_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::avx512_vnni: return estimate_kernels_avx512;
    case InstructionSet::avx_vnni:
    case InstructionSet::avx2: return estimate_kernels_avx2;
#elif defined(__aarch64__)
    case InstructionSet::neon_i8mm:
    case InstructionSet::neon: return estimate_kernels_neon;
#endif
    default: return estimate_kernels_portable;
  }
}

decltype(EstimateKernels::gathered) estimates_of(const ScalarSpace& space) {
  return space.bits == 4 ? estimate_kernels().gathered_4 : estimate_kernels().gathered;
}

ScalarCodec::ScalarCodec(const ScalarSpace& space)
    : space_(space),
      kernels_(row_kernels()),
      y_(static_cast<std::size_t>(space.full_dim())),
      narrow_(space.leading > 0 ? y_.size() : 0),
      projected_(static_cast<std::size_t>(space.leading)),
      halves_(space.bits == 4 ? y_.size() + 1 : 0, 0) {}

// Into y_, the mean not yet taken off. False for a NaN.
bool ScalarCodec::transform(const void* values, bool is_query) {
  const std::int64_t dim = space_.dim;
  double* y = y_.data();
  kernels_.load[static_cast<int>(space_.dtype)](values, dim, y);
  if (kernels_.has_nan(y, dim)) return false;
  if (space_.metric == Metric::cosine) {
    double norm = std::sqrt(kernels_.sum_of_squares(y, dim));
    if (!(norm > 0x1p-500 && norm < 0x1p500)) {  // squares may have left the range: once more, near 1
      const double largest = kernels_.largest(y, dim);
      if (!(largest > 0)) return true;  // zeros, or infinities alone
      for (std::int64_t i = 0; i < dim; ++i) {
        y[i] = std::isinf(y[i]) ? std::copysign(1.0, y[i]) : y[i] / largest;
      }
      norm = std::sqrt(kernels_.sum_of_squares(y, dim));
    }
    for (std::int64_t i = 0; i < dim; ++i) y[i] /= norm;
  } else if (space_.metric == Metric::inner_product) {
    const double norm = std::sqrt(kernels_.sum_of_squares(y, dim));
    const double most = space_.largest_norm;
    if (is_query) {  // its length does not matter to the order: that of the longest row keeps it in range
      if (norm > 0 && std::isfinite(norm)) {
        for (std::int64_t i = 0; i < dim; ++i) y[i] *= most / norm;
      }
      y[dim] = 0;
    } else {
      const double share = most > 0 ? norm / most : 1;
      y[dim] = share < 1 ? most * std::sqrt((1 - share) * (1 + share)) : 0;
    }
  }
  return true;
}

bool ScalarCodec::copy_integers(const void* values, std::uint8_t* code) const {
  const auto* bytes = static_cast<const std::uint8_t*>(values);
  const auto flip = static_cast<std::uint8_t>(space_.dtype == Dtype::i8 ? 0x80 : 0);  // adds 128
  for (std::int64_t i = 0; i < space_.dim; ++i) code[i] = bytes[i] ^ flip;
  std::memset(code + space_.dim, 0, static_cast<std::size_t>(space_.code_bytes() - space_.dim));
  return true;
}

// The values to be quantized, into y_: less the mean, along the leading directions where there are some.
void ScalarCodec::project() {
  kernels_.center(y_.data(), space_.mean.data(), space_.unit, space_.full_dim());
  if (space_.leading == 0) return;
  std::transform(y_.begin(), y_.end(), narrow_.begin(), [](double v) { return static_cast<float>(v); });
  kernels_.project(space_.map.data(), narrow_.data(), space_.full_dim(), space_.leading, projected_.data());
  std::copy(projected_.begin(), projected_.end(), y_.begin());
}

void ScalarCodec::quantize(std::uint8_t* code) {
  const std::int64_t count = space_.code_dim();
  const bool halves = space_.bits == 4;
  const std::int64_t filled = halves ? (count + 1) / 2 : count;
  std::uint8_t* values = halves ? halves_.data() : code;
  kernels_.quantize_by_step(y_.data(), space_.step, space_.largest_code(), space_.offset(), count, values);
  if (halves) {  // of which the last may stand alone
    for (std::int64_t i = 0; i < filled; ++i) {
      code[i] = static_cast<std::uint8_t>(values[2 * i] | values[2 * i + 1] << 4U);
    }
  }
  std::memset(code + filled, 0, static_cast<std::size_t>(space_.code_bytes() - filled));
}

bool ScalarCodec::encode_row(const void* values, std::uint8_t* code) {
  if (space_.raw_integers()) return copy_integers(values, code);
  if (!transform(values, false)) return false;
  project();
  quantize(code);
  return true;
}

bool ScalarCodec::encode_query(const void* values, std::uint8_t* code) {
  if (space_.raw_integers()) return copy_integers(values, code);
  if (!transform(values, true)) return false;
  project();
  quantize(code);
  return true;
}

ScalarFit ScalarCodec::fit(const void* values) {
  ScalarFit fit;
  if (space_.metric == Metric::inner_product) {
    kernels_.load[static_cast<int>(space_.dtype)](values, space_.dim, y_.data());
    const double norm = std::sqrt(kernels_.sum_of_squares(y_.data(), space_.dim));
    if (norm > 0 && std::isfinite(norm)) fit.length = norm / space_.largest_norm;  // infinite where all are 0
  }
  if (!transform(values, false)) return {std::numeric_limits<double>::quiet_NaN(), 0};
  const double largest = space_.largest_code() * space_.step;
  project();
  for (std::int64_t i = 0; i < space_.code_dim(); ++i) {
    const double off = std::abs(y_[static_cast<std::size_t>(i)]) / largest;
    fit.reach = std::max(fit.reach, std::isfinite(off) ? off : 1);
  }
  return fit;
}

void ScalarCodec::decode(const std::uint8_t* code, double* values) const {
  if (space_.raw_integers()) {
    const int offset = space_.dtype == Dtype::i8 ? 128 : 0;
    for (std::int64_t i = 0; i < space_.dim; ++i) values[i] = code[i] - offset;
    return;
  }
  const int offset = space_.offset();
  for (std::int64_t i = 0; i < space_.dim; ++i) {
    const int value = space_.bits == 4 ? (code[i / 2] >> (i % 2 * 4)) & 15 : code[i];
    values[i] = space_.mean[static_cast<std::size_t>(i)] + (value - offset) * space_.step;
  }
}

// Mean, leading directions and step of a space, from a sample.
class ScalarTrainer {
 public:
  ScalarTrainer(const DatasetView& rows, ScalarSpace& space, double largest_value, const Execution& execution)
      : rows_(rows), space_(space), largest_value_(largest_value), execution_(execution), stop_(execution) {}

  void find_mean() {
    const auto dim = static_cast<std::size_t>(space_.full_dim());
    space_.mean.assign(dim, 0.0);
    ScalarCodec codec(space_);
    double count = 0;
    for (const std::int64_t i : sample_rows(rows_.rows, sampled_rows)) {
      stop_.check();
      if (!takes(codec, i, false)) continue;
      ++count;
      // A running mean: no sum overflows. What infinities make of it, or numbers near them, is put right
      // below.
      for (std::size_t j = 0; j < dim; ++j) space_.mean[j] += (codec.y_[j] - space_.mean[j]) / count;
    }
    for (double& value : space_.mean) value = std::isfinite(value) ? value : 0;
  }

  void find_directions(const ScalarShape& shape) {
    const std::int64_t dim = space_.full_dim();
    const LeadingPlan plan = leading_plan(dim, shape);
    if (plan.none() || (plan.count == 0 && rows_.rows < rows_a_dimension * dim)) return;
    const std::vector<std::int64_t> sample = sample_rows(rows_.rows, directions_sample(dim));
    std::vector<double> values;
    values.reserve(sample.size() * static_cast<std::size_t>(dim));
    ScalarCodec codec(space_);
    double largest = 0;
    for (const std::int64_t i : sample) {
      stop_.check();
      if (!takes(codec, i, false)) continue;
      row_kernels().center(codec.y_.data(), space_.mean.data(), 1, dim);
      if (!row_kernels().finite(codec.y_.data(), dim)) continue;
      largest = std::max(largest, row_kernels().largest(codec.y_.data(), dim));
      values.insert(values.end(), codec.y_.begin(), codec.y_.end());
    }
    if (!(largest > 0)) return;
    const double unit = std::exp2(-std::clamp(std::ilogb(largest), -1000, 1000));
    for (double& value : values) value *= unit;
    LeadingDirections found = leading_directions(values, dim, plan, execution_);
    if (found.count == 0) return;
    space_.leading = found.count;
    space_.unit = unit;
    space_.map = std::move(found.map);
  }

  void find_step() {
    // Queries of inner product have 0 where rows have sqrt(M^2 - |x|^2): that, too, should be within range.
    std::vector<double> magnitudes;
    const auto dim = static_cast<std::size_t>(space_.code_dim());
    const std::size_t kinds = space_.metric == Metric::inner_product ? 2 : 1;
    const std::vector<std::int64_t> sample = sample_rows(rows_.rows, sampled_rows);
    const std::size_t stride = std::max<std::size_t>(1, sample.size() * dim * kinds / sampled_values);
    ScalarCodec codec(space_);
    for (std::size_t i = 0; i < sample.size(); i += stride) {
      stop_.check();
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        if (!takes(codec, sample[i], kind == 1)) continue;
        codec.project();
        for (std::size_t j = 0; j < dim; ++j) {
          const double magnitude = std::abs(codec.y_[j]);
          if (std::isfinite(magnitude)) magnitudes.push_back(magnitude);
        }
      }
    }
    space_.step = best_step(magnitudes, space_.largest_code());
  }

  // Where to look for directions; none for a shape of all values, or rows that are too short.
  static LeadingPlan leading_plan(std::int64_t dim, const ScalarShape& shape) {
    if (shape.dim < 0 || shape.dim >= dim) return {};
    if (shape.dim > 0) return {.count = shape.dim};
    if (dim < fewest_reduced) return {};
    return {.share = share_kept, .most = std::min(dim / 2, most_leading)};
  }
  static std::int64_t directions_sample(std::int64_t dim) {
    return std::clamp<std::int64_t>(4 * dim, 2048, 8192);
  }

 private:
  bool takes(ScalarCodec& codec, std::int64_t row, bool is_query) const {
    if (!codec.transform(rows_.row(row), is_query)) return false;
    return std::all_of(codec.y_.begin(), codec.y_.begin() + rows_.dim,
                       [this](double value) { return std::abs(value) <= largest_value_; });
  }

  const DatasetView& rows_;
  ScalarSpace& space_;
  double largest_value_;
  const Execution& execution_;
  StopRequest stop_;
};

std::uint64_t scalar_space_bytes(std::int64_t dim, ScalarShape shape) {
  const LeadingPlan plan = ScalarTrainer::leading_plan(dim + 1, shape);
  if (plan.none()) return sampled_values * sizeof(double);
  return leading_bytes(dim + 1, std::max(plan.count, plan.most)) +
         static_cast<std::uint64_t>(ScalarTrainer::directions_sample(dim + 1) * (dim + 1)) * sizeof(double);
}

ScalarSpace make_scalar_space(const DatasetView& rows, Metric metric, const Execution& execution,
                              ScalarShape shape, double largest_value) {
  ScalarSpace space;
  space.bits = shape.bits;
  space.dtype = rows.dtype;
  space.metric = metric;
  space.dim = rows.dim;
  if (space.raw_integers() && ScalarTrainer::leading_plan(space.full_dim(), shape).none()) return space;
  if (metric == Metric::inner_product) space.largest_norm = norm_of_all(rows, largest_value, execution);
  ScalarTrainer trainer(rows, space, largest_value, execution);
  trainer.find_mean();
  trainer.find_directions(shape);
  if (space.raw_integers()) {
    space.mean.clear();
    return space;
  }
  trainer.find_step();
  return space;
}

ScalarSpace with_bits(const DatasetView& rows, ScalarSpace space, int bits, const Execution& execution) {
  space.bits = bits;
  ScalarTrainer(rows, space, std::numeric_limits<double>::infinity(), execution).find_step();
  return space;
}

}  // namespace kith::codes
