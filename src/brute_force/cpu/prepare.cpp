// What a search on the CPU needs of the rows: codes, and which rows are equal.
#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/list_choice.hpp"
#include "brute_force/cpu/prepared.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "brute_force/directions.hpp"
#include "core/parallel.hpp"
#include "kith/error.hpp"

namespace kith::brute_force {

namespace {

// Equal rows, where there is room beside so many bytes.
codes::Duplicates equal_rows(const DatasetView& data, std::uint64_t beside, const Execution& execution) {
  const std::uint64_t grouping = static_cast<std::uint64_t>(data.rows) * codes::Duplicates::most_bytes_a_row;
  const bool room = execution.memory_limit == 0 || beside + grouping <= execution.memory_limit;
  return room ? codes::Duplicates::find(data, execution) : codes::Duplicates();
}

// @param expected_queries 0: any number
// @param known equal rows, where somebody has looked for them
std::shared_ptr<const CpuPrepared> prepare_in(const codes::CodeSpace& space, const DatasetView& data,
                                              std::int64_t expected_queries, const Execution& execution,
                                              std::optional<codes::Duplicates> known = std::nullopt) {
  auto prepared = std::make_shared<CpuPrepared>();
  if (known) {
    prepared->duplicates = *std::move(known);
  } else if (space.choice.filter != Filter::none) {
    prepared->duplicates = equal_rows(data, codes::code_bytes(space, data.rows), execution);
  }
  const std::uint64_t held = prepared->duplicates.bytes();
  if (const auto fine = choose_fine_codes(data, space, expected_queries, held, execution)) {
    try {
      prepared->fine = codes::FineCodes(fine, data.rows);
    } catch (const std::bad_alloc&) {
      prepared->fine = {};  // the filter does without
    }
  }
  prepared->codes = prepared->fine ? codes::encode_rows_finely(data, space, prepared->fine, execution)
                                   : codes::encode_rows(data, space, execution);
  for (const std::int64_t row : prepared->duplicates.collapsed()) {
    prepared->codes.valid[static_cast<std::size_t>(row / tile_rows)] &=
        ~(std::uint64_t{1} << (row % tile_rows));
  }
  auto& special = prepared->codes.special;
  if (!prepared->duplicates.empty() && !special.empty()) {
    std::vector<std::int64_t> collapsed(prepared->duplicates.collapsed().begin(),
                                        prepared->duplicates.collapsed().end());
    std::sort(collapsed.begin(), collapsed.end());
    std::erase_if(special, [&](std::int64_t row) {
      return std::binary_search(collapsed.begin(), collapsed.end(), row);
    });
  }
  if (prepared->directions() > 0) prepared->largest_rest = largest_rest(data, prepared->codes.space);
  return prepared;
}

// The filter's codes of all values.
codes::CodeSpace of_all_values(const DatasetView& data, Metric metric, Filter filter) {
  const auto list = codes::possible_codes(data.dtype, metric, data.dim);
  return codes::make_code_space(data, metric, *std::ranges::find(list, filter, &codes::CodeChoice::filter));
}

std::shared_ptr<const CpuPrepared> prepare_lists(std::shared_ptr<const Partition> partition,
                                                 const codes::CodeSpace& space,
                                                 codes::Duplicates duplicates) {
  auto prepared = std::make_shared<CpuPrepared>();
  prepared->codes.space = space;
  prepared->codes.nan_rows = partition->nan_rows;
  prepared->duplicates = std::move(duplicates);
  prepared->partition = std::move(partition);
  return prepared;
}

// As many lists as the caller wants.
std::shared_ptr<const CpuPrepared> lists_as_asked(const DatasetView& data, const codes::CodeSpace& space,
                                                  std::int64_t asked, const Execution& execution) {
  if (const char* lacked = lacked_by_lists(space))
    throw InvalidArgument(fmt::format("{} lists need {}; or leave lists out", asked, lacked));
  const std::int64_t count = std::clamp<std::int64_t>(asked, 1, std::max<std::int64_t>(1, data.rows));
  const std::uint64_t bytes = partition_bytes(space, data.rows, count);
  if (execution.memory_limit > 0 && bytes > execution.memory_limit) {
    throw OutOfMemory(
        fmt::format("{} lists of {} rows take {} bytes, the memory limit is {}; raise it, or leave lists out",
                    count, data.rows, bytes, execution.memory_limit));
  }
  codes::Duplicates duplicates = equal_rows(data, bytes, execution);
  auto partition = make_partition(data, space, duplicates, count, execution);
  return prepare_lists(std::move(partition), space, std::move(duplicates));
}

// Bytes hold enough of what rows are beyond the centres of their lists, whatever they would lose of the rows.
Filter filter_of_lists(const DatasetView& data, const codes::CodeSpace& chosen,
                       const BruteForceParameters& parameters) {
  const bool beyond_centres = parameters.metric != Metric::cosine;
  const auto list = codes::possible_codes(data.dtype, parameters.metric, data.dim);
  const bool int8 = std::ranges::find(list, Filter::int8, &codes::CodeChoice::filter) != list.end();
  return parameters.filter == Filter::automatic && beyond_centres && int8 ? Filter::int8
                                                                          : chosen.choice.filter;
}

}  // namespace

std::shared_ptr<const Prepared> prepare_on_cpu(const DatasetView& data,
                                               const BruteForceParameters& parameters,
                                               std::int64_t expected_queries, const Execution& execution) {
  const std::int64_t asked = parameters.lists.value_or(0);
  if (asked > 0) {
    BruteForceParameters without = parameters;
    without.directions = false;
    const codes::CodeSpace chosen = choose_codes(data, without, 0, execution);
    // A filter that the caller did not name may be another one than that of whole rows.
    const bool coded = chosen.choice.filter != Filter::none;
    const codes::CodeSpace space =
        coded ? of_all_values(data, parameters.metric, filter_of_lists(data, chosen, parameters)) : chosen;
    return lists_as_asked(data, space, asked, execution);
  }
  const codes::CodeSpace chosen = choose_codes(data, parameters, expected_queries, execution);
  if (!parameters.lists && chosen.choice.filter != Filter::none) {
    const codes::CodeSpace space =
        of_all_values(data, parameters.metric, filter_of_lists(data, chosen, parameters));
    const ListChoice choice(data, chosen, space, expected_queries, execution);
    if (choice.may_pay()) {
      codes::Duplicates duplicates = equal_rows(data, codes::code_bytes(chosen, data.rows), execution);
      const std::int64_t count = usual_lists(data.rows);
      const std::uint64_t bytes = partition_bytes(space, data.rows, count) + duplicates.bytes();
      if (execution.memory_limit == 0 || bytes <= execution.memory_limit) {
        auto partition = make_partition(data, space, duplicates, count, execution);
        if (choice.pays(*partition)) return prepare_lists(std::move(partition), space, std::move(duplicates));
      }
      return prepare_in(chosen, data, expected_queries, execution, std::move(duplicates));
    }
  }
  return prepare_in(chosen, data, expected_queries, execution);
}

std::shared_ptr<const CpuPrepared> suiting(const CpuPrepared& prepared, const DatasetView& data,
                                           Metric metric, const DatasetView& queries,
                                           const Execution& execution) {
  // Owned by whoever called.
  const std::shared_ptr<const CpuPrepared> itself(&prepared, [](const CpuPrepared*) {});
  if (prepared.directions() == 0) return itself;
  const std::vector<double> rests =
      codes::rests_of(queries, prepared.codes.space, tuning::sample_queries_along);
  const auto off = rests.end() - std::ranges::upper_bound(rests, prepared.largest_rest);
  if (off * one_off_in <= static_cast<std::ptrdiff_t>(rests.size())) return itself;
  const std::scoped_lock lock(prepared.mutex);
  if (prepared.of_all_values != nullptr) return prepared.of_all_values;
  Execution within = without_progress(execution);
  const std::uint64_t held = prepared.codes.bytes() + prepared.fine.bytes() + prepared.duplicates.bytes();
  if (within.memory_limit > 0) {
    if (within.memory_limit <= held) return itself;
    within.memory_limit -= held;
  }
  try {
    const codes::CodeSpace space = of_all_values(data, metric, prepared.filter());
    if (within.memory_limit > 0 && codes::code_bytes(space, data.rows) > within.memory_limit) return itself;
    prepared.of_all_values = prepare_in(space, data, 0, within);
  } catch (const OutOfMemory&) {
    return itself;
  } catch (const std::bad_alloc&) {
    return itself;
  }
  return prepared.of_all_values;
}

}  // namespace kith::brute_force
