// What AnyIndex looks up in the list of index types.
#include "kith/any_index.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/index_file.hpp"
#include "kith/error.hpp"

namespace kith {

std::string_view name(SearchOption option) noexcept {
  switch (option) {
    case SearchOption::radius: return "radius";
    case SearchOption::recall: return "recall";
    case SearchOption::list_size: return "list_size";
    case SearchOption::beam_width: return "beam_width";
    case SearchOption::rerank: return "rerank";
    case SearchOption::allowed: return "allowed";
  }
  return "";
}

void check_options(const IndexType& type, const SearchOptions& options) {
  const auto given = [&](SearchOption option) {
    switch (option) {
      case SearchOption::radius: return options.radius.has_value();
      case SearchOption::recall: return options.recall.has_value();
      case SearchOption::list_size: return options.list_size.has_value();
      case SearchOption::beam_width: return options.beam_width.has_value();
      case SearchOption::rerank: return options.rerank.has_value();
      case SearchOption::allowed: return options.allowed != nullptr;
    }
    return false;
  };
  for (const SearchOption option : all_search_options) {
    if (!given(option) || type.takes(option)) continue;
    std::vector<std::string_view> takers;
    for (const IndexType& other : Indexes::types) {
      if (other.takes(option)) takers.push_back(other.name);
    }
    throw InvalidArgument(takers.empty()
                              ? fmt::format("the index {} takes no {}; leave it out", type.name, name(option))
                              : fmt::format("the index {} takes no {}; leave it out, or use {}", type.name,
                                            name(option), fmt::join(takers, " or ")));
  }
}

void check_metric(const IndexType& type, Metric metric) {
  if (type.takes(metric)) return;
  std::vector<std::string_view> takers;
  for (const IndexType& other : Indexes::types) {
    if (other.takes(metric)) takers.push_back(other.name);
  }
  throw InvalidArgument(fmt::format("the index {} does not know the metric {}; use {}", type.name,
                                    name(metric), fmt::join(takers, " or ")));
}

bool set_filter(IndexParameters& parameters, Filter filter) {
  const auto set = [filter](auto& its) {
    if constexpr (requires { its.filter; }) {
      its.filter = filter;
      return true;
    }
    return false;
  };
  return std::visit(set, parameters);
}

bool set_leaf_size(IndexParameters& parameters, std::int64_t leaf_size) {
  const auto set = [leaf_size](auto& its) {
    if constexpr (requires { its.leaf_size; }) {
      its.leaf_size = leaf_size;
      return true;
    }
    return false;
  };
  return std::visit(set, parameters);
}

std::vector<std::string> index_types() {
  std::vector<std::string> names;
  for (const IndexType& type : Indexes::types) names.emplace_back(type.name);
  return names;
}

AnyIndex AnyIndex::build(const Dataset& dataset, const IndexParameters& parameters,
                         const Execution& execution) {
  return Indexes::build(dataset, parameters, execution);
}

AnyIndex AnyIndex::build(std::string_view type, const Dataset& dataset, Metric metric,
                         const Execution& execution) {
  return Indexes::build(dataset, Indexes::parameters(type, metric), execution);
}

AnyIndex AnyIndex::load(const std::filesystem::path& path, const Execution& execution) {
  const auto type = IndexFile::open(path, false).header().value("index", std::string());
  if (auto index = Indexes::load(type, path, execution)) return *std::move(index);
  if (type == "quantizer") {
    throw IoError(fmt::format(
        "'{}' holds a quantizer, which has no rows to search; load it as one, and search codes with it",
        path.string()));
  }
  throw IoError(
      fmt::format("'{}' holds an index of type '{}', which this Kith does not know; use a newer one",
                  path.string(), type));
}

}  // namespace kith
