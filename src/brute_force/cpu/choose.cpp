// Which filter? The one whose scan plus exact evaluations of what it keeps costs least, measured on a sample.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/prepared.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "core/instruction_set.hpp"
#include "core/sample.hpp"
#include "distance/canonical.hpp"
#include "kith/error.hpp"

namespace kith::brute_force {
namespace {

// Share of the sample's rows that a choice keeps for k = 10 when the bound is already the true one.
class Surplus {
 public:
  Surplus(const DatasetView& data, Metric metric, const Execution& execution)
      : data_(data),
        metric_(metric),
        execution_(execution),
        ids_(kith::sample_rows(data.rows, tuning::sample_rows)) {
    constexpr double typical_k = 10;
    const auto function = canonical_function(data.dtype, metric);
    const std::int64_t padded = canonical_padded(data.dim);
    const auto m = static_cast<std::int64_t>(ids_.size());
    // The rank in the sample that stands for rank k in the data.
    const auto rank = static_cast<std::size_t>(
        std::max(1.0, typical_k * static_cast<double>(m) / static_cast<double>(data.rows)));
    std::vector<double> distances(ids_.size());
    for (std::int64_t q = 0; q < std::min(tuning::sample_queries, m); ++q) {
      const std::int64_t row = ids_[static_cast<std::size_t>(q * m / std::min(tuning::sample_queries, m))];
      std::vector<double> values(static_cast<std::size_t>(padded));
      const auto query = prepare_canonical_query(data.row(row), data.dtype, data.dim, metric, values.data());
      function(canonical_rows(data), query, ids_.data(), m, distances.data());
      std::vector<double> others;
      for (std::size_t i = 0; i < ids_.size(); ++i) {
        if (ids_[i] != row && !std::isnan(distances[i])) others.push_back(distances[i]);
      }
      if (others.size() < rank) continue;
      std::nth_element(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(rank - 1), others.end());
      queries_.push_back(std::move(values));
      bounds_.push_back(real_bound(others[rank - 1], metric, data.dim));
    }
  }

  double measure(const codes::CodeSpace& space) const {
    if (queries_.empty()) return 0;
    Execution quiet;
    quiet.threads = execution_.threads;
    const codes::Codes codes = codes::encode_rows(data_, space, quiet, &ids_);
    FilterQueries filter(codes, static_cast<std::int64_t>(queries_.size()));
    std::int64_t kept = 0;
    std::int64_t compared = 0;
    for (std::size_t q = 0; q < queries_.size(); ++q) {
      if (filter.add(queries_[q].data()) == codes::RowKind::regular) {
        filter.set_bound(filter.size() - 1, bounds_[q]);
      } else {
        kept += codes.rows;
        compared += codes.rows;
      }
    }
    const TileFunction kernel = filter_kernel(space.choice);
    std::vector<std::uint64_t> masks(static_cast<std::size_t>(filter.size()));
    for (std::int64_t t = 0; t < codes.tiles && filter.size() > 0; ++t) {
      kernel(tile_of(codes, t), filter.view(), 0, filter.size(), masks.data());
      const std::uint64_t valid = codes.valid[static_cast<std::size_t>(t)];
      for (const std::uint64_t mask : masks) {
        kept += std::popcount(mask & valid);
        compared += std::popcount(valid);
      }
    }
    const auto special = static_cast<std::int64_t>(codes.special.size()) * filter.size();
    return static_cast<double>(kept + special) /
           static_cast<double>(std::max<std::int64_t>(1, compared + special));
  }

 private:
  const DatasetView& data_;
  Metric metric_;
  const Execution& execution_;
  std::vector<std::int64_t> ids_;
  std::vector<std::vector<double>> queries_;
  std::vector<double> bounds_;
};

double cost_of(codes::CodeChoice choice, double kept, std::int64_t dim) {
  const InstructionSet set = active_instruction_set();
  const bool vnni = set == InstructionSet::avx512_vnni || set == InstructionSet::avx_vnni;
  const double step = choice.filter == Filter::int8   ? (vnni ? 1 : tuning::cost_int8_without_vnni)
                      : choice.filter == Filter::fp16 ? tuning::cost_fp16
                                                      : tuning::cost_fp32;
  const auto d = static_cast<double>(dim);
  return step * d + kept * (tuning::cost_exact * d + tuning::cost_exact_rows);
}

}  // namespace

codes::CodeSpace choose_codes(const DatasetView& data, const BruteForceParameters& parameters,
                              std::int64_t expected_queries, const Execution& execution) {
  const Metric metric = parameters.metric;
  auto list = codes::possible_codes(data.dtype, metric, data.dim);
  const auto bytes = [&](codes::CodeChoice choice) {
    codes::CodeSpace space;
    space.dtype = data.dtype;
    space.dim = data.dim;
    space.choice = choice;
    return codes::code_bytes(space, data.rows);
  };
  if (parameters.filter != Filter::automatic) {
    std::erase_if(list, [&](codes::CodeChoice c) { return c.filter != parameters.filter; });
    if (list.empty()) {
      if (data.dim > codes::largest_dim) {
        throw InvalidArgument(fmt::format(
            "filter {} cannot be used with dimension {}: its bounds are proven up to {}; use auto "
            "or none",
            name(parameters.filter), data.dim, codes::largest_dim));
      }
      throw InvalidArgument(fmt::format(
          "filter {} cannot be used with dimension {}: its sums would overflow past {}; use auto, "
          "fp16 or fp32",
          name(parameters.filter), data.dim, codes::largest_int8_dim));
    }
    if (execution.memory_limit > 0) {
      const codes::CodeChoice smallest =
          *std::min_element(list.begin(), list.end(),
                            [&](codes::CodeChoice a, codes::CodeChoice b) { return bytes(a) < bytes(b); });
      std::erase_if(list, [&](codes::CodeChoice c) { return bytes(c) > execution.memory_limit; });
      if (list.empty()) {
        throw OutOfMemory(
            fmt::format("the codes of filter {} take {} bytes, the memory limit is {}; raise it, or use "
                        "filter auto or none",
                        name(parameters.filter), bytes(smallest), execution.memory_limit));
      }
    }
  } else {
    if (expected_queries > 0 && expected_queries <= tuning::queries_without_codes) {
      return codes::make_code_space(data, metric, {Filter::none, {}});
    }
    if (execution.memory_limit > 0) {
      // No codes at all is always possible.
      std::erase_if(list, [&](codes::CodeChoice c) {
        return c.filter != Filter::none && bytes(c) > execution.memory_limit;
      });
    }
    // In low dimension nothing beats four-byte differences; bytes that are their own codes lose nothing.
    const codes::Form first = list.front().form;
    if (list.front().filter != Filter::none &&
        (first == codes::Form::difference || first == codes::Form::integer)) {
      return codes::make_code_space(data, metric, list.front());
    }
    std::erase_if(list, [&](codes::CodeChoice c) { return c.filter == Filter::none && list.size() > 1; });
  }
  if (list.size() == 1) return codes::make_code_space(data, metric, list.front());

  const Surplus surplus(data, metric, execution);
  codes::CodeSpace space;
  codes::CodeSpace best;
  double least = std::numeric_limits<double>::infinity();
  for (const codes::CodeChoice choice : list) {
    // The sample behind mean and unit is read once for all choices that share them.
    if (space.dim > 0 && codes::same_space(metric, data.dtype, space.choice, choice)) {
      space.choice = choice;
    } else {
      space = codes::make_code_space(data, metric, choice);
    }
    const double cost = cost_of(choice, surplus.measure(space), data.dim);
    if (cost < least) {
      least = cost;
      best = space;
    }
  }
  return best;
}

}  // namespace kith::brute_force
