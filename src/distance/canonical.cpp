// Dispatch of the canonical distance, and queries in float64.
#include "distance/canonical.hpp"

#include "core/instruction_set.hpp"
#include "core/visit_dtype.hpp"
#include "cuda/host_device.hpp"
#include "distance/cpu/canonical_sets.hpp"

namespace kith {
namespace {

#include "distance/canonical_steps.inc"

}  // namespace

CanonicalFunction canonical_function(Dtype dtype, Metric metric) {
  switch (active_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::avx512_vnni: return canonical_avx512(dtype, metric);
    case InstructionSet::avx_vnni:
    case InstructionSet::avx2: return canonical_avx2(dtype, metric);
#elif defined(__aarch64__)
    case InstructionSet::neon_i8mm:
    case InstructionSet::neon: return canonical_neon(dtype, metric);
#endif
    default: return canonical_portable(dtype, metric);
  }
}

CanonicalQuery prepare_canonical_query(const void* row, Dtype dtype, std::int64_t dim, Metric metric,
                                       double* out) {
  visit_dtype(dtype, [&]<class T>(T /*tag*/) {
    const T* values = static_cast<const T*>(row);
    for (std::int64_t i = 0; i < dim; ++i) out[i] = to_double(values[i]);
  });
  for (std::int64_t i = dim; i < canonical_padded(dim); ++i) out[i] = 0;
  double norm = 0;
  if (metric == Metric::cosine) {
    double lane[8] = {};
    for (std::int64_t i = 0; i < canonical_padded(dim); ++i)
      lane[i % 8] = canonical_step<Metric::cosine>(lane[i % 8], out[i], out[i]);
    norm = root(canonical_sum(lane));
  }
  return {out, norm};
}

}  // namespace kith
