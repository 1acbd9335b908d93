// What the reports published: on a Tesla V100 and its host, in ms.
#pragma once

#include <cstdint>
#include <vector>

namespace kith::ladder {

/// Two figures stand where two reports measured the same.
struct Published {
  std::int64_t dim, queries, points, k;
  int rung;          ///< 0: the reports say one GPU and not which of the rungs
  const char* what;  ///< device, and what is included
  std::vector<double> ms;
};

inline constexpr const char* published_source = "the reports that Kith implements, Tesla V100";

const std::vector<Published>& published();

}  // namespace kith::ladder
