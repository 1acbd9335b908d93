// "Did you mean": the nearest of a list of names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kith::cli {

/// The name with the smallest edit distance to `text`, or "" when none is near enough to be meant.
std::string nearest_name(std::string_view text, const std::vector<std::string>& names);

/// "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view text, const std::vector<std::string>& names);

}  // namespace kith::cli
