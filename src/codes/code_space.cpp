// Where codes live: mean, unit, sizes, and which forms a metric allows.
#include <algorithm>
#include <cmath>
#include <limits>

#include "codes/codes.hpp"
#include "codes/transform.hpp"
#include "core/instruction_set.hpp"
#include "core/sample.hpp"

namespace kith::codes {
namespace {

constexpr std::int64_t tile = 64;

bool is_euclidean(Metric metric) {
  return metric == Metric::sqeuclidean || metric == Metric::euclidean;
}

struct ScalarArrays {
  bool scale;  // and h, e
  bool g;
  bool bias;
};

ScalarArrays scalar_arrays(const CodeSpace& space) {
  const Form form = space.choice.form;
  return {form == Form::triangle || form == Form::cauchy, form == Form::cauchy,
          space.raw_integers() && form != Form::absolute};
}

// Value at a share of the sorted list.
double percentile(std::vector<double>& list, std::size_t hundredths) {
  const auto at = list.begin() + static_cast<std::ptrdiff_t>((list.size() - 1) * hundredths / 100);
  std::nth_element(list.begin(), at, list.end());
  return *at;
}

}  // namespace

const RowKernels& row_kernels() {
  switch (active_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::avx512_vnni: return row_kernels_avx512;
    case InstructionSet::avx_vnni:
    case InstructionSet::avx2: return row_kernels_avx2;
#elif defined(__aarch64__)
    case InstructionSet::neon_i8mm:
    case InstructionSet::neon: return row_kernels_neon;
#endif
    default: return row_kernels_portable;
  }
}

double CodeSpace::rounding() const {
  // Eight roundings of the score; a sum of products in float32 adds at most two each.
  constexpr double float_epsilon = 0x1p-24;
  const double sum =
      choice.filter == Filter::int8 ? 0 : (2 * static_cast<double>(values()) + 16) * float_epsilon * 1.01;
  return 0x1p-21 + sum;
}

std::int64_t CodeSpace::bytes_per_tile() const {
  switch (choice.filter) {
    case Filter::int8: return steps() * 4 * tile;
    case Filter::fp16: return steps() * 2 * tile;
    case Filter::fp32: return steps() * 4 * tile;
    default: return 0;
  }
}

Codes::Codes(const CodeSpace& code_space, std::int64_t row_count)
    : space(code_space), rows(row_count), tiles((row_count + tile - 1) / tile) {
  valid.assign(static_cast<std::size_t>(tiles), 0);
  if (space.choice.filter == Filter::none) return;
  const ScalarArrays need = scalar_arrays(space);
  const std::int64_t padded = tiles * tile;
  codes = AlignedBuffer<unsigned char>(tiles * space.bytes_per_tile());
  if (need.scale) {
    scale = AlignedBuffer<float>(padded);
    h = AlignedBuffer<float>(padded);
    e = AlignedBuffer<float>(padded);
  }
  if (need.g) g = AlignedBuffer<float>(padded);
  if (need.bias) bias = AlignedBuffer<std::int32_t>(padded);
}

std::uint64_t Codes::bytes() const {
  return codes.bytes() + scale.bytes() + h.bytes() + g.bytes() + e.bytes() + bias.bytes() +
         (space.projection == nullptr ? 0 : space.projection->bytes()) +
         valid.size() * sizeof(std::uint64_t) + special.size() * sizeof(std::int64_t);
}

std::uint64_t code_bytes(const CodeSpace& space, std::int64_t rows) {
  const auto tiles = static_cast<std::uint64_t>((rows + tile - 1) / tile);
  if (space.choice.filter == Filter::none) return tiles * 8;
  const ScalarArrays need = scalar_arrays(space);
  const std::uint64_t scalars = (need.scale ? 12U : 0U) + (need.g ? 4U : 0U) + (need.bias ? 4U : 0U);
  return tiles * (static_cast<std::uint64_t>(space.bytes_per_tile()) + tile * scalars + 8);
}

bool same_space(Metric metric, Dtype dtype, CodeChoice a, CodeChoice b) {
  const auto differences = [](CodeChoice c) {
    return c.form == Form::difference || c.form == Form::absolute;
  };
  const auto raw = [&](CodeChoice c) {
    return c.filter == Filter::int8 && !c.narrow && (dtype == Dtype::u8 || dtype == Dtype::i8);
  };
  const auto filtered = [](CodeChoice c) { return c.filter != Filter::none; };
  return metric == Metric::cosine ||
         (differences(a) == differences(b) && raw(a) == raw(b) && filtered(a) == filtered(b));
}

CodeSpace make_code_space(const DatasetView& data, Metric metric, CodeChoice choice) {
  CodeSpace space;
  space.dtype = data.dtype;
  space.metric = metric;
  space.choice = choice;
  space.dim = data.dim;
  if (space.raw_integers() || metric == Metric::cosine || choice.filter == Filter::none) return space;

  // Any mean and unit give valid bounds, so a sample will do.
  const std::vector<std::int64_t> sample = sample_rows(data.rows, 2048);
  const bool difference_form = choice.form == Form::difference || choice.form == Form::absolute;
  // float32 and narrower data need no centring in the difference form: q - x is exact to one rounding.
  const bool centered = metric != Metric::inner_product && !(difference_form && data.dtype != Dtype::f64);
  const RowKernels& kernels = row_kernels();
  std::vector<double> row(static_cast<std::size_t>(data.dim));
  const auto load = [&](std::int64_t i) {
    kernels.load[static_cast<int>(data.dtype)](data.row(i), data.dim, row.data());
    return kernels.finite(row.data(), data.dim);
  };
  std::vector<double> largest;
  if (centered) {
    // Rows far from the rest must not drag the mean away.
    for (const std::int64_t i : sample) {
      if (load(i)) largest.push_back(kernels.largest(row.data(), data.dim));
    }
    const double bulk = largest.empty() ? 0 : percentile(largest, 90) * 4;
    space.mean.assign(row.size(), 0.0);
    double count = 0;
    for (const std::int64_t i : sample) {
      if (!load(i) || kernels.largest(row.data(), data.dim) > bulk) continue;
      ++count;
      for (std::size_t j = 0; j < row.size(); ++j) space.mean[j] += (row[j] - space.mean[j]) / count;
    }
    // Differences of rows near the largest float64 overflow. Any mean will do, but it must be a number.
    for (double& value : space.mean) value = std::isfinite(value) ? value : 0;
  }
  largest.clear();
  for (const std::int64_t i : sample) {
    if (!load(i)) continue;
    if (centered) kernels.center(row.data(), space.mean.data(), 1, data.dim);
    const double value = kernels.largest(row.data(), data.dim);
    if (value > 0 && std::isfinite(value)) largest.push_back(value);
  }
  if (!largest.empty()) {
    constexpr int furthest = 960;  // so that the unit stays a normal number
    // Products of rows and queries that are not special stay below 2^(2 * 470 + 12 + 30) * dim: a lane that
    // overflows on the way would be -inf for the contract, whatever the real value is.
    const int least = metric == Metric::inner_product ? -470 : -furthest;
    space.unit = std::ldexp(1.0, std::clamp(-std::ilogb(percentile(largest, 99)), least, furthest));
  }
  return space;
}

bool prefers_narrow() {
  return active_instruction_set() == InstructionSet::avx2;
}

std::vector<CodeChoice> possible_codes(Dtype dtype, Metric metric, std::int64_t dim) {
  constexpr std::int64_t low_dimension = 16;
  // 65,280 * dim stays below 2^31, so no partial sum of byte products overflows.
  const bool int8_fits = dim <= largest_int8_dim;
  std::vector<CodeChoice> list;
  if (dim > largest_dim) return {{Filter::none, {}}};
  if (metric == Metric::manhattan) {
    if (int8_fits) list.push_back({Filter::int8, Form::absolute});
    list.push_back({Filter::fp16, Form::absolute});
    list.push_back({Filter::fp32, Form::absolute});
    list.push_back({Filter::none, {}});
    return list;
  }
  const bool integers = dtype == Dtype::u8 || dtype == Dtype::i8;
  const bool euclid = is_euclidean(metric);
  if (euclid && dim <= low_dimension) list.push_back({Filter::fp32, Form::difference});
  const auto dot_forms = [&](Filter filter, bool narrow) {
    if (euclid) list.push_back({filter, Form::triangle, narrow});
    list.push_back({filter, Form::cauchy, narrow});
  };
  if (int8_fits && prefers_narrow()) dot_forms(Filter::int8, true);
  if (int8_fits && integers && metric != Metric::cosine) list.push_back({Filter::int8, Form::integer});
  if (int8_fits && (!integers || metric == Metric::cosine)) dot_forms(Filter::int8, false);
  dot_forms(Filter::fp16, false);
  dot_forms(Filter::fp32, false);
  list.push_back({Filter::none, {}});
  return list;
}

}  // namespace kith::codes
