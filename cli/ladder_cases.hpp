// Which cases kith ladder runs: those of a name, those of sizes, and rows of the user's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "climb.hpp"
#include "input.hpp"

namespace kith::cli {

struct LadderCases {
  std::vector<std::string> names = {"published"};
  Source base, queries;  ///< of the user's; both or none
  std::string input_format;
  std::int64_t k = 10;  ///< of these
  bool k_named = false;
  std::int64_t list_size = ladder::default_list_size;
  bool list_size_named = false;

  bool given() const { return !base.path.empty() || !queries.path.empty(); }
};

/// The options of kith ladder that say so.
void add_ladder_cases(CLI::App& command, Common& common, LadderCases& cases);

/// The cases. That of the user's rows, which is the only one then, has them after give_rows() alone.
/// @throws InvalidArgument
std::vector<ladder::Case> cases_of(const LadderCases& asked);

/// Reads the user's rows, whose sizes are the case's. @throws IoError, InvalidArgument, OutOfMemory
void give_rows(const Common& common, LadderCases& asked, ladder::Case& to);

/// Of a case that makes its rows. @throws OutOfMemory
void check_memory(const Common& common, const ladder::Case& c);

}  // namespace kith::cli
