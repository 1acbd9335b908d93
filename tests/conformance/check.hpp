// Runs an index on a problem, every instruction set and filter in turn, and compares with the truth.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "kith/any_index.hpp"
#include "kith/support.hpp"

namespace kith::conformance {

/// How much is run: KITH_CONFORMANCE=brief (tools that slow a program down a thousandfold), reduced
/// (sanitizers), unset (default) or full.
enum class Size : std::uint8_t { brief, reduced, normal, full };
Size size();

/// Filters an index type knows on a backend for a metric; indexes without filters have one entry.
std::vector<Filter> filters(const Support& entry);

/// Parameters of an entry's index type; the filter where it has one.
IndexParameters parameters_for(const Support& entry, Filter filter);

/// Holds the forced instruction set for a scope.
class Forced {
 public:
  explicit Forced(InstructionSet set) { force_instruction_set(set); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;
  ~Forced() { force_instruction_set(std::nullopt); }
};

/// Searches compared so far, by instruction set, filter, metric, dtype and group of tests.
struct Counts {
  std::map<std::string, std::map<std::string, std::int64_t>> searches;
  std::int64_t answers = 0;  ///< (query, rank) pairs compared bit by bit
  std::int64_t wrong = 0;
};
Counts& counts();

/// Where a search ran, for the message and the counts.
struct Label {
  const Support& entry;
  Filter filter;
  InstructionSet set;
  std::string variant;  ///< "threads=5", ...
};

/// Compares one answer with the truth of queries [first, first + result.queries): indices exactly,
/// distances bit by bit, padding included. Says where the first difference is.
/// @return whether it was equal
bool compare(const Problem& problem, const Neighbors& result, std::int64_t first, const Label& label);

/// The pairs of instruction set and filter to run: all of them in the full suite. Otherwise one set with
/// every filter and the others with one filter each, drawn by `chance`; over the many problems of the
/// suite every pair has its turn for every kind of data.
std::vector<std::pair<InstructionSet, Filter>> paths(const Support& entry, std::uint64_t chance);

/// Builds and searches the problem for every k on its paths.
void check_everywhere(const Problem& problem, const Support& entry, const std::vector<std::int64_t>& ks);

/// What kith::supported lists of index types with that guarantee.
std::vector<Support> supported_by(Guarantee guarantee);

/// "brute_force_cpu_f32_cosine".
std::string entry_name(const Support& entry);

/// Whether the entry's backend can run on this machine.
bool backend_usable(const Support& entry);

/// Execution on the entry's backend.
Execution execution_for(const Support& entry, int threads);

}  // namespace kith::conformance
