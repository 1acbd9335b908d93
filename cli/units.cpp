// Sizes, counts and durations.
#include "units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "kith/error.hpp"

namespace kith::cli {

std::uint64_t parse_bytes(std::string_view text, std::string_view option, std::uint64_t whole) {
  const auto wrong = [&] {
    return InvalidArgument(fmt::format(
        "{}: '{}' is not a size; write 4GiB, 500MiB, 2GB, 50%, a number of bytes, or none", option, text));
  };
  if (text == "none") return 0;
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !(number >= 0)) throw wrong();
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit == "%") {
    if (number <= 0 || number > 100) {
      throw InvalidArgument(
          fmt::format("{}: '{}' is not a share of the memory; write 1% to 100%, or none", option, text));
    }
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(number / 100 * static_cast<double>(whole)));
  }
  double factor = 1;
  if (!unit.empty() && unit != "B") {
    constexpr std::string_view letters = "KMGTP";
    const auto power = letters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
    const std::string_view rest = unit.substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "iB")) throw wrong();
    factor = std::pow(rest == "B" ? 1000.0 : 1024.0, static_cast<double>(power) + 1);
  }
  const double bytes = number * factor;
  if (bytes >= 0x1p63) throw wrong();
  return static_cast<std::uint64_t>(bytes);
}

std::string format_bytes(double bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.{}f} {}", bytes,
                                 bytes < 9.995   ? 2
                                 : bytes < 99.95 ? 1
                                                 : 0,
                                 units[unit]);
}

std::string format_count(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string format_short(double count) {
  constexpr std::array units = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (count >= 999.5 && unit + 1 < units.size()) {
    count /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 && count == std::floor(count) ? 0
                       : count < 9.995                         ? 2
                       : count < 99.95                         ? 1
                                                               : 0;
  return fmt::format("{:.{}f}{}", count, decimals, units[unit]);
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(std::fmin(std::fmax(seconds, 0), 359999)));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string format_number(double value) {
  return fmt::format("{:.7g}", value);
}

std::string plural(std::int64_t count, std::string_view noun, std::string_view plural_noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  return plural_noun.empty() ? fmt::format("{} {}s", format_count(count), noun)
                             : fmt::format("{} {}", format_count(count), plural_noun);
}

}  // namespace kith::cli
