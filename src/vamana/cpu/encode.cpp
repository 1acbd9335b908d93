// Codes that walks compare in place of scalar ones, of all nodes, on the CPU.
#include <algorithm>

#include "core/parallel.hpp"
#include "vamana/cpu/build.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {

void encode_walk_codes(const codes::Coding& coding, const DatasetView& rows, std::uint8_t* codes,
                       const Execution& execution) {
  constexpr std::int64_t rows_a_task = 512;
  const std::int64_t bytes = coding.code_bytes();
  ProgressCounter progress(execution, "encoding", rows.rows);
  parallel_for(resolve_threads(execution), (rows.rows + rows_a_task - 1) / rows_a_task,
               [&](std::int64_t task) {
                 progress.check();
                 const auto worker = coding.worker(tuning::rerank_confidence);
                 const std::int64_t end = std::min(rows.rows, (task + 1) * rows_a_task);
                 for (std::int64_t i = task * rows_a_task; i < end; ++i)
                   worker->encode(rows.row(i), codes + i * bytes);
                 progress.advance(end - task * rows_a_task);
               });
  progress.finish();
}

}  // namespace kith::vamana
