// Recall of a graph by queries that are none of its nodes. Rows would be poor queries once they are in it:
// each is a junction of the graph, which was built around it. So a sample of rows waits outside, is searched
// for, and then inserted.
#include "vamana/calibrate.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/beside.hpp"
#include "core/parallel.hpp"
#include "cuda/device_choice.hpp"
#include "kith/brute_force.hpp"
#include "select_k/allowed_rows.hpp"
#include "vamana/answer.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {
namespace {

// Some flags say which nodes are held out: those whose rows are, all of them.
std::vector<std::uint8_t> nodes_held_out(const Nodes& nodes, const recall::HeldOut& held) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(nodes.count), 0);
  if (held.rows.empty()) return out;
  if (nodes.plain()) {
    for (const std::int64_t row : held.rows) out[static_cast<std::size_t>(row)] = 1;
    return out;
  }
  for (std::int64_t i = 0; i < nodes.count; ++i) {
    bool all = true;
    for (std::int64_t j = 0; all && j < nodes.rows_of(i); ++j) all = !held.others.contains(nodes.row(i, j));
    out[static_cast<std::size_t>(i)] = all ? 1 : 0;
  }
  return out;
}

// Rows without a NaN, by a flag each.
std::vector<std::uint8_t> rows_with_nodes(const Nodes& nodes, std::int64_t rows) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(rows), nodes.plain() ? 1 : 0);
  for (const std::uint32_t row : nodes.rows) out[row] = 1;
  return out;
}

// k of the k + 1 neighbours of each query: without row own[q], or without the last.
Neighbors without_itself(const Neighbors& found, const std::vector<std::int64_t>& own) {
  Neighbors out;
  out.queries = found.queries;
  out.k = found.k - 1;
  out.statistics = found.statistics;
  std::vector<double> distances;
  for (std::int64_t q = 0; q < found.queries; ++q) {
    std::int64_t taken = 0;
    for (std::int64_t j = 0; j < found.k && taken < out.k; ++j) {
      const std::int64_t row = found.indices_of(q)[static_cast<std::size_t>(j)];
      if (row == own[static_cast<std::size_t>(q)]) continue;
      out.indices.push_back(row);
      distances.push_back(found.distance(q, j));
      ++taken;
    }
  }
  out.distances = std::move(distances);
  return out;
}

// The node that a query's walk must not enter: its row's, unless others share it. Those are neighbours.
std::vector<std::uint32_t> own_nodes(const Nodes& nodes, const std::vector<std::int64_t>& rows) {
  std::vector<std::uint32_t> own(rows.size(), no_node);
  if (nodes.plain()) {
    std::ranges::transform(rows, own.begin(),
                           [](std::int64_t row) { return static_cast<std::uint32_t>(row); });
    return own;
  }
  for (std::int64_t i = 0; i < nodes.count; ++i) {
    if (nodes.rows_of(i) != 1) continue;
    const auto found = std::ranges::lower_bound(rows, nodes.row(i, 0));
    if (found == rows.end() || *found != nodes.row(i, 0)) continue;
    own[static_cast<std::size_t>(found - rows.begin())] = static_cast<std::uint32_t>(i);
  }
  return own;
}

Execution on_cpu(const Execution& execution) {
  Execution out = execution;
  out.devices = {Device{}};
  out.device_memory_limit = 0;
  return out;
}

Neighbors searched(const Built& built, const DatasetView& rows, const DatasetView& queries,
                   const SearchPlan& plan, const Execution& execution) {
  return answered(rows, queries.rows, plan.k, execution, [&](const NeighborsView& out) {
    std::vector<std::int64_t> none;
    return backend_for(execution).search_into(built, rows, queries, plan, out, execution, none);
  });
}

// Some of so many queries, spread over all: their walks on the CPU tell how many distances a walk takes.
std::vector<std::int64_t> counted_queries(std::int64_t queries) {
  constexpr std::int64_t most = 32;
  const std::int64_t count = std::min(queries, most);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(queries * i / count);
  return numbers;
}

// Counts the distances that a list's walks take, once for each list: k has no say.
class Distances {
 public:
  // @param search walks for the counted queries
  Distances(std::int64_t queries, std::int64_t counted,
            std::function<Neighbors(std::int64_t list_size, std::int64_t k)> search)
      : queries_(queries), counted_(std::max<std::int64_t>(1, counted)), search_(std::move(search)) {}

  bool knows(std::int64_t list_size) const { return list_ == list_size; }
  std::int64_t of(std::int64_t list_size, std::int64_t k) {
    if (std::exchange(list_, list_size) != list_size) {
      distances_ = search_(list_size, k).statistics.distances * queries_ / counted_;
    }
    return distances_;
  }

 private:
  std::int64_t queries_, counted_;
  std::function<Neighbors(std::int64_t, std::int64_t)> search_;
  std::int64_t list_ = 0, distances_ = 0;
};

// Of a walk that takes as long as any that is measured.
double most_distances(const Contents& contents) {
  const auto rows = static_cast<double>(contents.dataset.rows());
  return tuning::most_exact_searches * rows *
         tuning::cost_of_row(static_cast<double>(contents.dataset.dim())) /
         tuning::cost_of_estimate(static_cast<double>(contents.built.code_bytes()));
}

// How much of a list has to be evaluated: the codes' order may be as good as the rows', or far from it. Where
// estimates are the distances, or have a bound, a search sees by them how far to go, and asks for no factor.
std::int64_t choose_rerank_factor(
    const std::function<std::vector<Neighbors>(std::span<const SearchPlan>)>& search, const Built& built) {
  if (built.walked != nullptr ? built.walked->coding->bounded() : built.space.raw_integers()) return 0;
  SearchPlan plan;
  plan.k = tuning::rerank_k;
  plan.list_size = plan.longest_list = std::min(built.nodes.count, tuning::rerank_list);
  std::vector<SearchPlan> plans = {plan};  // the whole list first
  for (const std::int64_t factor : tuning::rerank_factors) {
    plan.rerank = tuning::rerank_depth(factor, plan.k);
    if (plan.rerank < plan.list_size) plans.push_back(plan);
  }
  if (plans.size() == 1) return 0;
  const std::vector<Neighbors> found = search(plans);
  const std::vector<std::int64_t>& all = found.front().indices;
  for (std::size_t i = 1; i < found.size(); ++i) {
    std::int64_t missed = 0;
    for (std::size_t j = 0; j < all.size(); ++j) missed += found[i].indices[j] != all[j] ? 1 : 0;
    if (static_cast<double>(missed) <= tuning::rerank_loss * static_cast<double>(all.size())) {
      return tuning::rerank_factors[i - 1];
    }
  }
  return 0;
}

// Of two factors; 0 is the whole list.
std::int64_t deeper(std::int64_t a, std::int64_t b) {
  return a == 0 || b == 0 ? 0 : std::max(a, b);
}

// A point of a curve.
SearchPlan plan_of(std::int64_t list_size, std::int64_t k) {
  SearchPlan plan;
  plan.k = k;
  plan.list_size = plan.longest_list = list_size;
  return plan;
}

// Searches for a curve, for all k at once. Where a backend has one walk for many lists, it takes all that are
// always measured together, and then as many as end with the next power of two: the longest costs as much as
// all shorter ones.
class GrowingLists {
 public:
  using Plan = std::function<SearchPlan(std::int64_t list_size, std::int64_t k)>;

  GrowingLists(const Backend& backend, const Built& built, const DatasetView& rows,
               const DatasetView& queries, Plan plan, const Execution& execution)
      : backend_(backend),
        built_(built),
        rows_(rows),
        queries_(queries),
        plan_(std::move(plan)),
        execution_(execution) {}

  Neighbors search(std::int64_t list_size, std::int64_t k) {
    const std::pair asked(list_size, k);
    if (!found_.contains(asked)) search_from(list_size);
    return std::move(found_.extract(asked).mapped());
  }

 private:
  void search_from(std::int64_t list_size) {
    const auto last =
        backend_.one_walk_for_all
            ? std::max(recall::longest_always,
                       static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(list_size))))
            : list_size;
    std::vector<std::pair<std::int64_t, std::int64_t>> asked;
    std::vector<SearchPlan> plans;
    for (const std::int64_t size : recall::list_sizes(built_.nodes.count)) {
      if (size < list_size || size > last) continue;
      for (const std::int64_t k : recall::usual_ks) {
        if (k > size) continue;
        asked.emplace_back(size, k);
        plans.push_back(plan_(size, k));
      }
    }
    std::vector<Neighbors> answers = backend_.search_by_plans(built_, rows_, queries_, plans, execution_);
    for (std::size_t i = 0; i < asked.size(); ++i) found_[asked[i]] = std::move(answers[i]);
  }

  const Backend& backend_;
  const Built& built_;
  const DatasetView& rows_;
  const DatasetView& queries_;
  Plan plan_;
  const Execution& execution_;
  std::map<std::pair<std::int64_t, std::int64_t>, Neighbors> found_;
};

}  // namespace

recall::Measured measure(const Contents& contents, const DatasetView& queries, const Neighbors& exact,
                         std::span<const std::int64_t> ks, const Execution& execution) {
  const Execution quiet = without_progress(on_cpu(execution));
  return recall::measure(
      exact, ks, contents.built.nodes.count,
      [&](std::int64_t list_size, std::int64_t k) {
        return searched(contents.built, contents.dataset, queries, plan_of(list_size, k), quiet);
      },
      most_distances(contents));
}

RecallCurve build_and_measure(Contents& contents, const Graph& old, std::int64_t first_row,
                              const Backend& backend, const Execution& callers) {
  const Execution execution = asked_by_one(callers);  // while the graph grows, rows are on their way
  const DatasetView& rows = contents.dataset.view();
  Built& built = contents.built;
  const std::vector<std::uint8_t> usable = rows_with_nodes(built.nodes, rows.rows);
  const recall::HeldOut held = recall::hold_out(
      rows.rows, first_row, [&](std::int64_t row) { return usable[static_cast<std::size_t>(row)] != 0; });
  const std::vector<std::uint8_t> waits = nodes_held_out(built.nodes, held);
  std::vector<std::uint32_t> first, last;
  first.reserve(static_cast<std::size_t>(built.nodes.count - old.nodes));
  for (std::int64_t i = old.nodes; i < built.nodes.count; ++i) {
    (waits[static_cast<std::size_t>(i)] != 0 ? last : first).push_back(static_cast<std::uint32_t>(i));
  }
  RecallCurve curve;
  const Execution quiet = without_progress(execution);
  std::future<std::optional<Dataset>> on_the_way;
  if (!last.empty()) {
    on_the_way = beside([&] { return backend.place(built, rows, contents.parameters, quiet); });
  }
  const auto look = [&](Graph graph) {
    const std::optional<Dataset> placed = on_the_way.get();  // which looks at what was built
    built.set_graph(std::move(graph));
    const Dataset queries = pick_rows(rows, held.rows);
    // By walks where the graph is built, if there is room: what is found is the same everywhere. Not so how
    // many distances that takes, and an index is to be the same bits from every machine.
    const Execution cpu = on_cpu(quiet);
    const DatasetView& there = placed ? placed->view() : rows;
    const Neighbors exact =
        knn(there, queries, recall::usual_ks.back(), {contents.parameters.metric, Filter::automatic}, quiet,
            {.allowed = &held.others});
    const Dataset counted = pick_rows(queries, counted_queries(queries.rows()));
    const auto among_others = [&](const DatasetView& which, const DatasetView& asked, SearchPlan plan,
                                  const Execution& where) {
      plan.allowed = &held.others;
      return searched(built, which, asked, plan, where);
    };
    // Where each row has a node of its own, no walk comes to a row that waits, and none need be ruled out.
    const bool apart = built.nodes.plain();
    const Execution& where = placed ? quiet : cpu;
    const auto search = [&](const SearchPlan& plan) {
      return apart ? searched(built, there, queries, plan, where) : among_others(there, queries, plan, where);
    };
    built.rerank_factor = choose_rerank_factor(
        [&](std::span<const SearchPlan> plans) {
          if (apart) return backend_for(where).search_by_plans(built, there, queries, plans, where);
          std::vector<Neighbors> found;
          for (const SearchPlan& plan : plans) found.push_back(search(plan));
          return found;
        },
        built);
    GrowingLists lists(backend_for(where), built, there, queries, plan_of, where);
    Distances distances(queries.rows(), counted.rows(), [&](std::int64_t list_size, std::int64_t k) {
      return among_others(rows, counted, plan_of(list_size, k), cpu);
    });
    const bool on_device = cuda::kind_of_devices(where) == Device::Kind::cuda;
    const auto search_counted = [&](std::int64_t list_size, std::int64_t k) {
      std::future<std::int64_t> count;
      if (on_device && !distances.knows(list_size)) {  // the CPU counts while a device searches
        count = beside([&] { return distances.of(list_size, k); });
      }
      Neighbors found = apart ? lists.search(list_size, k) : search(plan_of(list_size, k));
      found.statistics.distances = count.valid() ? count.get() : distances.of(list_size, k);
      return found;
    };
    curve =
        recall::measure(exact, recall::usual_ks, built.nodes.count, search_counted, most_distances(contents))
            .curve;
    Graph seen = std::move(built.graph);
    built.set_graph({});
    return seen;
  };
  built.set_graph(
      backend.grow(old, built.nodes, built.space, contents.parameters, first, last, look, execution));
  if (built.nodes.count == 0) return curve;
  if (last.empty()) return measure_by_own_rows(contents, rows.rows, std::nullopt, quiet);
  if (first_row == 0) return curve;
  const RecallCurve before = measure_by_own_rows(contents, first_row, built.rerank_factor, quiet);
  if (!before.points.empty()) {
    const double added = static_cast<double>(rows.rows - first_row) / static_cast<double>(rows.rows);
    return recall::pooled(curve, added, before);
  }
  // Few old rows: a sample of all.
  RecallCurve all = measure_by_own_rows(contents, rows.rows, built.rerank_factor, quiet);
  return all.points.empty() ? curve : all;
}

RecallCurve measure_by_own_rows(Contents& contents, std::int64_t first_rows,
                                std::optional<std::int64_t> rerank_factor, const Execution& execution) {
  const DatasetView& rows = contents.dataset.view();
  const std::vector<std::int64_t> sample = recall::own_queries(first_rows);
  if (sample.empty()) return {};
  const Execution quiet = without_progress(execution);
  const Execution cpu = on_cpu(quiet);
  const Dataset queries = pick_rows(rows, sample);
  const std::vector<std::uint32_t> own = own_nodes(contents.built.nodes, sample);
  const Neighbors exact = without_itself(
      knn(rows, queries, recall::usual_ks.back() + 1, {contents.parameters.metric, Filter::automatic}, quiet),
      sample);
  contents.built.rerank_factor = choose_rerank_factor(
      [&](std::span<const SearchPlan> plans) {
        std::vector<SearchPlan> without(plans.begin(), plans.end());
        for (SearchPlan& plan : without) plan.left_out = own;
        return backend_for(cpu).search_by_plans(contents.built, rows, queries, without, cpu);
      },
      contents.built);
  if (rerank_factor) contents.built.rerank_factor = deeper(*rerank_factor, contents.built.rerank_factor);
  const auto plan_without = [](const std::vector<std::uint32_t>& left_out, std::int64_t list_size,
                               std::int64_t k) {
    SearchPlan plan = plan_of(list_size, k + 1);
    plan.left_out = left_out;
    return plan;
  };
  GrowingLists lists(
      backend_for(cpu), contents.built, rows, queries,
      [&](std::int64_t list_size, std::int64_t k) { return plan_without(own, list_size, k); }, cpu);
  const std::vector<std::int64_t> numbers = counted_queries(queries.rows());
  const Dataset counted = pick_rows(queries, numbers);
  std::vector<std::uint32_t> counted_own;
  for (const std::int64_t number : numbers) counted_own.push_back(own[static_cast<std::size_t>(number)]);
  Distances distances(queries.rows(), counted.rows(), [&](std::int64_t list_size, std::int64_t k) {
    return searched(contents.built, rows, counted, plan_without(counted_own, list_size, k), cpu);
  });
  const auto search = [&](std::int64_t list_size, std::int64_t k) {
    Neighbors found = without_itself(lists.search(list_size, k), sample);
    found.statistics.distances = distances.of(list_size, k);
    return found;
  };
  return recall::measure(exact, recall::usual_ks, contents.built.nodes.count, search,
                         most_distances(contents))
      .curve;
}

}  // namespace kith::vamana
