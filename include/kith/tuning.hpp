/// @file
/// What an approximate index finds for queries of the caller's own, measured and kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "kith/recall.hpp"

namespace kith {

/// Whether queries come from where the rows do. Rows are to other rows what queries of the same kind are: so
/// the distances of queries to their nearest rows are compared with those of some rows to theirs (two-sample
/// test of Kolmogorov and Smirnov, 1948). What does not show in these distances is not noticed.
struct QueryDistribution {
  std::int64_t rows = 0;      ///< rows compared with; 0: too few for it, and nothing is known
  double difference = 0;      ///< largest difference of the two distributions, 0 to 1
  double p_value = 1;         ///< of a difference as large between samples of one distribution
  double queries_median = 0;  ///< distance to the nearest row, in units of the metric
  double rows_median = 0;     ///< the same of rows, themselves left out

  /// A difference that is no accident and no trifle.
  bool other() const { return p_value < 0.001 && difference >= 0.1; }
};

/// Recall of an index for queries, measured against exact answers.
struct Tuning {
  std::uint64_t graph_hash = 0;  ///< of the index that it is for
  RecallCurve curve;
  std::vector<double>
      queries_per_second;  ///< of each point of the curve, with the threads of the measurement
  QueryDistribution distribution;
};

/// Writes a tuning as JSON, whole or not at all.
/// @param cancelled polled; true stops with Cancelled
/// @throws IoError, Cancelled
void write_tuning(const std::filesystem::path& path, const Tuning& tuning,
                  const std::function<bool()>& cancelled = {});

/// @throws IoError when missing, corrupt, foreign or newer
Tuning read_tuning(const std::filesystem::path& path);

}  // namespace kith
