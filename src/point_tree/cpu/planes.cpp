// Which kernels fit planes, by the instruction set.
#include "point_tree/cpu/planes.hpp"

#include "core/instruction_set.hpp"

namespace kith::point_tree {

const PlaneKernels* plane_kernels() {
  switch (active_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::avx512_vnni: return &plane_kernels_avx512;
    case InstructionSet::avx_vnni:
    case InstructionSet::avx2: return &plane_kernels_avx2;
#elif defined(__aarch64__)
    case InstructionSet::neon_i8mm:
    case InstructionSet::neon: return &plane_kernels_neon;
#endif
    default: return nullptr;
  }
}

void PlaneKernels::fit(const PlaneTask<float>& task) const {
  f32(task);
}
void PlaneKernels::fit(const PlaneTask<double>& task) const {
  f64(task);
}

}  // namespace kith::point_tree
