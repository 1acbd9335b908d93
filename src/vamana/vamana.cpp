// Vamana: argument checks, dispatch to a backend, calibration.
#include "kith/vamana.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/int128.hpp"
#include "core/large_vector.hpp"
#include "core/search_checks.hpp"
#include "cuda/device_choice.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "recall/calibrate.hpp"
#include "select_k/allowed_rows.hpp"
#include "vamana/backend.hpp"
#include "vamana/checks.hpp"
#include "vamana/file.hpp"
#include "vamana/parts.hpp"
#include "vamana/tuning.hpp"

namespace kith {

struct Vamana::State : vamana::Contents {};

namespace {

using vamana::Backend;
using vamana::Built;
using vamana::Contents;
using vamana::SearchPlan;
namespace tuning = vamana::tuning;

std::uint64_t answer_bytes(const DatasetView& rows) {
  return sizeof(std::int64_t) + size_of(distance_dtype(rows.dtype));
}

// An answer in memory of its own.
template <class Search>
Neighbors answered(const DatasetView& rows, std::int64_t queries, std::int64_t k, const Execution& execution,
                   const Search& search) {
  Neighbors out;
  out.queries = queries;
  out.k = k;
  NeighborsView view{.queries = queries, .k = k};
  const std::int64_t cells = queries * k;
  out.indices = large_vector<std::int64_t>(cells, execution, -1);
  view.indices = out.indices.data();
  const auto fill = [&]<class R>(std::vector<R> distances) {
    view.distances = distances.data();
    out.statistics = search(view);
    out.distances = std::move(distances);
  };
  if (rows.dtype == Dtype::f64) {
    fill(large_vector<double>(cells, execution));
  } else {
    fill(large_vector<float>(cells, execution));
  }
  return out;
}

// The node of each row of a sample, no_node where other rows share it: those are neighbours.
std::vector<std::uint32_t> own_nodes(const vamana::Nodes& nodes, const std::vector<std::int64_t>& sample) {
  std::vector<std::uint32_t> own(sample.size(), vamana::no_node);
  if (nodes.plain()) {
    std::transform(sample.begin(), sample.end(), own.begin(),
                   [](std::int64_t row) { return static_cast<std::uint32_t>(row); });
    return own;
  }
  for (std::int64_t i = 0; i < nodes.count; ++i) {
    if (nodes.rows_of(i) != 1) continue;
    const auto found = std::lower_bound(sample.begin(), sample.end(), nodes.row(i, 0));
    if (found == sample.end() || *found != nodes.row(i, 0)) continue;
    own[static_cast<std::size_t>(found - sample.begin())] = static_cast<std::uint32_t>(i);
  }
  return own;
}

ScalarShape shape_of(const VamanaParameters& parameters, std::int64_t dim) {
  return {.bits = static_cast<int>(parameters.code_bits),
          .dim = parameters.code_dim >= dim ? -1 : parameters.code_dim};
}

// How much of a list has to be evaluated: the codes' order may be as good as the rows', or far from it.
std::int64_t choose_rerank_factor(const std::function<Neighbors(const SearchPlan&)>& search,
                                  std::int64_t nodes) {
  SearchPlan plan;
  plan.k = tuning::rerank_k;
  plan.list_size = std::min(nodes, tuning::rerank_list);
  const Neighbors all = search(plan);
  for (const std::int64_t factor : tuning::rerank_factors) {
    plan.rerank = tuning::rerank_depth(factor, plan.k);
    if (plan.rerank >= plan.list_size) break;
    const Neighbors some = search(plan);
    std::int64_t missed = 0;
    for (std::size_t i = 0; i < all.indices.size(); ++i) missed += some.indices[i] != all.indices[i] ? 1 : 0;
    if (static_cast<double>(missed) <= tuning::rerank_loss * static_cast<double>(all.indices.size())) {
      return factor;
    }
  }
  return 0;
}

// Rows as queries that do not find themselves. Their walks do not enter their own nodes either: a query that
// is not a row has no such signpost.
RecallCurve calibrate(Contents& contents, const Backend& backend, const Execution& asked) {
  Execution execution = asked;
  execution.progress = nullptr;  // many short searches: none of their reports is one of the build's
  const DatasetView& rows = contents.dataset.view();
  const recall::Sample sample = recall::take_sample(rows, contents.parameters.metric, execution);
  const std::vector<std::uint32_t> own = own_nodes(contents.built.nodes, sample.rows);
  const auto search = [&](SearchPlan plan) {
    plan.left_out = own;
    return answered(rows, sample.size(), plan.k, execution, [&](const NeighborsView& out) {
      std::vector<std::int64_t> none;
      return backend.search_into(contents.built, rows, sample.queries, plan, out, execution, none);
    });
  };
  if (sample.k > 0) contents.built.rerank_factor = choose_rerank_factor(search, contents.built.nodes.count);
  return recall::measure(sample, contents.built.nodes.count, [&](std::int64_t list_size, std::int64_t k) {
    SearchPlan plan;
    plan.k = k;
    plan.list_size = list_size;
    return search(plan);
  });
}

void check_build_memory(const DatasetView& rows, const ScalarSpace& space, const VamanaParameters& parameters,
                        const Backend& backend, const Execution& execution) {
  const std::uint64_t need =
      std::max(scalar_space_bytes(rows.dim, shape_of(parameters, rows.dim)),
               vamana::node_bytes(space, rows.rows) +
                   backend.build_bytes(rows.rows, parameters, resolve_threads(execution)));
  if (execution.memory_limit > 0 && need > execution.memory_limit) {
    throw OutOfMemory(fmt::format(
        "the index vamana of {} rows takes about {} bytes while it is built, the limit is {}; raise "
        "the limit, or use fewer rows or a smaller max_degree",
        rows.rows, need, execution.memory_limit));
  }
}

// A search by the exact engine, over the rows themselves.
SearchStatistics exactly(const Contents& contents, const DatasetView& queries, const NeighborsView& out,
                         const RowSet* allowed, const Execution& execution) {
  SearchStatistics statistics =
      knn_into(contents.dataset.view(), queries, out, {contents.parameters.metric, Filter::automatic},
               execution, {.allowed = allowed});
  statistics.index = Vamana::index_type.name;
  return statistics;
}

// How far walks go for allowed rows; false where the exact engine has them sooner. Costs in nanoseconds a
// query, of which only the ratios matter: estimates of gathered codes, comparisons with rows side by side,
// and bringing them there for a thousand queries. How many queries there are has no say: an answer must not
// depend on it.
bool plan_for_allowed(const Contents& contents, const RowSet& allowed, SearchPlan& plan) {
  const auto dim = static_cast<double>(contents.dataset.dim());
  const auto some = static_cast<double>(allowed.count());
  const double list = std::ceil(static_cast<double>(plan.list_size) *
                                static_cast<double>(contents.dataset.rows()) / std::max(1.0, some));
  const auto nodes = static_cast<double>(contents.built.nodes.count);
  const double degree = static_cast<double>(contents.built.graph.max_degree) / 2;
  const double walked = std::min(list * degree, nodes) * (5 + 0.1 * dim);
  const double compared = some * (0.5 + 0.01 * dim + (60 + 4 * dim) / 1000);
  if (allowed.count() == 0 || compared < walked) return false;
  plan.allowed = &allowed;
  plan.first_list = static_cast<std::int64_t>(std::min(nodes, list));
  plan.longest_list = static_cast<std::int64_t>(std::min(nodes, 4 * list));
  return true;
}

// The answers of some of the queries, by the exact engine.
void answer_exactly(const Contents& contents, const std::vector<std::int64_t>& numbers,
                    const DatasetView& queries, const NeighborsView& out, const RowSet& allowed,
                    const Execution& asked, SearchStatistics& statistics) {
  Execution execution = asked;
  execution.progress = nullptr;  // the walks have reported every query
  const auto count = static_cast<std::int64_t>(numbers.size());
  const Dataset picked = pick_rows(queries, numbers);
  const Neighbors found =
      answered(contents.dataset.view(), count, out.k, execution,
               [&](const NeighborsView& to) { return exactly(contents, picked, to, &allowed, execution); });
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t from = static_cast<std::int64_t>(i) * out.k;
    std::copy_n(found.indices.begin() + from, out.k, out.indices + numbers[i] * out.k);
    std::visit(
        [&]<class R>(const std::vector<R>& distances) {
          std::copy_n(distances.begin() + from, out.k, static_cast<R*>(out.distances) + numbers[i] * out.k);
        },
        found.distances);
  }
  statistics.candidates += found.statistics.candidates;
  statistics.fallbacks = count;
  statistics.certified = count == queries.rows;
}

void check_search(const Contents& contents, const DatasetView& queries, std::int64_t k,
                  const Execution& execution) {
  const DatasetView& rows = contents.dataset.view();
  validate(queries, "queries");
  check_k(k);
  check_queries_fit(queries, rows.dim, rows.dtype, Vamana::index_type.name);
  (void)vamana::backend_for(execution);
  if (queries.space == MemorySpace::cuda) {
    throw InvalidArgument(
        fmt::format("the queries lie in the memory of cuda:{}, the index vamana is searched on the CPU; copy "
                    "them to the host",
                    queries.device));
  }
  check_answer_memory(static_cast<int128>(queries.rows) * k, answer_bytes(rows),
                      fmt::format("{} queries with k = {}", queries.rows, k), "the answer", execution);
}

SearchStatistics search_checked(const Contents& contents, const DatasetView& queries,
                                const NeighborsView& out, const Execution& execution,
                                const SearchOptions& options) {
  const DatasetView& rows = contents.dataset.view();
  const Backend& backend = vamana::backend_for(execution);
  if (options.allowed != nullptr) check_allowed(*options.allowed, rows.rows, "index vamana");
  auto decision =
      vamana::decide(options, out.k, options.allowed == nullptr ? rows.rows : options.allowed->count(),
                     contents.built.nodes.count, contents.curve);
  if (!decision ||
      (options.allowed != nullptr && !plan_for_allowed(contents, *options.allowed, decision->plan))) {
    return exactly(contents, queries, out, options.allowed, execution);
  }
  const std::uint64_t need =
      static_cast<std::uint64_t>(queries.rows) * static_cast<std::uint64_t>(out.k) * answer_bytes(rows) +
      backend.search_bytes(contents.built, decision->plan, resolve_threads(execution));
  // Working space of some MiB is anyone's.
  constexpr std::uint64_t working_space = std::uint64_t{16} << 20U;
  if (execution.memory_limit > 0 && need > execution.memory_limit + working_space) {
    throw OutOfMemory(fmt::format(
        "a search of {} queries with a list_size of {} takes about {} bytes, the limit is {}; raise "
        "the limit, or use a shorter list or fewer threads",
        queries.rows, decision->plan.list_size, need, execution.memory_limit));
  }
  std::vector<std::int64_t> unanswered;
  SearchStatistics statistics =
      backend.search_into(contents.built, rows, queries, decision->plan, out, execution, unanswered);
  statistics.certified = false;
  if (options.allowed != nullptr && !unanswered.empty()) {
    answer_exactly(contents, unanswered, queries, out, *options.allowed, execution, statistics);
  }
  statistics.recall = decision->recall;
  return statistics;
}

}  // namespace

Vamana Vamana::build(const DatasetView& dataset, const VamanaParameters& parameters,
                     const Execution& execution) {
  return build(Dataset::adopt(dataset, nullptr), parameters, execution);
}

Vamana Vamana::build(const Dataset& dataset, const VamanaParameters& parameters, const Execution& execution) {
  const DatasetView& rows = dataset.view();
  validate(rows, "dataset");
  const Backend& backend = vamana::backend_for(execution);
  vamana::check_parameters(parameters, rows.dim);
  vamana::check_rows(rows);
  auto state = std::make_shared<State>();
  state->dataset = dataset;
  state->parameters = parameters;
  Built& built = state->built;
  or_out_of_memory([&] { return fmt::format("the index vamana of {} rows; use fewer rows", rows.rows); },
                   [&] {
                     built.space.dtype = rows.dtype;
                     built.space.metric = parameters.metric;
                     built.space.dim = rows.dim;
                     built.space.bits = static_cast<int>(parameters.code_bits);
                     check_build_memory(rows, built.space, parameters, backend, execution);
                     built.space = make_scalar_space(rows, parameters.metric, execution,
                                                     shape_of(parameters, rows.dim));
                     built.nodes = vamana::make_nodes(rows, built.space, execution);
                     built.graph = backend.build(built.nodes, built.space, parameters, execution);
                     state->curve = calibrate(*state, backend, execution);
                     return true;
                   });
  return Vamana(std::move(state));
}

Neighbors Vamana::search(const DatasetView& queries, std::int64_t k, const Execution& execution,
                         const SearchOptions& options) const {
  check_search(*state_, queries, k, execution);
  return or_out_of_memory(
      [&] {
        return fmt::format("{} queries with k = {}; ask for fewer neighbours, or search the queries in parts",
                           queries.rows, k);
      },
      [&] {
        return answered(state_->dataset.view(), queries.rows, k, execution, [&](const NeighborsView& out) {
          return search_checked(*state_, queries, out, execution, options);
        });
      });
}

SearchStatistics Vamana::search_into(const DatasetView& queries, const NeighborsView& out,
                                     const Execution& execution, const SearchOptions& options) const {
  check_search(*state_, queries, out.k, execution);
  check_output(queries.rows, out);
  if (out.space == MemorySpace::cuda) {
    throw InvalidArgument("a search on the CPU cannot leave its answer in GPU memory; give host memory");
  }
  return or_out_of_memory(
      [&] {
        return fmt::format("{} queries with k = {}; ask for fewer neighbours, or search the queries in parts",
                           queries.rows, out.k);
      },
      [&] { return search_checked(*state_, queries, out, execution, options); });
}

void Vamana::save(const std::filesystem::path& path, const Execution& execution) const {
  vamana::save(*state_, path, execution);
}

Vamana Vamana::load(const std::filesystem::path& path, const Execution& execution) {
  (void)vamana::backend_for(execution);
  auto state = std::make_shared<State>();
  static_cast<Contents&>(*state) = vamana::load(path, execution);
  return Vamana(std::move(state));
}

std::int64_t Vamana::rows() const noexcept {
  return state_->dataset.rows();
}
std::int64_t Vamana::dim() const noexcept {
  return state_->dataset.dim();
}
Dtype Vamana::dtype() const noexcept {
  return state_->dataset.dtype();
}
Metric Vamana::metric() const noexcept {
  return state_->parameters.metric;
}
const VamanaParameters& Vamana::parameters() const noexcept {
  return state_->parameters;
}
std::int64_t Vamana::code_dim() const noexcept {
  return state_->built.space.code_dim();
}
std::uint64_t Vamana::memory_bytes() const noexcept {
  return state_->built.nodes.bytes() + state_->built.graph.bytes();
}
const RecallCurve& Vamana::recall_curve() const noexcept {
  return state_->curve;
}
std::uint64_t Vamana::graph_hash() const noexcept {
  return vamana::hash(state_->built.graph);
}

namespace vamana {

const Contents& Parts::of(const Vamana& index) {
  return *index.state_;
}

Vamana Parts::assemble(const Dataset& rows, Graph graph, const VamanaParameters& parameters,
                       std::vector<std::byte> layers, const Execution& execution) {
  const Backend& backend = backend_for(execution);
  check_parameters(parameters, rows.dim());
  check_rows(rows);
  auto state = std::make_shared<Vamana::State>();
  state->dataset = rows;
  state->parameters = parameters;
  state->plain = true;
  state->layers = std::move(layers);
  Built& built = state->built;
  built.graph = std::move(graph);
  return or_out_of_memory(
      [&] { return fmt::format("the index vamana of {} rows", rows.rows()); },
      [&] {
        const ScalarShape shape = shape_of(parameters, rows.dim());
        built.space.dtype = rows.dtype();
        built.space.metric = parameters.metric;
        built.space.dim = rows.dim();
        built.space.bits = static_cast<int>(parameters.code_bits);
        const std::uint64_t need = std::max(scalar_space_bytes(rows.dim(), shape),
                                            node_bytes(built.space, rows.rows()) + built.graph.bytes());
        if (execution.memory_limit > 0 && need > execution.memory_limit) {
          throw OutOfMemory(fmt::format(
              "the imported graph of {} rows takes about {} bytes, the limit is {}; raise the limit",
              rows.rows(), need, execution.memory_limit));
        }
        built.space = make_scalar_space(rows, parameters.metric, execution, shape);
        built.nodes = make_plain_nodes(rows, built.space, execution);
        state->curve = calibrate(*state, backend, execution);
        return Vamana(std::move(state));
      });
}

const Backend& backend_for(const Execution& execution) {
  if (cuda::kind_of_devices(execution) == Device::Kind::cuda) {
    throw DeviceError(fmt::format(
        "the index vamana has no backend for {} yet; use the device cpu, or the index brute_force",
        name(execution.devices.front())));
  }
  return cpu_backend();
}

}  // namespace vamana
}  // namespace kith
