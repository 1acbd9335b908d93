// Searches by a tuning that kith tune wrote.
#pragma once

#include <string>

#include "common.hpp"

namespace kith::cli {

/// --tune FILE.
void add_tuning_option(CLI::App& command, Common& common, std::string& file);
/// The index, going by the tuning of FILE where one is given.
/// @throws IoError, InvalidArgument for an index that is no graph or another one
AnyIndex with_tuning(const Common& common, const AnyIndex& index, std::string& file);

}  // namespace kith::cli
