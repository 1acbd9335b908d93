// Names and conversions of the small public types.
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "kith/dtype.hpp"
#include "kith/error.hpp"
#include "kith/filter.hpp"
#include "kith/metric.hpp"
#include "kith/version.hpp"

namespace kith {

const char* version() noexcept {
  return KITH_VERSION_STRING;
}

std::string_view name(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::f32: return "f32";
    case Dtype::f16: return "f16";
    case Dtype::bf16: return "bf16";
    case Dtype::i8: return "i8";
    case Dtype::u8: return "u8";
    case Dtype::f64: return "f64";
  }
  return "?";
}

Dtype parse_dtype(std::string_view text) {
  if (text == "f32" || text == "float32") return Dtype::f32;
  if (text == "f16" || text == "float16") return Dtype::f16;
  if (text == "bf16" || text == "bfloat16") return Dtype::bf16;
  if (text == "i8" || text == "int8") return Dtype::i8;
  if (text == "u8" || text == "uint8") return Dtype::u8;
  if (text == "f64" || text == "float64") return Dtype::f64;
  throw InvalidArgument(
      fmt::format("element type '{}' is not one Kith knows; use f32, f16, bf16, i8, u8 or f64", text));
}

std::string_view name(Metric metric) noexcept {
  switch (metric) {
    case Metric::sqeuclidean: return "sqeuclidean";
    case Metric::euclidean: return "euclidean";
    case Metric::inner_product: return "inner_product";
    case Metric::cosine: return "cosine";
    case Metric::manhattan: return "manhattan";
  }
  return "?";
}

Metric parse_metric(std::string_view text) {
  for (Metric metric :
       {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product, Metric::cosine, Metric::manhattan}) {
    if (text == name(metric)) return metric;
  }
  if (text == "l2" || text == "L2") {
    throw InvalidArgument(fmt::format(
        "metric '{}' means two things in this field; say 'euclidean' (rooted) or 'sqeuclidean' (squared)",
        text));
  }
  throw InvalidArgument(
      fmt::format("metric '{}' is not one Kith knows; use sqeuclidean, euclidean, inner_product, cosine "
                  "or manhattan",
                  text));
}

std::string_view name(Filter filter) noexcept {
  switch (filter) {
    case Filter::automatic: return "auto";
    case Filter::int8: return "int8";
    case Filter::fp16: return "fp16";
    case Filter::fp32: return "fp32";
    case Filter::none: return "none";
  }
  return "?";
}

Filter parse_filter(std::string_view text) {
  for (Filter filter : {Filter::automatic, Filter::int8, Filter::fp16, Filter::fp32, Filter::none}) {
    if (text == name(filter)) return filter;
  }
  throw InvalidArgument(
      fmt::format("filter '{}' is not one Kith knows; use auto, int8, fp16, fp32 or none", text));
}

float to_float(float16 value) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (value.bits >> 10U) & 0x1FU;
  std::uint32_t mantissa = value.bits & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13U));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
  // Zero and subnormals: mantissa * 2^-24, exact in float32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

float to_float(bfloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}

float16 to_float16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {static_cast<std::uint16_t>(sign | 0x7E00U)};   // NaN
  if (magnitude >= 0x47800000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)};  // 2^16 and up
  if (magnitude < 0x38800000U) {  // below 2^-14: round to a multiple of 2^-24 by adding 0.5
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U))};
  }
  const std::uint32_t odd = (magnitude >> 13U) & 1U;
  return {static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xFFFU + odd) >> 13U))};
}

bfloat16 to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>((bits >> 16U) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

}  // namespace kith
