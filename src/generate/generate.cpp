// Checks of the parameters, the loop over rows, rounding to the element type.
#include "kith/generate.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"
#include "generate/random.hpp"
#include "generate/terrain.hpp"
#include "kith/error.hpp"

namespace kith {

using generators::Row;

std::string_view name(Generator generator) noexcept {
  switch (generator) {
    case Generator::uniform: return "uniform";
    case Generator::gaussian: return "gaussian";
    case Generator::clusters: return "clusters";
    case Generator::low_intrinsic_dimension: return "low_intrinsic_dimension";
    case Generator::terrain_scan: return "terrain_scan";
  }
  return "?";
}

Generator parse_generator(std::string_view text) {
  for (Generator generator : {Generator::uniform, Generator::gaussian, Generator::clusters,
                              Generator::low_intrinsic_dimension, Generator::terrain_scan}) {
    if (text == name(generator)) return generator;
  }
  throw InvalidArgument(fmt::format(
      "generator '{}' is not one Kith knows; use uniform, gaussian, clusters, low_intrinsic_dimension or "
      "terrain_scan",
      text));
}

namespace {

// Every purpose draws from its own stream.
constexpr std::uint32_t stream_values = 0;
constexpr std::uint32_t stream_centres = 1;
constexpr std::uint32_t stream_choice = 2;
constexpr std::uint32_t stream_mapping = 3;

bool is_integer(Dtype dtype) {
  return dtype == Dtype::i8 || dtype == Dtype::u8;
}

void check(const GenerateParameters& p) {
  if (p.rows < 0) throw InvalidArgument(fmt::format("{} rows; at least 0 are needed", p.rows));
  if (p.dim < 1) throw InvalidArgument(fmt::format("dimension {}; at least 1 is needed", p.dim));
  if (p.first_row < 0 || p.first_row > std::numeric_limits<std::int64_t>::max() - p.rows) {
    throw InvalidArgument(
        fmt::format("the first row is {}; it must be 0 or more, and the last below 2^63", p.first_row));
  }
  if (p.normalize && is_integer(p.dtype)) {
    throw InvalidArgument(
        fmt::format("rows of {} cannot have length 1; use f32, f16, bf16 or f64", name(p.dtype)));
  }
  if (p.generator == Generator::clusters) {
    if (p.clusters < 1) throw InvalidArgument(fmt::format("{} clusters; at least 1 is needed", p.clusters));
    if (!(p.spread > 0) || !std::isfinite(p.spread)) {
      throw InvalidArgument(fmt::format("a spread of {}; it must be above 0", p.spread));
    }
  }
  if (p.generator == Generator::low_intrinsic_dimension) {
    if (p.intrinsic_dim < 1 || p.intrinsic_dim > p.dim) {
      throw InvalidArgument(
          fmt::format("an intrinsic dimension of {}; use 1 to the dimension, {}", p.intrinsic_dim, p.dim));
    }
    if (!(p.noise >= 0) || !std::isfinite(p.noise)) {
      throw InvalidArgument(fmt::format("noise of {}; it must be 0 or more", p.noise));
    }
  }
  if (p.generator == Generator::terrain_scan) {
    if (p.dim != 3) {
      throw InvalidArgument(fmt::format("a terrain scan of dimension {}; its points have 3", p.dim));
    }
    if (p.dtype != Dtype::f32 && p.dtype != Dtype::f64) {
      throw InvalidArgument(
          fmt::format("a terrain scan as {} would merge its points; use f64 or f32", name(p.dtype)));
    }
    if (!(p.points_per_square_metre >= 1e-4) || !(p.points_per_square_metre <= 1e6)) {
      throw InvalidArgument(
          fmt::format("{} points a square metre; use 0.0001 to 1000000", p.points_per_square_metre));
    }
  }
}

// Makes one row in float64; what all rows share is prepared once.
class RowMaker {
 public:
  explicit RowMaker(const GenerateParameters& p) : p_(p) {
    if (p.generator == Generator::clusters) fill_normal(centres_, stream_centres, p.clusters, p.dim);
    if (p.generator == Generator::low_intrinsic_dimension) {
      fill_normal(mapping_, stream_mapping, p.dim, p.intrinsic_dim);
    }
  }

  void make(std::int64_t row, std::vector<double>& out, std::vector<double>& scratch) const {
    const auto index = static_cast<std::uint64_t>(row);
    Row random(p_.seed, stream_values, index);
    switch (p_.generator) {
      case Generator::uniform:
        for (double& value : out) value = random.uniform();
        return;
      case Generator::gaussian:
        for (double& value : out) value = random.normal();
        return;
      case Generator::clusters: {
        // The square of a uniform number: the first clusters are the largest.
        const double choice = Row(p_.seed, stream_choice, index).uniform();
        const auto chosen = static_cast<std::size_t>(choice * choice * static_cast<double>(p_.clusters));
        const double* centre = centres_.data() + chosen * out.size();
        for (std::size_t j = 0; j < out.size(); ++j) out[j] = centre[j] + p_.spread * random.normal();
        return;
      }
      case Generator::low_intrinsic_dimension: {
        scratch.resize(static_cast<std::size_t>(p_.intrinsic_dim));
        for (double& value : scratch) value = random.normal();
        const double scale = 1 / std::sqrt(static_cast<double>(p_.intrinsic_dim));
        for (std::size_t j = 0; j < out.size(); ++j) {
          const double* weights = mapping_.data() + j * scratch.size();
          double sum = 0;
          for (std::size_t l = 0; l < scratch.size(); ++l) sum += weights[l] * scratch[l];
          out[j] = sum * scale + p_.noise * random.normal();
        }
        return;
      }
      case Generator::terrain_scan: {
        const auto point = generators::terrain_point(p_.seed, row, p_.points_per_square_metre, p_.utm);
        std::copy(point.begin(), point.end(), out.begin());
        return;
      }
    }
  }

 private:
  void fill_normal(std::vector<double>& values, std::uint32_t stream, std::int64_t rows,
                   std::int64_t dim) const {
    values.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(dim));
    for (std::int64_t i = 0; i < rows; ++i) {
      Row random(p_.seed, stream, static_cast<std::uint64_t>(i));
      for (std::int64_t j = 0; j < dim; ++j) values[static_cast<std::size_t>(i * dim + j)] = random.normal();
    }
  }

  GenerateParameters p_;
  std::vector<double> centres_;  // [clusters, dim]
  std::vector<double> mapping_;  // [dim, intrinsic_dim]
};

void normalize(std::vector<double>& row) {
  double squares = 0;
  for (double value : row) squares += value * value;
  if (squares == 0) return;
  const double length = std::sqrt(squares);
  for (double& value : row) value /= length;
}

template <class T>
T round_to(double value, [[maybe_unused]] bool uniform) {
  if constexpr (std::is_same_v<T, double>) return value;
  if constexpr (std::is_same_v<T, float>) return static_cast<float>(value);
  if constexpr (std::is_same_v<T, float16>) return to_float16(static_cast<float>(value));
  if constexpr (std::is_same_v<T, bfloat16>) return to_bfloat16(static_cast<float>(value));
  if constexpr (std::is_integral_v<T>) {
    const double low = std::numeric_limits<T>::min();
    const double high = std::numeric_limits<T>::max();
    const double scaled =
        uniform ? std::floor(value * 256) + low : std::floor(value * 32 + 0.5) + (low == 0 ? 128 : 0);
    return static_cast<T>(std::clamp(scaled, low, high));
  }
}

}  // namespace

Dataset generate(const GenerateParameters& parameters, const Execution& execution) {
  check(parameters);
  const int threads = resolve_threads(execution);
  Dataset result = Dataset::allocate(parameters.dtype, parameters.rows, parameters.dim);
  const RowMaker maker(parameters);
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> done{0};
  std::mutex reporting;
  const std::int64_t block = std::max<std::int64_t>(1, 65536 / parameters.dim);
  parallel_for(threads, (parameters.rows + block - 1) / block, [&](std::int64_t b) {
    if (stop.load(std::memory_order_relaxed)) return;
    if (execution.cancelled && execution.cancelled()) {
      stop = true;
      return;
    }
    std::vector<double> row(static_cast<std::size_t>(parameters.dim));
    std::vector<double> scratch;
    const std::int64_t begin = b * block;
    const std::int64_t end = std::min(parameters.rows, begin + block);
    for (std::int64_t i = begin; i < end; ++i) {
      maker.make(parameters.first_row + i, row, scratch);
      if (parameters.normalize) normalize(row);
      visit_dtype(parameters.dtype, [&]<class T>(T) {
        T* to = static_cast<T*>(result.mutable_data()) + i * parameters.dim;
        const bool uniform = parameters.generator == Generator::uniform;
        std::transform(row.begin(), row.end(), to, [&](double value) { return round_to<T>(value, uniform); });
      });
    }
    const std::int64_t finished = done += end - begin;
    if (execution.progress && reporting.try_lock()) {
      execution.progress({"generate", finished, parameters.rows});
      reporting.unlock();
    }
  });
  if (stop) throw Cancelled("generate: cancelled");
  return result;
}

}  // namespace kith
