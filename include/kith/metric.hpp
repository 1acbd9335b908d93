/// @file
/// The metrics. There is no bare "l2": it means squared in one library and rooted in the next.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kith {

/// How far a query q is from a row x. Every metric is a distance: smaller is nearer.
/// All are evaluated in float64 in one fixed order and rounded once to the result type
/// (docs/exact-contract.md).
enum class Metric : std::uint8_t {
  sqeuclidean,    ///< sum (q_i - x_i)^2
  euclidean,      ///< sqrt(sum (q_i - x_i)^2)
  inner_product,  ///< -(sum q_i x_i): the largest inner product comes first, its sign flipped
  cosine,         ///< 1 - q.x / (|q| |x|), clamped to [0, 2]; 1 when either vector is zero
  manhattan,      ///< sum |q_i - x_i|
};
inline constexpr std::array all_metrics = {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product,
                                           Metric::cosine, Metric::manhattan};

/// "sqeuclidean", "euclidean", "inner_product", "cosine" or "manhattan".
std::string_view name(Metric metric) noexcept;

/// Parses those names. "l2" is refused with a message that asks which of the two is meant.
/// @throws InvalidArgument when the name is none of them.
Metric parse_metric(std::string_view text);

}  // namespace kith
