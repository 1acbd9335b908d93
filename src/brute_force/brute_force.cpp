// BruteForce: argument checks, dispatch to a backend, save and load.
#include "kith/brute_force.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/int128.hpp"
#include "distance/canonical.hpp"
#include "io/index_file.hpp"
#include "kith/error.hpp"

namespace kith {

struct BruteForce::State {
  Dataset dataset;
  BruteForceParameters parameters;
};

namespace {

void check_search(const BruteForce& index, const DatasetView& queries, std::int64_t k) {
  validate(queries, "queries");
  if (k < 1) throw InvalidArgument(fmt::format("k is {}; at least 1 neighbour must be asked for", k));
  if (queries.dim != index.dim()) {
    throw InvalidArgument(fmt::format("queries have dimension {}, the dataset has {}; they must be the same",
                                      queries.dim, index.dim()));
  }
  if (queries.dtype != index.dtype()) {
    throw InvalidArgument(fmt::format("queries are {}, the dataset is {}; convert one of them",
                                      name(queries.dtype), name(index.dtype())));
  }
}

template <class R>
Neighbors scan(const DatasetView& data, Metric metric, const DatasetView& queries, std::int64_t k) {
  Neighbors out;
  out.queries = queries.rows;
  out.k = k;
  out.indices.assign(static_cast<std::size_t>(queries.rows * k), -1);
  std::vector<R> distances(static_cast<std::size_t>(queries.rows * k), std::numeric_limits<R>::infinity());
  const auto function = canonical_function(data.dtype, metric);
  std::vector<double> padded(static_cast<std::size_t>(canonical_padded(data.dim)));
  std::vector<std::int64_t> ids(static_cast<std::size_t>(data.rows));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  std::vector<double> all(ids.size());
  for (std::int64_t q = 0; q < queries.rows; ++q) {
    const auto query = prepare_canonical_query(queries.row(q), data.dtype, data.dim, metric, padded.data());
    function(canonical_rows(data), query, ids.data(), data.rows, all.data());
    std::vector<std::pair<R, std::int64_t>> list;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!std::isnan(all[i])) list.emplace_back(static_cast<R>(all[i]), static_cast<std::int64_t>(i));
    }
    const auto count = std::min<std::size_t>(list.size(), static_cast<std::size_t>(k));
    std::partial_sort(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count), list.end());
    for (std::size_t j = 0; j < count; ++j) {
      distances[static_cast<std::size_t>(q * k) + j] = list[j].first;
      out.indices[static_cast<std::size_t>(q * k) + j] = list[j].second;
    }
  }
  out.distances = std::move(distances);
  out.statistics.index = "brute_force";
  out.statistics.filter = "none";
  return out;
}

}  // namespace

BruteForce BruteForce::build(const DatasetView& dataset, const BruteForceParameters& parameters,
                             const Execution& execution) {
  return build(Dataset::adopt(dataset, nullptr), parameters, execution);
}

BruteForce BruteForce::build(const Dataset& dataset, const BruteForceParameters& parameters,
                             const Execution& /*execution*/) {
  validate(dataset.view(), "dataset");
  auto state = std::make_shared<State>();
  state->dataset = dataset;
  state->parameters = parameters;
  return BruteForce(std::move(state));
}

Neighbors BruteForce::search(const DatasetView& queries, std::int64_t k,
                             const Execution& /*execution*/) const {
  check_search(*this, queries, k);
  const auto& data = state_->dataset.view();
  return data.dtype == Dtype::f64 ? scan<double>(data, metric(), queries, k)
                                  : scan<float>(data, metric(), queries, k);
}

void BruteForce::save(const std::filesystem::path& path, const Execution& /*execution*/) const {
  const auto& data = state_->dataset.view();
  nlohmann::json header = {{"index", "brute_force"},   {"rows", data.rows},
                           {"dim", data.dim},          {"dtype", name(data.dtype)},
                           {"metric", name(metric())}, {"filter", name(filter())}};
  const auto row_bytes = static_cast<std::size_t>(data.dim) * size_of(data.dtype);
  IndexSection rows{"dataset", static_cast<std::uint64_t>(data.rows) * row_bytes,
                    [&](const std::function<void(const void*, std::size_t)>& sink) {
                      if (data.contiguous()) {
                        sink(data.data, static_cast<std::size_t>(data.rows) * row_bytes);
                      } else {
                        for (std::int64_t i = 0; i < data.rows; ++i) sink(data.row(i), row_bytes);
                      }
                    }};
  write_index_file(path, std::move(header), {rows});
}

BruteForce BruteForce::load(const std::filesystem::path& path, const Execution& execution) {
  const IndexFile file = IndexFile::open(path);
  const auto& header = file.header();
  try {
    if (header.at("index") != "brute_force") {
      throw IoError(fmt::format("'{}' holds an index of type {}, not brute_force", path.string(),
                                header.at("index").dump()));
    }
    const auto dtype = parse_dtype(header.at("dtype").get<std::string>());
    const auto rows = header.at("rows").get<std::int64_t>();
    const auto dim = header.at("dim").get<std::int64_t>();
    const auto bytes = file.section("dataset");
    if (rows < 0 || dim < 1 ||
        static_cast<int128>(rows) * dim * static_cast<int128>(size_of(dtype)) !=
            static_cast<int128>(bytes.size())) {
      throw IoError(fmt::format("'{}' is corrupt: {} rows of dimension {} do not fit its {} bytes",
                                path.string(), rows, dim, bytes.size()));
    }
    BruteForceParameters parameters{parse_metric(header.at("metric").get<std::string>()),
                                    parse_filter(header.at("filter").get<std::string>())};
    return build(Dataset::adopt(DatasetView(bytes.data(), dtype, rows, dim, dim), file.file()), parameters,
                 execution);
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("'{}' is corrupt: its header lacks what a brute_force index needs ({})",
                              path.string(), error.what()));
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("'{}' is corrupt: {}", path.string(), error.what()));
  }
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
  return Filter::none;
}
std::uint64_t BruteForce::memory_bytes() const noexcept {
  return 0;
}

Neighbors knn(const DatasetView& dataset, const DatasetView& queries, std::int64_t k,
              const BruteForceParameters& parameters, const Execution& execution) {
  return BruteForce::build(dataset, parameters, execution).search(queries, k, execution);
}

}  // namespace kith
