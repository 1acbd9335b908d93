// Which filter? The one whose scan plus exact evaluations of what it keeps costs least, measured on a sample.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "brute_force/cpu/costs.hpp"
#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/prepared.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "brute_force/directions.hpp"
#include "core/parallel.hpp"
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
    const auto m = static_cast<std::int64_t>(ids_.size());
    // The rank in the sample that stands for rank k in the data.
    rank_ = static_cast<std::int64_t>(
        std::max(1.0, typical_k * static_cast<double>(m) / static_cast<double>(data.rows)));
    queries_.resize(static_cast<std::size_t>(std::min(tuning::sample_queries_along, m)));
  }

  /// The share that searches of k rows may expect to evaluate: what a true bound keeps, for as many rows as
  /// become one of the k best on the way (k log(n / k) in random order) and those that come before any bound.
  double expect(const codes::CodeSpace& space, double k) {
    const auto n = static_cast<double>(data_.rows);
    const double of_a_neighbour = measure(space, tuning::sample_queries_along) *
                                  static_cast<double>(ids_.size()) / static_cast<double>(rank_);
    return std::min(1.0, of_a_neighbour * k * (std::log(std::max(1.0, n / k)) + 2) / n);
  }

  /// How many times what a true bound keeps the bound that fine codes make of it does.
  double of_fine_codes(const codes::CodeSpace& space, const codes::FineSpace& fine) {
    constexpr std::int64_t queries = tuning::sample_queries_along;
    const double with_true_bounds = measure(space, queries);
    const double with_their_own = measure(space, queries, &fine);
    return with_true_bounds > 0 ? with_their_own / with_true_bounds : 1;
  }

  /// Of about so many of the queries, evenly chosen: all of them, or fewer where a coarse figure will do.
  /// @param fine what bounds are made of in place of true distances; null: these
  double measure(const codes::CodeSpace& space, std::int64_t queries,
                 const codes::FineSpace* fine = nullptr) {
    const Execution quiet = execution_for(queries);
    const codes::Codes codes = codes::encode_rows(data_, space, quiet, &ids_);
    FilterQueries filter(codes, static_cast<std::int64_t>(queries_.size()));
    std::atomic<std::int64_t> kept = 0;
    std::atomic<std::int64_t> compared = 0;
    const std::int64_t step = std::max<std::int64_t>(1, std::ssize(queries_) / queries);
    for (const Query* query : every(step, quiet)) {
      if (filter.add(query->values.data()) == codes::RowKind::regular) {
        filter.set_bound(filter.size() - 1, fine == nullptr
                                                ? query->bound
                                                : widened(query->bound, *fine, filter.fine_query(*fine)));
      } else {
        kept += codes.rows;
        compared += codes.rows;
      }
    }
    const TileFunction kernel = filter_kernel(space.choice);
    parallel_for(quiet, filter.size() > 0 ? codes.tiles : 0, [&](std::int64_t t) {
      std::vector<std::uint64_t> masks(static_cast<std::size_t>(filter.size()));
      kernel(tile_of(codes, t), filter.view(), 0, filter.size(), masks.data());
      const std::uint64_t valid = codes.valid[static_cast<std::size_t>(t)];
      std::int64_t its = 0;
      for (const std::uint64_t mask : masks) its += std::popcount(mask & valid);
      kept += its;
      compared += filter.size() * std::popcount(valid);
    });
    const auto special = static_cast<std::int64_t>(codes.special.size()) * filter.size();
    return static_cast<double>(kept + special) /
           static_cast<double>(std::max<std::int64_t>(1, compared + special));
  }

 private:
  // What fine codes know of a row at most as far away as `real` says.
  double widened(double real, const codes::FineSpace& fine, const codes::FineQuery& query) const {
    if (!query.usable()) return std::numeric_limits<double>::infinity();
    const double most = query.most_distance(query.least_value(real), fine.usual_half_rest);
    return real_bound(most, metric_, data_.dim);
  }

  struct Query {
    bool evaluated = false;
    bool usable = false;  // it has neighbours enough
    std::vector<double> values;
    double bound = 0;
  };

  // Threads for comparing so many queries with the sample: waking others takes longer than little work.
  Execution execution_for(std::int64_t queries) const {
    constexpr std::int64_t little = 1 << 22;  // multiplications: about a millisecond
    Execution quiet;
    quiet.threads = queries * std::ssize(ids_) * data_.dim < little ? 1 : execution_.threads;
    quiet.cancelled = execution_.cancelled;
    return quiet;
  }

  // The usable ones among every `step`-th. Each is evaluated when it is needed first.
  std::vector<const Query*> every(std::int64_t step, const Execution& quiet) {
    const auto count = std::ssize(queries_);
    parallel_for(quiet, (count + step - 1) / step, [&](std::int64_t i) {
      Query& query = queries_[static_cast<std::size_t>(i * step)];
      if (!query.evaluated)
        query = query_of(ids_[static_cast<std::size_t>(i * step * std::ssize(ids_) / count)]);
    });
    std::vector<const Query*> usable;
    for (std::int64_t q = 0; q < count; q += step) {
      const Query& query = queries_[static_cast<std::size_t>(q)];
      if (query.usable) usable.push_back(&query);
    }
    return usable;
  }

  // A row of the sample, and the real value that its nearest others lie within.
  Query query_of(std::int64_t row) const {
    Query result;
    result.evaluated = true;
    result.values.resize(static_cast<std::size_t>(canonical_padded(data_.dim)));
    const auto query =
        prepare_canonical_query(data_.row(row), data_.dtype, data_.dim, metric_, result.values.data());
    std::vector<double> distances(ids_.size());
    canonical_function(data_.dtype, metric_)(canonical_rows(data_), query, ids_.data(), std::ssize(ids_),
                                             distances.data());
    std::vector<double> others;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] != row && !std::isnan(distances[i])) others.push_back(distances[i]);
    }
    result.usable = std::ssize(others) >= rank_;
    if (!result.usable) return result;
    const auto nth = others.begin() + (rank_ - 1);
    std::nth_element(others.begin(), nth, others.end());
    result.bound = real_bound(*nth, metric_, data_.dim);
    return result;
  }

  const DatasetView& data_;
  Metric metric_;
  const Execution& execution_;
  std::vector<std::int64_t> ids_;
  std::int64_t rank_ = 1;
  std::vector<Query> queries_;
};

// Codes along leading directions, where they promise to be cheaper.
class Reduction {
 public:
  Reduction(const DatasetView& data, const codes::CodeSpace& all_values, const CostModel& costs,
            std::int64_t expected_queries, const Execution& execution)
      : data_(data),
        costs_(costs),
        expected_queries_(expected_queries),
        execution_(execution),
        space_(codes::real_valued(data, all_values)) {}

  // Where the shape of the data rules it out nothing is looked at.
  static bool is_worth_a_look(const codes::CodeSpace& space, const DatasetView& data, const CostModel& costs,
                              std::int64_t expected_queries, const Execution& execution) {
    if (!may_have_directions(space) || data.dim < tuning::fewest_reduced_dim ||
        data.rows < data.dim * tuning::reduced_rows_a_dim) {
      return false;
    }
    const std::uint64_t bytes = codes::code_bytes(space, data.rows);
    if (execution.memory_limit > 0 &&
        codes::directions_bytes(data.dim, most(data.dim)) + bytes > execution.memory_limit) {
      return false;
    }
    if (expected_queries == 0) return true;
    // Half of the comparison may be saved; what is looked for may not be found.
    const double compared = costs.pair(space.choice, 0, data.dim, data.dim, data.rows, expected_queries);
    return saved(compared / 2, data.rows, expected_queries) >
           cost_to_find(costs, data.dim) + cost_to_encode(costs, data, codes::leading_step);
  }

  // The cheapest number of directions, if all values are not cheaper. `known` is made where nobody has yet.
  std::optional<codes::CodeSpace> choose(const codes::CodeSpace& all_values, std::optional<Surplus>& known) {
    const double spread = codes::spread_of(data_, space_);
    if (spread > static_cast<double>(data_.dim) * tuning::largest_spread) return std::nullopt;
    if (!known) known.emplace(data_, space_.metric, execution_);
    Surplus& surplus = *known;
    const auto cost_in = [&](const codes::CodeSpace& space) {
      return costs_.pair(space.choice, surplus.expect(space, tuning::typical_k_along), space.values(),
                         data_.dim, data_.rows, expected_queries_);
    };
    const double cost = cost_in(all_values);
    const auto enough =
        static_cast<std::int64_t>(tuning::directions_of_spread * spread) + codes::leading_step;
    const codes::PrincipalDirections found = codes::directions_of(
        data_, space_, std::min(most(data_.dim), enough / codes::leading_step * codes::leading_step),
        execution_);
    std::optional<codes::CodeSpace> best;
    double least = cost * tuning::worthwhile_along;
    double share = 0;
    int worse = 0;
    for (std::int64_t j = 0; j < found.count() && worse < 2; ++j) {
      share += found.shares[static_cast<std::size_t>(j)];
      if ((j + 1) % codes::leading_step != 0 || share < tuning::least_share) continue;
      auto space = along(found, j + 1);
      if (!space) break;
      const double reduced = cost_in(*space);
      if (reduced < least) {
        least = reduced;
        best = std::move(space);
      } else if (best) {
        ++worse;
      }
    }
    if (best && expected_queries_ > 0 &&
        saved(cost - least, data_.rows, expected_queries_) <
            cost_to_encode(costs_, data_, best->projection->directions)) {
      return std::nullopt;
    }
    return best;
  }

  std::optional<codes::CodeSpace> along(std::int64_t directions) {
    const std::int64_t count = std::min(directions, data_.dim);
    return along(codes::directions_of(data_, space_, count, execution_), count);
  }

 private:
  std::optional<codes::CodeSpace> along(const codes::PrincipalDirections& found, std::int64_t count) const {
    auto projection = std::make_shared<codes::Projection>(codes::make_projection(found, count));
    if (projection->directions == 0) return std::nullopt;
    codes::CodeSpace space = space_;
    space.projection = std::move(projection);
    return space;
  }

  static std::int64_t most(std::int64_t dim) {
    return std::min(dim / 2, codes::Projection::most_directions) / codes::leading_step * codes::leading_step;
  }
  static double saved(double a_pair, std::int64_t rows, std::int64_t queries) {
    return a_pair * static_cast<double>(rows) * static_cast<double>(queries);
  }
  static double cost_to_find(const CostModel& costs, std::int64_t dim) {
    const auto d = static_cast<double>(dim);
    return costs.directions * d * d * d + costs.look;
  }
  static double cost_to_encode(const CostModel& costs, const DatasetView& data, std::int64_t directions) {
    return costs.projection * static_cast<double>(data.rows) * static_cast<double>(data.dim) *
           static_cast<double>(directions);
  }

  const DatasetView& data_;
  const CostModel& costs_;
  std::int64_t expected_queries_;
  const Execution& execution_;
  codes::CodeSpace space_;
};

// As a test demands, or as it pays.
codes::CodeSpace along_directions_or_not(const DatasetView& data, const codes::CodeSpace& all_values,
                                         const BruteForceParameters& parameters, const CostModel& costs,
                                         std::int64_t expected_queries, const Execution& execution,
                                         std::optional<Surplus>& known) {
  if (!parameters.directions.value_or(true)) return all_values;
  const auto reduction = [&] { return Reduction(data, all_values, costs, expected_queries, execution); };
  if (const auto forced = forced_directions()) {
    if (*forced == 0 || !may_have_directions(all_values)) return all_values;
    return reduction().along(*forced).value_or(all_values);
  }
  if (!Reduction::is_worth_a_look(all_values, data, costs, expected_queries, execution)) return all_values;
  return reduction().choose(all_values, known).value_or(all_values);
}

}  // namespace

codes::FineSpace choose_fine_codes(const DatasetView& data, const codes::CodeSpace& space,
                                   std::int64_t expected_queries, std::uint64_t held,
                                   const Execution& execution) {
  if (space.projection == nullptr || space.choice.filter != Filter::int8 || data.rows == 0) return {};
  const bool forced = forced_directions().has_value();
  if (!forced && expected_queries > 0 && expected_queries < tuning::queries_for_other_codes) return {};
  const CostModel costs = cost_model(execution);
  const double exact = costs.exact_value * static_cast<double>(data.dim) + costs.exact_row;
  if (!forced && exact < tuning::least_saved_by_fine_codes * costs.exact_row) return {};
  const codes::FineSpace fine = codes::fine_space_of(data, space);
  if (!fine) return {};
  const std::uint64_t bytes =
      held + codes::code_bytes(space, data.rows) + space.projection->bytes() +
      static_cast<std::uint64_t>(data.rows) * static_cast<std::uint64_t>(fine.row_bytes());
  if (execution.memory_limit > 0 && bytes > execution.memory_limit) return {};
  if (forced) return fine;
  Surplus surplus(data, space.metric, execution);
  return surplus.of_fine_codes(space, fine) <= tuning::most_kept_by_fine_codes ? fine : codes::FineSpace{};
}

codes::CodeSpace choose_codes(const DatasetView& data, const BruteForceParameters& parameters,
                              std::int64_t expected_queries, const Execution& execution) {
  const Metric metric = parameters.metric;
  if (parameters.filter == Filter::automatic && expected_queries > 0 &&
      expected_queries <= tuning::queries_without_codes) {
    return codes::make_code_space(data, metric, {Filter::none, {}});
  }
  const CostModel costs = cost_model(execution);
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
                        "filter auto or none (build a saved index again with it)",
                        name(parameters.filter), bytes(smallest), execution.memory_limit));
      }
    }
  } else {
    if (execution.memory_limit > 0) {
      // No codes at all is always possible.
      std::erase_if(list, [&](codes::CodeChoice c) {
        return c.filter != Filter::none && bytes(c) > execution.memory_limit;
      });
    }
    // Bytes that are their own codes lose nothing and are made sooner, and in the lowest dimensions nothing
    // beats four-byte differences, which are, too.
    const codes::Form first = list.front().form;
    const bool few_queries = expected_queries > 0 && expected_queries < tuning::queries_for_other_codes;
    if (list.front().filter != Filter::none &&
        ((first == codes::Form::integer && (costs.int8 <= costs.fp32 || few_queries)) ||
         (first == codes::Form::difference && (data.dim <= costs.difference_dim || few_queries)))) {
      list.resize(1);
    }
    std::erase_if(list, [&](codes::CodeChoice c) { return c.filter == Filter::none && list.size() > 1; });
  }
  std::optional<Surplus> surplus;
  if (list.size() == 1) {
    const codes::CodeSpace only = codes::make_code_space(data, metric, list.front());
    return along_directions_or_not(data, only, parameters, costs, expected_queries, execution, surplus);
  }

  surplus.emplace(data, metric, execution);
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
    const double cost = costs.pair(choice, surplus->measure(space, tuning::sample_queries), data.dim,
                                   data.dim, data.rows, expected_queries);
    if (best.dim == 0 || cost < least) {
      least = cost;
      best = space;
    }
  }
  return along_directions_or_not(data, best, parameters, costs, expected_queries, execution, surplus);
}

}  // namespace kith::brute_force
