// Rows for the engine in a GPU's memory, of whichever element type.
#pragma once

#include "gpu.cuh"
#include "kith/dataset.hpp"

namespace kith::ladder {

/// A copy of contiguous rows, and the view of it.
struct RowsOnGpu {
  RowsOnGpu(const Gpu& gpu, const DatasetView& rows)
      : memory(gpu.upload(static_cast<const unsigned char*>(rows.data),
                          rows.rows * rows.dim * static_cast<std::int64_t>(size_of(rows.dtype)))),
        view(rows) {
    view.data = memory.data();
    view.space = MemorySpace::cuda;
    view.device = gpu.ordinal();
  }
  cuda::Buffer<unsigned char> memory;
  DatasetView view;
};

}  // namespace kith::ladder
