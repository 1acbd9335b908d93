// Lines, tokens and numbers of text files.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace kith::io {

/// Takes the next line off `rest`, without its end (LF or CR LF).
inline std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

/// Takes the next token off `rest`; empty when there is none. Separators: blanks and `extra`.
inline std::string_view take_token(std::string_view& rest, char extra = ' ') {
  const auto is_separator = [extra](char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f' || c == extra;
  };
  std::size_t start = 0;
  while (start < rest.size() && is_separator(rest[start])) ++start;
  std::size_t end = start;
  while (end < rest.size() && !is_separator(rest[end])) ++end;
  const std::string_view token = rest.substr(start, end - start);
  rest.remove_prefix(end);
  return token;
}

/// The whole token as a number ("nan", "inf" and a leading + included), correctly rounded and independent of
/// the locale; nothing when it is none. Values too large or small for T become infinite or zero.
template <class T>
std::optional<T> parse_number(std::string_view token) {
  if (!token.empty() && token.front() == '+') token.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (end != token.data() + token.size() || token.empty()) return std::nullopt;
  if (error == std::errc()) return value;
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range) {
      // from_chars does not say which way; the exponent of a plain strtold does (its range is wider).
      const long double wide = std::strtold(std::string(token).c_str(), nullptr);
      const bool large = wide > 1.0L || wide < -1.0L;
      const T magnitude = large ? std::numeric_limits<T>::infinity() : T{0};
      return token.front() == '-' ? -magnitude : magnitude;
    }
  }
  return std::nullopt;
}

}  // namespace kith::io
