// Reading and writing of sizes, counts and durations for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kith::cli {

/// "4GiB" and "4G" are 4 * 2^30, "4GB" is 4 * 10^9, "1.5MiB", "800" (bytes), "none" and "0" are 0; "50%" is
/// half of `whole` bytes.
/// @throws InvalidArgument naming the option
std::uint64_t parse_bytes(std::string_view text, std::string_view option, std::uint64_t whole);

/// "1.5 GiB", "12 B".
std::string format_bytes(double bytes);
/// "1,234,567".
std::string format_count(std::int64_t count);
/// "1.2k", "3.4M": three digits.
std::string format_short(double count);
/// "0:07", "1:02:03".
std::string format_duration(double seconds);
/// A number as people read it: up to 7 significant digits.
std::string format_number(double value);

/// "1 row", "2 rows", "1,000 rows".
std::string plural(std::int64_t count, std::string_view noun, std::string_view plural_noun = "");

}  // namespace kith::cli
