// What a search on the CPU needs of the rows: codes, and which rows are equal.
#include <algorithm>
#include <memory>
#include <vector>

#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/prepared.hpp"

namespace kith::brute_force {

std::shared_ptr<const Prepared> prepare_on_cpu(const DatasetView& data,
                                               const BruteForceParameters& parameters,
                                               std::int64_t expected_queries, const Execution& execution) {
  auto prepared = std::make_shared<CpuPrepared>();
  prepared->codes =
      codes::encode_rows(data, choose_codes(data, parameters, expected_queries, execution), execution);
  const std::uint64_t grouping = static_cast<std::uint64_t>(data.rows) * codes::Duplicates::most_bytes_a_row;
  const bool room =
      execution.memory_limit == 0 || prepared->codes.bytes() + grouping <= execution.memory_limit;
  if (prepared->filter() != Filter::none && room)
    prepared->duplicates = codes::Duplicates::find(data, execution);
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
  return prepared;
}

}  // namespace kith::brute_force
