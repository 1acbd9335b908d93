// Thresholds. Every inequality here is derived in docs/exact-contract.md; all roundings go the safe way.
#include "brute_force/cpu/filter.hpp"

#include <cmath>
#include <limits>

#include "core/instruction_set.hpp"
#include "core/rounding.hpp"

namespace kith::brute_force {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::int32_t clamp_int(double x) {
  constexpr double low = std::numeric_limits<std::int32_t>::min();
  constexpr double high = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(std::floor(x < low ? low : (x > high ? high : x)));
}

const FilterKernels& kernels() {
  switch (active_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::avx512_vnni: return filter_kernels_avx512_vnni;
    case InstructionSet::avx_vnni: return filter_kernels_avx_vnni;
    case InstructionSet::avx2: return filter_kernels_avx2;
#elif defined(__aarch64__)
    case InstructionSet::neon_i8mm: return filter_kernels_neon_i8mm;
    case InstructionSet::neon: return filter_kernels_neon;
#endif
    default: return filter_kernels_portable;
  }
}

}  // namespace

TileFunction filter_kernel(codes::CodeChoice choice) {
  const FilterKernels& set = kernels();
  const bool triangle = choice.form == codes::Form::triangle;
  switch (choice.form) {
    case codes::Form::integer: return set.int8_integer;
    case codes::Form::difference: return set.fp32_squared;
    case codes::Form::absolute:
      return choice.filter == Filter::int8   ? set.int8_absolute
             : choice.filter == Filter::fp16 ? set.fp16_absolute
                                             : set.fp32_absolute;
    default: break;
  }
  switch (choice.filter) {
    case Filter::int8:
      if (choice.narrow) return triangle ? set.int8_narrow_triangle : set.int8_narrow_cauchy;
      return triangle ? set.int8_triangle : set.int8_cauchy;
    case Filter::fp16: return triangle ? set.fp16_triangle : set.fp16_cauchy;
    default: return triangle ? set.fp32_triangle : set.fp32_cauchy;
  }
}

FineFunction fine_kernel() {
  return kernels().fine;
}

Tile tile_of(const codes::Codes& codes, std::int64_t t) {
  const auto at = [&](const auto& array) { return array.empty() ? nullptr : array.data() + t * tile_rows; };
  return {codes.codes.data() + t * codes.space.bytes_per_tile(),
          codes.space.steps(),
          at(codes.scale),
          at(codes.h),
          at(codes.g),
          at(codes.e),
          at(codes.bias)};
}

FilterQueries::FilterQueries(const codes::Codes& codes, std::int64_t capacity)
    : codes_(&codes), scratch_(codes.space), rows_(capacity * codes.space.query_stride_bytes()) {
  const auto count = static_cast<std::size_t>(capacity);
  queries_.reserve(count);
  for (auto* array : {&threshold_, &h_weight_, &g_weight_, &e_weight_}) array->resize(count);
  integer_threshold_.resize(count);
  bias_.resize(count);
}

void FilterQueries::start_over(const codes::Codes& codes) {
  codes_ = &codes;
  queries_.clear();
}

TileQueries FilterQueries::view() const {
  return {rows_.data(),      codes_->space.query_stride_bytes(),
          bias_.data(),      h_weight_.data(),
          g_weight_.data(),  e_weight_.data(),
          threshold_.data(), integer_threshold_.data()};
}

codes::RowKind FilterQueries::add(const double* values) {
  const std::int64_t slot = size();
  const codes::QueryCode code = codes::encode_query(
      codes_->space, values, rows_.data() + slot * codes_->space.query_stride_bytes(), scratch_);
  if (code.kind != codes::RowKind::regular) return code.kind;
  queries_.push_back(code);
  bias_[static_cast<std::size_t>(slot)] = code.bias;
  keep_all(slot);
  return code.kind;
}

void FilterQueries::keep_all(std::int64_t slot) {
  const auto i = static_cast<std::size_t>(slot);
  const codes::Form form = codes_->space.choice.form;
  const bool distance = form == codes::Form::difference || form == codes::Form::absolute;
  threshold_[i] = distance ? infinity : -infinity;
  integer_threshold_[i] =
      distance ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int32_t>::min();
  h_weight_[i] = g_weight_[i] = e_weight_[i] = 0;
}

void FilterQueries::close(std::int64_t slot) {
  keep_all(slot);
  const auto i = static_cast<std::size_t>(slot);
  threshold_[i] = -threshold_[i];
  integer_threshold_[i] = integer_threshold_[i] > 0 ? -1 : std::numeric_limits<std::int32_t>::max();
}

void FilterQueries::set_bound(std::int64_t slot, double real) {
  const auto i = static_cast<std::size_t>(slot);
  const codes::QueryCode& q = queries_[i];
  const codes::CodeSpace& space = codes_->space;
  if (!std::isfinite(real)) {
    keep_all(slot);
    return;
  }
  const bool euclid = space.metric == Metric::sqeuclidean || space.metric == Metric::euclidean;
  // The bound in code space. Products scale by unit^2, lengths by unit.
  const double unit = space.unit;
  constexpr double more = 1 + 0x1p-40;

  switch (space.choice.form) {
    case codes::Form::integer:
      // d^2 <= real  =>  x.q - |x|^2 / 2 >= (|q|^2 - real) / 2;  -x.q <= real  =>  x.q >= -real.
      integer_threshold_[i] = clamp_int(euclid ? (q.norm_sq - real) / 2 : -real);
      return;
    case codes::Form::absolute: {
      const double limit = real * unit * more + q.residual + codes_->largest_residual;
      integer_threshold_[i] = clamp_int(limit / q.scale * more);
      threshold_[i] = round_up<float>(limit * (1 + space.rounding() * 2) + 0x1p-120);
      return;
    }
    case codes::Form::difference: {
      const double limit = std::sqrt(real) * unit * more + q.residual + codes_->largest_residual;
      threshold_[i] = round_up<float>(limit * limit * (1 + space.rounding() * 2) + 0x1p-120);
      return;
    }
    case codes::Form::triangle: {
      // |q' - x'| <= R + e with R = r + e_q  =>  q'.x' + R e - (|x'|^2 - e^2) / 2 >= (|q'|^2 - R^2) / 2.
      const double reach = std::sqrt(real) * unit * more + q.residual;
      const double half = (q.norm_sq * (1 - 0x1p-30) - reach * reach * more) / 2 -
                          (space.rounding() * 1.01 + 0x1p-40) * q.norm_sq - 0x1p-100;
      const double limit = half / q.scale;
      threshold_[i] = round_down<float>(limit - std::fabs(limit) * 0x1p-22);
      e_weight_[i] = round_up<float>(reach / q.scale * (1 + 0x1p-22));
      h_weight_[i] = round_up<float>(1 / q.scale);
      return;
    }
    case codes::Form::cauchy: {
      // q.x <= q'.x' + e_q |x| + |q'| e.
      double half = 0;
      if (euclid) {
        half = (q.norm_sq * (1 - 0x1p-30) - real * unit * unit * more) / 2;
      } else if (space.metric == Metric::inner_product) {
        half = -real * unit * unit - std::fabs(real * unit * unit) * 0x1p-40;
      } else {
        half = (1 - real) - 0x1p-40;
      }
      const double limit = (half - 0x1p-100) / q.scale;
      threshold_[i] = round_down<float>(limit - std::fabs(limit) * 0x1p-22);
      e_weight_[i] = round_up<float>(q.norm / q.scale * (1 + 0x1p-22));
      g_weight_[i] = round_up<float>(q.residual / q.scale * (1 + 0x1p-22));
      h_weight_[i] = euclid ? round_up<float>(1 / q.scale) : 0;
      return;
    }
    case codes::Form::none: return;
  }
}

}  // namespace kith::brute_force
