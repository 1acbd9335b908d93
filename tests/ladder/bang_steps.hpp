// BANG's sort and merge as its kernels do them, every element put into the place that it finds for itself.
#pragma once

#include <algorithm>
#include <vector>

#include "bang_parts.hpp"

namespace kith::ladder {

// As sort_neighbors() does it.
inline std::vector<Key> merge_sorted(std::vector<Key> from) {
  const auto count = static_cast<int>(from.size());
  for (int width = 1; width < count; width *= 2) {
    std::vector<Key> to(from.size(), no_key);
    for (int i = 0; i < count; ++i) {
      to.at(static_cast<std::size_t>(place_in_merge(from.data(), count, width, i))) =
          from[static_cast<std::size_t>(i)];
    }
    from = std::move(to);
  }
  return from;
}

// As merge_neighbors() does it.
inline std::vector<Key> merged(const std::vector<Key>& list, const std::vector<Key>& incoming,
                               std::size_t longest) {
  std::vector<Key> out(list.size() + incoming.size(), no_key);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const int passed = keys_before(incoming.data(), static_cast<int>(incoming.size()), list[i]);
    out.at(i + static_cast<std::size_t>(passed)) = list[i];
  }
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    const int passed = keys_up_to(list.data(), static_cast<int>(list.size()), incoming[i]);
    out.at(i + static_cast<std::size_t>(passed)) = incoming[i];
  }
  out.resize(std::min(out.size(), longest));
  return out;
}

}  // namespace kith::ladder
