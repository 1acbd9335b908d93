// Building a k-d tree: which types, and which kernels.
#include "kd_tree/cpu/build.hpp"

#include "core/instruction_set.hpp"
#include "kd_tree/cpu/records.hpp"

namespace kith::kd_tree {

const RecordKernels* record_kernels() {
#if defined(__x86_64__)
  switch (active_instruction_set()) {
    case InstructionSet::avx512_vnni: return &record_kernels_avx512;
    case InstructionSet::avx_vnni:
    case InstructionSet::avx2: return &record_kernels_avx2;
    default: break;
  }
#endif
  return nullptr;
}

std::uint64_t build_bytes_a_point(const DatasetView& rows) {
  const std::uint64_t id = rows.rows > point_tree::largest_narrow_tree() ? 8 : 4;
  const std::uint64_t element = rows.dtype == Dtype::f64 ? 8 : 4;
  const std::uint64_t record =
      rows.dim == 2 || rows.dim == 3 ? static_cast<std::uint64_t>(rows.dim) * element : 0;
  return 2 * ((record + id + element - 1) / element * element) + 1;
}

point_tree::Tree build(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution) {
  const bool wide = rows.rows > point_tree::largest_narrow_tree();
  if (rows.dtype == Dtype::f64) {
    return wide ? build_as<double, std::int64_t>(rows, leaf_size, execution)
                : build_as<double, std::uint32_t>(rows, leaf_size, execution);
  }
  return wide ? build_as<float, std::int64_t>(rows, leaf_size, execution)
              : build_as<float, std::uint32_t>(rows, leaf_size, execution);
}

}  // namespace kith::kd_tree
