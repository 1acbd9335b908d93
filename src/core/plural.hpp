// Counts in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kith {

/// "1 row", "2 rows"; a plural that is not `one` and an s is given.
inline std::string plural(std::int64_t count, std::string_view one, std::string_view many = {}) {
  std::string text = std::to_string(count);
  text.append(1, ' ').append(count == 1 || many.empty() ? one : many);
  if (count != 1 && many.empty()) text.append(1, 's');
  return text;
}

}  // namespace kith
