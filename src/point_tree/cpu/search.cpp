// Which kernels walk, by the instruction set.
#include "point_tree/cpu/search.hpp"

#include "core/instruction_set.hpp"

namespace kith::point_tree {

const TreeKernels& tree_kernels() {
  switch (active_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::avx512_vnni: return tree_kernels_avx512;
    case InstructionSet::avx_vnni:
    case InstructionSet::avx2: return tree_kernels_avx2;
#elif defined(__aarch64__)
    case InstructionSet::neon_i8mm:
    case InstructionSet::neon: return tree_kernels_neon;
#endif
    default: return tree_kernels_portable;
  }
}

}  // namespace kith::point_tree
