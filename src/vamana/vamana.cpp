// Vamana: argument checks, dispatch to a backend, searches.
#include "kith/vamana.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/int128.hpp"
#include "core/parallel.hpp"
#include "core/search_checks.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/device_memory.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "select_k/allowed_rows.hpp"
#include "vamana/answer.hpp"
#include "vamana/backend.hpp"
#include "vamana/calibrate.hpp"
#include "vamana/checks.hpp"
#include "vamana/code_space.hpp"
#include "vamana/file.hpp"
#include "vamana/parts.hpp"
#include "vamana/tuning.hpp"

namespace kith {
namespace {

using vamana::answer_bytes;
using vamana::answered;
using vamana::Backend;
using vamana::Built;
using vamana::Contents;
using vamana::SearchPlan;
namespace tuning = vamana::tuning;

void check_build_memory(const DatasetView& rows, const codes::ScalarSpace& space,
                        const VamanaParameters& parameters, const Backend& backend,
                        const Execution& execution) {
  const std::uint64_t need =
      std::max(codes::scalar_space_bytes(rows.dim, vamana::shape_of(parameters, rows.dim)),
               vamana::node_bytes(space, rows.rows) + vamana::walk_code_bytes(space, parameters, rows.rows) +
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
// query, of which only the ratios matter: estimates of gathered codes; comparisons with rows side by side,
// bringing them there for a thousand queries, and what the filter lets through. How many queries there are
// has no say: an answer must not depend on it.
bool plan_for_allowed(const Contents& contents, const RowSet& allowed, SearchPlan& plan) {
  const auto dim = static_cast<double>(contents.dataset.dim());
  const auto some = static_cast<double>(allowed.count());
  const double list = std::ceil(static_cast<double>(plan.list_size) *
                                static_cast<double>(contents.dataset.rows()) / std::max(1.0, some));
  const auto nodes = static_cast<double>(contents.built.nodes.count);
  const double degree = static_cast<double>(contents.built.graph.max_degree) / 2;
  const double walked = std::min(list * degree, nodes) *
                        tuning::cost_of_estimate(static_cast<double>(contents.built.code_bytes()));
  const double compared = some * (tuning::cost_of_row(dim) + (60 + 4 * dim) / 1000) +
                          static_cast<double>(plan.k) * (450 + 2 * dim);
  if (allowed.count() == 0 || compared < walked) return false;
  plan.allowed = &allowed;
  plan.longest_list =
      static_cast<std::int64_t>(std::min(nodes, static_cast<double>(tuning::longest_among_allowed) * list));
  return true;
}

// By the exact engine, where lists of all rows would hold few that are allowed, as walks have shown: so it
// looks at those alone. More than half of the rows, or than there is memory for, are not copied.
SearchStatistics exactly_among_far(const Contents& contents, const DatasetView& queries,
                                   const NeighborsView& out, const RowSet& allowed,
                                   const Execution& execution) {
  const DatasetView& rows = contents.dataset.view();
  const std::uint64_t bytes = static_cast<std::uint64_t>(allowed.count()) *
                              static_cast<std::uint64_t>(rows.dim) * size_of(rows.dtype);
  if (2 * allowed.count() > rows.rows || (execution.memory_limit > 0 && bytes > execution.memory_limit)) {
    return exactly(contents, queries, out, &allowed, execution);
  }
  const GatheredRows gathered = gather(rows, allowed, execution);
  SearchStatistics statistics =
      knn_into(gathered.rows, queries, out, {contents.parameters.metric, Filter::automatic}, execution);
  gathered.renumber(out);
  return statistics;
}

// The answers of some of the queries, by the exact engine.
void answer_exactly(const Contents& contents, const std::vector<std::int64_t>& numbers,
                    const DatasetView& queries, const NeighborsView& out, const RowSet& allowed,
                    const Execution& asked, SearchStatistics& statistics) {
  const Execution execution = without_progress(asked);  // the walks have reported every query
  const auto count = static_cast<std::int64_t>(numbers.size());
  const Dataset picked = pick_rows(on_host(queries), numbers);
  const Neighbors found = answered(
      contents.dataset.view(), count, out.k, execution,
      [&](const NeighborsView& to) { return exactly_among_far(contents, picked, to, allowed, execution); });
  const auto write = [&]<class T>(const std::vector<T>& from, T* to) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const T* its = from.data() + static_cast<std::int64_t>(i) * out.k;
      if (out.space == MemorySpace::cuda) {
        cuda::copy_to_device(its, to + numbers[i] * out.k, out.device,
                             static_cast<std::uint64_t>(out.k) * sizeof(T));
      } else {
        std::copy_n(its, out.k, to + numbers[i] * out.k);
      }
    }
  };
  write(found.indices, out.indices);
  std::visit([&]<class R>(const std::vector<R>& its) { write(its, static_cast<R*>(out.distances)); },
             found.distances);
  statistics.candidates += found.statistics.candidates;
  statistics.fallbacks = count;
  statistics.certified = count == queries.rows;
}

SearchStatistics search_checked(const Contents& contents, const RecallCurve& curve,
                                const DatasetView& queries, const NeighborsView& out,
                                const Execution& execution, const SearchOptions& options) {
  const DatasetView& rows = contents.dataset.view();
  const Backend& backend = vamana::backend_for(execution);
  if (options.allowed != nullptr) check_allowed(*options.allowed, rows.rows, "index vamana");
  auto decision =
      vamana::decide(options, out.k, options.allowed == nullptr ? rows.rows : options.allowed->count(),
                     contents.built.nodes.count, curve);
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
  statistics.recall = statistics.certified ? 1 : decision->recall;
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
  auto contents = std::make_shared<Contents>();
  contents->dataset = dataset;
  VamanaParameters& its = contents->parameters = parameters;
  vamana::choose_build_list(its, rows);
  Built& built = contents->built;
  RecallCurve curve;
  or_out_of_memory([&] { return fmt::format("the index vamana of {} rows; use fewer rows", rows.rows); },
                   [&] {
                     built.space.dtype = rows.dtype;
                     built.space.metric = parameters.metric;
                     built.space.dim = rows.dim;
                     built.space.bits = vamana::shape_of(parameters, rows.dim).bits;
                     check_build_memory(rows, built.space, its, backend, execution);
                     built.space = vamana::make_code_space(rows, its, execution);
                     built.nodes = vamana::make_nodes(rows, built.space, execution);
                     built.walked =
                         vamana::make_walk_codes(built.nodes, built.space, its, nullptr, backend, execution);
                     curve = vamana::build_and_measure(*contents, {}, 0, backend, execution);
                     built.drop_what_built_it();
                     return true;
                   });
  return Vamana(std::make_shared<State>(std::move(contents), std::move(curve)));
}

Neighbors Vamana::search(const DatasetView& queries, std::int64_t k, const Execution& execution,
                         const SearchOptions& options) const {
  vamana::check_search(state_->contents->dataset, queries, k, execution);
  return or_out_of_memory(
      [&] {
        return fmt::format("{} queries with k = {}; ask for fewer neighbours, or search the queries in parts",
                           queries.rows, k);
      },
      [&] {
        return answered(
            state_->contents->dataset.view(), queries.rows, k, execution, [&](const NeighborsView& out) {
              return search_checked(*state_->contents, state_->curve, queries, out, execution, options);
            });
      });
}

SearchStatistics Vamana::search_into(const DatasetView& queries, const NeighborsView& out,
                                     const Execution& execution, const SearchOptions& options) const {
  vamana::check_search(state_->contents->dataset, queries, out.k, execution);
  check_output(queries.rows, out);
  if (out.space == MemorySpace::cuda && cuda::kind_of_devices(execution) == Device::Kind::cpu) {
    throw InvalidArgument("a search on the CPU cannot leave its answer in GPU memory; give host memory");
  }
  return or_out_of_memory(
      [&] {
        return fmt::format("{} queries with k = {}; ask for fewer neighbours, or search the queries in parts",
                           queries.rows, out.k);
      },
      [&] { return search_checked(*state_->contents, state_->curve, queries, out, execution, options); });
}

void Vamana::save(const std::filesystem::path& path, const Execution& execution) const {
  vamana::save(*state_->contents, state_->curve, path, execution);
}

Vamana Vamana::load(const std::filesystem::path& path, const Execution& execution) {
  (void)vamana::backend_for(execution);
  RecallCurve curve;
  auto contents = std::make_shared<Contents>(vamana::load(path, execution, curve));
  return Vamana(std::make_shared<State>(std::move(contents), std::move(curve)));
}

std::int64_t Vamana::rows() const noexcept {
  return state_->contents->dataset.rows();
}
std::int64_t Vamana::dim() const noexcept {
  return state_->contents->dataset.dim();
}
Dtype Vamana::dtype() const noexcept {
  return state_->contents->dataset.dtype();
}
Metric Vamana::metric() const noexcept {
  return state_->contents->parameters.metric;
}
const VamanaParameters& Vamana::parameters() const noexcept {
  return state_->contents->parameters;
}
std::int64_t Vamana::code_dim() const noexcept {
  return state_->contents->built.space.code_dim();
}
std::int64_t Vamana::code_bytes() const noexcept {
  return state_->contents->built.code_bytes();
}
std::uint64_t Vamana::memory_bytes() const noexcept {
  return state_->contents->built.bytes();
}
const RecallCurve& Vamana::recall_curve() const noexcept {
  return state_->curve;
}
std::uint64_t Vamana::graph_hash() const noexcept {
  return vamana::hash(state_->contents->built);
}

namespace vamana {

const Contents& Parts::of(const Vamana& index) {
  return *index.state_->contents;
}

Vamana Parts::assemble(const Dataset& rows, Graph graph, const VamanaParameters& parameters,
                       std::vector<std::byte> layers, const Execution& execution) {
  const Backend& backend = backend_for(execution);
  check_parameters(parameters, rows.dim());
  check_rows(rows);
  auto contents = std::make_shared<Contents>();
  contents->dataset = rows;
  contents->parameters = parameters;
  choose_build_list(contents->parameters, rows.view());
  contents->plain = true;
  contents->layers = std::move(layers);
  Built& built = contents->built;
  built.set_graph(std::move(graph));
  return or_out_of_memory(
      [&] { return fmt::format("the index vamana of {} rows", rows.rows()); },
      [&] {
        const codes::ScalarShape shape = shape_of(parameters, rows.dim());
        built.space.dtype = rows.dtype();
        built.space.metric = parameters.metric;
        built.space.dim = rows.dim();
        built.space.bits = shape.bits;
        const std::uint64_t need = std::max(codes::scalar_space_bytes(rows.dim(), shape),
                                            node_bytes(built.space, rows.rows()) + built.graph.bytes() +
                                                walk_code_bytes(built.space, parameters, rows.rows()));
        if (execution.memory_limit > 0 && need > execution.memory_limit) {
          throw OutOfMemory(fmt::format(
              "the imported graph of {} rows takes about {} bytes, the limit is {}; raise the limit",
              rows.rows(), need, execution.memory_limit));
        }
        built.space = make_code_space(rows, contents->parameters, execution);
        built.nodes = make_plain_nodes(rows, built.space, execution);
        built.walked =
            make_walk_codes(built.nodes, built.space, contents->parameters, nullptr, backend, execution);
        RecallCurve curve = measure_by_own_rows(*contents, rows.rows(), std::nullopt, execution);
        built.drop_what_built_it();
        return Vamana(std::make_shared<Vamana::State>(std::move(contents), std::move(curve)));
      });
}

const Backend& backend_for(const Execution& execution) {
#ifdef KITH_CUDA_ENABLED
  if (cuda::kind_of_devices(execution) == Device::Kind::cuda) return cuda_backend();
#else
  (void)cuda::kind_of_devices(execution);  // refuses GPUs
#endif
  return cpu_backend();
}

}  // namespace vamana
}  // namespace kith
