// Checks that searches of every index begin with.
#pragma once

#include <cstdint>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/int128.hpp"
#include "kith/dataset.hpp"
#include "kith/error.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"

namespace kith {

/// @throws InvalidArgument
void check_k(std::int64_t k);

/// @throws InvalidArgument
void check_radius(double radius);

/// What is known of queries before a search: nothing, or a bound of each. @throws InvalidArgument
void check_bounds(std::int64_t queries, std::span<const double> bounds);

/// Queries of the dimension and the element type of what is searched; `what` names it: "dataset", "octree".
/// @throws InvalidArgument
void check_queries_fit(const DatasetView& queries, std::int64_t dim, Dtype dtype, std::string_view what);

/// Memory of the caller's for the answers of `queries` queries.
/// @throws InvalidArgument
void check_output(std::int64_t queries, const NeighborsView& out);

/// Values of `bytes_each` for `what`, against the caller's limit and what a vector can hold. `who` begins the
/// message: "7 queries with k = 3".
/// @throws OutOfMemory
void check_answer_memory(int128 values, std::size_t bytes_each, std::string_view who, std::string_view what,
                         const Execution& execution);

/// A failed allocation anywhere in `work`, or one too large to try, becomes an error that says what was asked
/// for: what() gives the words after "no memory left for".
template <class What, class Work>
auto or_out_of_memory(What&& what, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("the machine has no memory left for " + what());
  } catch (const std::length_error&) {
    throw OutOfMemory("the machine has no memory left for " + what());
  }
}

}  // namespace kith
