// The list of index types behind AnyIndex.
#include "kith/any_index.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/index_file.hpp"
#include "kith/error.hpp"

namespace kith {

std::vector<std::string> index_types() {
  return {"brute_force"};
}

AnyIndex AnyIndex::build(std::string_view type, const Dataset& dataset,
                         const BruteForceParameters& parameters, const Execution& execution) {
  if (type == "brute_force") return {type, BruteForce::build(dataset, parameters, execution)};
  throw InvalidArgument(fmt::format("index type '{}' is not one Kith knows; use brute_force", type));
}

AnyIndex AnyIndex::load(const std::filesystem::path& path, const Execution& execution) {
  const IndexFile file = IndexFile::open(path, false);
  const auto type = file.header().value("index", std::string());
  if (type == "brute_force") return {type, BruteForce::load(path, execution)};
  throw IoError(
      fmt::format("'{}' holds an index of type '{}', which this Kith does not know; use a newer one",
                  path.string(), type));
}

}  // namespace kith
