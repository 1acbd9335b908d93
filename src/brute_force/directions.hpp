// What both backends know of codes along leading directions.
#pragma once

#include <cstdint>
#include <optional>

#include "codes/codes.hpp"

namespace kith::brute_force {

/// For tests: from now on so many directions (at most as many as dimensions; 0: none) wherever the form of
/// the codes has them; nullopt: as it pays.
void force_directions(std::optional<std::int64_t> count);
std::optional<std::int64_t> forced_directions();

/// The same of codes for few queries on GPUs.
void force_short_codes(std::optional<std::int64_t> directions);
std::optional<std::int64_t> forced_short_codes();

/// Whether codes of this kind may be made along directions.
bool may_have_directions(const codes::CodeSpace& space);

/// How far off the directions of `space` queries may lie before codes of all values suit them better: twice
/// as far as nearly all of the rows.
double largest_rest(const DatasetView& rows, const codes::CodeSpace& space);
/// More than one query in so many that lies farther off.
inline constexpr std::int64_t one_off_in = 16;

}  // namespace kith::brute_force
