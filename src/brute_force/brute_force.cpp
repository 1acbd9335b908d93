// BruteForce: argument checks, dispatch to a backend, save and load.
#include "kith/brute_force.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "brute_force/backend.hpp"
#include "core/int128.hpp"
#include "core/parallel.hpp"
#include "core/plural.hpp"
#include "core/search_checks.hpp"
#include "cuda/caller_stream.hpp"
#include "cuda/device_choice.hpp"
#include "io/index_file.hpp"
#include "kith/error.hpp"
#include "select_k/allowed_rows.hpp"

namespace kith {

struct BruteForce::State {
  Dataset dataset;
  BruteForceParameters parameters;
  const brute_force::Backend* backend = nullptr;
  std::vector<Device> devices;  ///< it was built for
  std::shared_ptr<const brute_force::Prepared> prepared;
  bool filter_chosen = false;  ///< by the backend: the caller named none
};

namespace {

/// Lists that rows may be divided into.
constexpr std::int64_t most_lists = std::int64_t{1} << 24;

// Of the backend that devices belong to, in files.
constexpr std::string_view cpu_name = "cpu";
std::string_view backend_name(const std::vector<Device>& devices) {
  return devices.empty() || devices.front().kind == Device::Kind::cpu ? cpu_name : "cuda";
}

void check_search(const DatasetView& data, const DatasetView& queries, std::int64_t k) {
  validate(queries, "queries");
  check_k(k);
  check_queries_fit(queries, data.dim, data.dtype, "dataset");
}

// The answer itself, before anything is taken: the caller's limit, and what a vector can hold.
void check_output_memory(const DatasetView& data, const DatasetView& queries, std::int64_t k,
                         const Execution& execution) {
  check_answer_memory(static_cast<int128>(queries.rows) * k,
                      sizeof(std::int64_t) + size_of(distance_dtype(data.dtype)),
                      fmt::format("{} queries with k = {}", queries.rows, k), "the answer", execution);
}

// What is left for the codes of one search beside its answer. A GPU's memory holds no answer for the host.
Execution beside_answer(const DatasetView& data, const DatasetView& queries, std::int64_t k,
                        const Execution& execution) {
  Execution left = execution;
  if (&brute_force::backend_for(execution) != &brute_force::cpu_backend()) return left;
  check_output_memory(data, queries, k, execution);
  if (execution.memory_limit == 0) return left;
  const std::uint64_t answer = static_cast<std::uint64_t>(queries.rows) * static_cast<std::uint64_t>(k) *
                               (sizeof(std::int64_t) + size_of(distance_dtype(data.dtype)));
  left.memory_limit = std::max<std::uint64_t>(1, execution.memory_limit - answer);
  return left;
}

// What is left of a GPU's memory for one search beside the index that is made for it.
Execution beside_index(const BruteForce::State& state, const Execution& execution) {
  Execution left = execution;
  if (execution.device_memory_limit > 0) {
    const std::uint64_t held = state.prepared->device_bytes();
    left.device_memory_limit =
        execution.device_memory_limit > held ? execution.device_memory_limit - held : 1;
  }
  return left;
}

// Rows in GPU memory are for the GPU.
void check_space(const DatasetView& view, const char* what, const brute_force::Backend& backend) {
  if (view.space == MemorySpace::cuda && &backend == &brute_force::cpu_backend()) {
    throw InvalidArgument(
        fmt::format("the {} lie in the memory of cuda:{} but the search is to run on the CPU; "
                    "name a CUDA device, or copy them to the host",
                    what, view.device));
  }
}

void check_output_space(const NeighborsView& out, const brute_force::Backend& backend) {
  if (out.space == MemorySpace::cuda && &backend == &brute_force::cpu_backend()) {
    throw InvalidArgument("a search on the CPU cannot leave its answer in GPU memory; give host memory");
  }
}

// Checks the options; whether only some rows may be found.
bool some_allowed(const DatasetView& data, const SearchOptions& options) {
  check_options(BruteForce::index_type, options);
  if (options.allowed == nullptr) return false;
  check_allowed(*options.allowed, data.rows, "dataset");
  return true;
}

void check_lists(const BruteForceParameters& parameters) {
  const std::int64_t lists = parameters.lists.value_or(0);
  if (lists < 0 || lists > most_lists) {
    throw InvalidArgument(
        fmt::format("lists = {}: use 0 for none, up to {}, or leave it to be chosen", lists, most_lists));
  }
}

BruteForce::State make_state(const Dataset& dataset, const BruteForceParameters& parameters,
                             std::int64_t expected_queries, const Execution& asked) {
  const Execution execution = asked_by_one(asked);  // rows go to several devices side by side
  validate(dataset.view(), "dataset");
  BruteForce::State state;
  state.dataset = dataset;
  state.parameters = parameters;
  state.filter_chosen = parameters.filter == Filter::automatic;
  state.backend = &brute_force::backend_for(execution);
  state.devices = execution.devices;
  check_lists(parameters);
  check_space(dataset.view(), "rows", *state.backend);
  // Rows that somebody still writes on a GPU: building reads them from several streams and devices.
  if (dataset.view().space == MemorySpace::cuda) cuda::wait_for_caller(execution, {dataset.view().device});
  state.prepared = or_out_of_memory(
      [&] {
        return fmt::format(
            "the codes of {} rows of dimension {}; use the filter none, which needs none, or fewer rows",
            dataset.rows(), dataset.view().dim);
      },
      [&] { return state.backend->prepare(dataset.view(), parameters, expected_queries, execution); });
  return state;
}

std::string names(const std::vector<Device>& devices) {
  std::string text;
  for (const Device& device : devices) text += (text.empty() ? "" : ", ") + name(device);
  return text;
}

// What runs the search must be what the index was built for.
void check_place(const BruteForce::State& state, const DatasetView& queries, const Execution& execution) {
  (void)brute_force::backend_for(execution);  // refuses what no backend is for
  if (!std::is_permutation(state.devices.begin(), state.devices.end(), execution.devices.begin(),
                           execution.devices.end())) {
    throw InvalidArgument(
        fmt::format("the index was built for {}, the search is to run on {}; build it for the devices to "
                    "search on",
                    names(state.devices), names(execution.devices)));
  }
  check_space(queries, "queries", *state.backend);
}

// Runs a search on the index's backend after the checks that all of them share. The answer is to lie on the
// device `answer` (-1: the host).
template <class Search>
auto run_search(const BruteForce::State& state, const DatasetView& queries, std::int64_t k, int answer,
                const Execution& asked, Search&& search) {
  Execution execution = asked_by_one(asked);
  check_place(state, queries, execution);
  // A stream belongs to one device: the others can only wait until it is done.
  cuda::follow_elsewhere(execution, {cuda::place_of(queries.space, queries.device), answer});
  return or_out_of_memory(
      [&] {
        return fmt::format("{} queries with k = {}; ask for fewer neighbours, or search the queries in parts",
                           queries.rows, k);
      },
      [&] { return search(execution); });
}

// @param bounds as SearchOptions has them
Neighbors search_backend(const BruteForce::State& state, const DatasetView& queries, std::int64_t k,
                         std::span<const double> bounds, const Execution& execution) {
  const DatasetView& data = state.dataset.view();
  const Metric metric = state.parameters.metric;
  const brute_force::Backend& backend = *state.backend;
  if (!bounds.empty() && backend.search_bounded != nullptr) {
    return backend.search_bounded(*state.prepared, data, metric, queries, k, bounds, execution);
  }
  return backend.search(*state.prepared, data, metric, queries, k, execution);
}

Neighbors search_state(const BruteForce::State& state, const DatasetView& queries, std::int64_t k,
                       const Execution& execution, std::span<const double> bounds = {}) {
  check_output_memory(state.dataset.view(), queries, k, execution);
  return run_search(state, queries, k, -1, execution, [&](const Execution& ordered) {
    return search_backend(state, queries, k, bounds, ordered);
  });
}

SearchStatistics search_state_into(const BruteForce::State& state, const DatasetView& queries,
                                   const NeighborsView& out, const Execution& execution,
                                   std::span<const double> bounds = {}) {
  const DatasetView& data = state.dataset.view();
  const Metric metric = state.parameters.metric;
  const int answer = cuda::place_of(out.space, out.device);
  return run_search(state, queries, out.k, answer, execution,
                    [&](const Execution& ordered) -> SearchStatistics {
                      const brute_force::Backend& backend = *state.backend;
                      if (backend.search_into != nullptr) {
                        return backend.search_into(*state.prepared, data, metric, queries, out, ordered);
                      }
                      check_output_space(out, backend);
                      check_output_memory(data, queries, out.k, ordered);
                      const Neighbors found = search_backend(state, queries, out.k, bounds, ordered);
                      std::copy(found.indices.begin(), found.indices.end(), out.indices);
                      std::visit(
                          [&]<class T>(const std::vector<T>& list) {
                            std::copy(list.begin(), list.end(), static_cast<T*>(out.distances));
                          },
                          found.distances);
                      return found.statistics;
                    });
}

// As measured on one core (AMD EPYC, int8 filter, 16 to 768 values). A GPU has compared all rows before the
// host has copied some.
SearchCosts costs_of(const Execution& execution, std::int64_t dim) {
  if (cuda::kind_of_devices(execution) == Device::Kind::cuda) return {};
  const auto values = static_cast<double>(dim);
  return {.list_place = 450 + 2 * values, .row = 0.25 + 0.003 * values};
}

std::uint64_t bytes_of(const DatasetView& rows, std::int64_t count) {
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(rows.dim) * size_of(rows.dtype);
}

// Over allowed rows. `make` gives the state that searches all of them, when it is needed.
template <class Make>
Neighbors search_some(const Dataset& dataset, const BruteForceParameters& parameters,
                      const DatasetView& queries, std::int64_t k, const RowSet& allowed,
                      const Execution& asked, const Make& make) {
  const DatasetView& data = dataset.view();
  check_output_memory(data, queries, k, asked);
  // Several searches, and the host picks rows and queries: once for all of them.
  Execution execution = asked;
  cuda::wait_for_caller(
      execution, {cuda::place_of(data.space, data.device), cuda::place_of(queries.space, queries.device)});
  execution.follow_stream = false;
  std::optional<std::pair<GatheredRows, BruteForce::State>> some;
  const WaysToSearch ways = {
      .costs = costs_of(execution, data.dim),
      .copy_fits = execution.memory_limit == 0 || bytes_of(data, allowed.count()) <= execution.memory_limit,
      .all = [&](const DatasetView& part,
                 std::int64_t list) { return search_state(make(execution), part, list, execution); },
      .allowed =
          [&](const DatasetView& part, std::int64_t list) {
            if (!some) {
              GatheredRows gathered = gather(data, allowed, execution);
              BruteForce::State state = make_state(gathered.rows, parameters, part.rows, execution);
              some.emplace(std::move(gathered), std::move(state));
            }
            Neighbors found = search_state(some->second, part, list, execution);
            some->first.renumber(found);
            return found;
          }};
  Neighbors found = or_out_of_memory(
      [&] {
        return fmt::format("{} queries with k = {}; ask for fewer neighbours, or search the queries in parts",
                           queries.rows, k);
      },
      [&] { return search_allowed(allowed, queries, k, distance_dtype(data.dtype), execution, ways); });
  found.statistics.index = BruteForce::index_type.name;
  return found;
}

}  // namespace

BruteForce BruteForce::build(const DatasetView& dataset, const BruteForceParameters& parameters,
                             const Execution& execution) {
  return build(Dataset::adopt(dataset, nullptr), parameters, execution);
}

BruteForce BruteForce::build(const Dataset& dataset, const BruteForceParameters& parameters,
                             const Execution& execution) {
  return BruteForce(std::make_shared<const State>(make_state(dataset, parameters, 0, execution)));
}

Neighbors BruteForce::search(const DatasetView& queries, std::int64_t k, const Execution& execution,
                             const SearchOptions& options) const {
  check_search(state_->dataset.view(), queries, k);
  check_bounds(queries.rows, options.bounds);
  if (!some_allowed(state_->dataset.view(), options)) {
    return search_state(*state_, queries, k, execution, options.bounds);
  }
  check_place(*state_, queries, execution);
  return search_some(state_->dataset, state_->parameters, queries, k, *options.allowed, execution,
                     [&](const Execution&) -> const State& { return *state_; });
}

SearchStatistics BruteForce::search_into(const DatasetView& queries, const NeighborsView& out,
                                         const Execution& execution, const SearchOptions& options) const {
  check_search(state_->dataset.view(), queries, out.k);
  check_output(queries.rows, out);
  check_bounds(queries.rows, options.bounds);
  if (!some_allowed(state_->dataset.view(), options)) {
    return search_state_into(*state_, queries, out, execution, options.bounds);
  }
  check_output_space(out, *state_->backend);
  const Neighbors found = search(queries, out.k, execution, options);
  deliver(found, out);
  return found.statistics;
}

void BruteForce::save(const std::filesystem::path& path, const Execution& execution) const {
  const auto& data = state_->dataset.view();
  if (data.space == MemorySpace::cuda) {
    throw InvalidArgument("the index's rows lie in GPU memory; build it from rows in host memory to save it");
  }
  nlohmann::json header = {{"index", index_type.name}, {"rows", data.rows},
                           {"dim", data.dim},          {"dtype", name(data.dtype)},
                           {"metric", name(metric())}, {"filter", name(filter())}};
  // Another backend has other filters, and other costs: there the choice is made anew.
  if (state_->filter_chosen) header["filter_chosen_on"] = backend_name(state_->devices);
  if (const auto& directions = state_->parameters.directions) header["directions"] = *directions;
  if (const auto& lists = state_->parameters.lists) header["lists"] = *lists;
  write_index_file(path, std::move(header), {rows_section(data)}, execution.cancelled);
}

BruteForce BruteForce::load(const std::filesystem::path& path, const Execution& execution) {
  const IndexFile file = IndexFile::open(path, true, execution.cancelled);
  const auto& header = file.header();
  BruteForceParameters parameters;
  Dataset dataset;
  bool chosen = false;
  try {
    if (header.at("index") != index_type.name) {
      throw IoError(fmt::format("'{}' holds an index of type {}, not {}", path.string(),
                                header.at("index").dump(), index_type.name));
    }
    const auto dtype = parse_dtype(header.at("dtype").get<std::string>());
    const auto rows = header.at("rows").get<std::int64_t>();
    const auto dim = header.at("dim").get<std::int64_t>();
    const auto bytes = file.section("dataset");
    if (rows < 0 || dim < 1 || bytes.size() % size_of(dtype) != 0 ||
        static_cast<int128>(rows) * dim != static_cast<int128>(bytes.size() / size_of(dtype))) {
      throw IoError(fmt::format("'{}' is corrupt: {} rows of dimension {} do not fit its {} bytes",
                                path.string(), rows, dim, bytes.size()));
    }
    dataset = Dataset::adopt(DatasetView(bytes.data(), dtype, rows, dim, dim), file.file());
    validate(dataset.view(), "dataset");
    parameters.metric = parse_metric(header.at("metric").get<std::string>());
    parameters.filter = parse_filter(header.at("filter").get<std::string>());
    if (header.contains("directions")) parameters.directions = header.at("directions").get<bool>();
    if (header.contains("lists")) parameters.lists = header.at("lists").get<std::int64_t>();
    check_lists(parameters);
    // Files of before do not say who chose it; most did not.
    const std::string_view here = backend_name(execution.devices);
    if (header.contains("filter_chosen_on")) {
      chosen = true;
      if (header.at("filter_chosen_on").get<std::string>() != here) parameters.filter = Filter::automatic;
    } else if (here != cpu_name) {
      parameters.filter = Filter::automatic;
    }
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("'{}' is corrupt: its header lacks what a brute_force index needs ({})",
                              path.string(), error.what()));
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("'{}' is corrupt: {}", path.string(), error.what()));
  }
  State state = make_state(dataset, parameters, 0, execution);
  state.filter_chosen = state.filter_chosen || chosen;
  return BruteForce(std::make_shared<const State>(std::move(state)));
}

std::int64_t BruteForce::rows() const noexcept {
  return state_->dataset.rows();
}
std::int64_t BruteForce::dim() const noexcept {
  return state_->dataset.dim();
}
Dtype BruteForce::dtype() const noexcept {
  return state_->dataset.dtype();
}
Metric BruteForce::metric() const noexcept {
  return state_->parameters.metric;
}
Filter BruteForce::filter() const noexcept {
  return state_->prepared->filter();
}
std::uint64_t BruteForce::memory_bytes() const noexcept {
  return state_->prepared->memory_bytes();
}

Neighbors knn(const DatasetView& dataset, const DatasetView& queries, std::int64_t k,
              const BruteForceParameters& parameters, const Execution& execution,
              const SearchOptions& options) {
  validate(dataset, "dataset");
  check_search(dataset, queries, k);
  if (some_allowed(dataset, options)) {
    const Dataset rows = Dataset::adopt(dataset, nullptr);
    std::optional<BruteForce::State> whole;
    return search_some(rows, parameters, queries, k, *options.allowed, execution,
                       [&](const Execution& how) -> const BruteForce::State& {
                         if (!whole) whole = make_state(rows, parameters, queries.rows, how);
                         return *whole;
                       });
  }
  const BruteForce::State state = make_state(Dataset::adopt(dataset, nullptr), parameters, queries.rows,
                                             beside_answer(dataset, queries, k, execution));
  return search_state(state, queries, k, beside_index(state, execution));
}

SearchStatistics knn_into(const DatasetView& dataset, const DatasetView& queries, const NeighborsView& out,
                          const BruteForceParameters& parameters, const Execution& execution,
                          const SearchOptions& options) {
  validate(dataset, "dataset");
  check_search(dataset, queries, out.k);
  check_output(queries.rows, out);
  if (some_allowed(dataset, options)) {
    check_output_space(out, brute_force::backend_for(execution));
    const Neighbors found = knn(dataset, queries, out.k, parameters, execution, options);
    deliver(found, out);
    return found.statistics;
  }
  const BruteForce::State state =
      make_state(Dataset::adopt(dataset, nullptr), parameters, queries.rows, execution);
  return search_state_into(state, queries, out, beside_index(state, execution));
}

namespace brute_force {

const Backend& backend_for(const Execution& execution) {
#ifdef KITH_CUDA_ENABLED
  if (cuda::kind_of_devices(execution) == Device::Kind::cuda) return cuda_backend();
#else
  (void)cuda::kind_of_devices(execution);  // refuses CUDA
#endif
  return cpu_backend();
}

}  // namespace brute_force

}  // namespace kith
