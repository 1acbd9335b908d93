// Staged uploads and downloads.
#include "cuda/upload.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/parallel.hpp"
#include "cuda/runtime.hpp"
#include "cuda/workspace_pool.hpp"

namespace kith::cuda {
namespace {

constexpr std::int64_t slot_bytes = std::int64_t{8} << 20;
constexpr int slots = 4;
constexpr std::int64_t piece_bytes = std::int64_t{512} << 10;  // of one thread at a time
constexpr std::int64_t small_bytes = std::int64_t{64} << 10;   // below it the driver's own copy is as fast

// Whether the device reads and writes host memory by itself.
bool page_locked(const void* data, std::size_t bytes) {
  for (const void* address : {data, static_cast<const void*>(static_cast<const char*>(data) + bytes - 1)}) {
    cudaPointerAttributes attributes{};
    KITH_CUDA(cudaPointerGetAttributes(&attributes, address));
    if (attributes.type != cudaMemoryTypeHost) return false;
  }
  return true;
}

}  // namespace

struct Uploader::State {
  explicit State(int ordinal) : device(ordinal) {}
  int device;
  PinnedBuffer<unsigned char> memory;
  Event free[slots];
  bool used[slots] = {};
  int next = 0;

  // Page-locked memory takes long to get: it is kept for the next search.
  static std::unique_ptr<State> take() {
    int device = 0;
    KITH_CUDA(cudaGetDevice(&device));
    return pool().take(device);
  }
  static void give(std::unique_ptr<State> state) { pool().give(std::move(state)); }

 private:
  // Never freed: at the end of the program the driver may be gone before it.
  static WorkspacePool<State>& pool() {
    static auto* all = new WorkspacePool<State>(8);
    return *all;
  }
};

Uploader::Uploader() = default;
Uploader::~Uploader() {
  if (state_ && !driver_lost()) State::give(std::move(state_));
}

void Uploader::copy(const DatasetView& rows, void* to, cudaStream_t stream, const Execution& execution) {
  const std::int64_t row_bytes = rows.dim * static_cast<std::int64_t>(size_of(rows.dtype));
  const std::int64_t total = rows.rows * row_bytes;
  if (total == 0) return;
  if (!state_) state_ = State::take();
  State& s = *state_;
  const std::int64_t wanted = std::min(total, slot_bytes * slots);
  if (s.memory.size() < wanted) {
    for (int i = 0; i < slots; ++i) {
      if (s.used[i]) KITH_CUDA(cudaEventSynchronize(s.free[i]));
      s.used[i] = false;
    }
    s.memory.reserve(wanted <= small_bytes ? small_bytes
                                           : (wanted <= slot_bytes ? slot_bytes : slot_bytes * slots));
  }
  const int ring = static_cast<int>(
      std::max<std::int64_t>(1, std::min<std::int64_t>(slots, s.memory.size() / slot_bytes)));
  const std::int64_t most = std::min(slot_bytes, s.memory.size());
  const auto* source = static_cast<const unsigned char*>(rows.data);
  const std::int64_t source_stride = rows.row_stride * static_cast<std::int64_t>(size_of(rows.dtype));

  // Bytes [from, from + bytes) of the contiguous rows.
  const auto gather = [&](unsigned char* out, std::int64_t from, std::int64_t bytes) {
    if (rows.contiguous()) {
      std::memcpy(out, source + from, static_cast<std::size_t>(bytes));
      return;
    }
    while (bytes > 0) {
      const std::int64_t row = from / row_bytes;
      const std::int64_t at = from % row_bytes;
      const std::int64_t part = std::min(bytes, row_bytes - at);
      std::memcpy(out, source + row * source_stride + at, static_cast<std::size_t>(part));
      out += part;
      from += part;
      bytes -= part;
    }
  };
  const int threads = resolve_threads(execution);
  for (std::int64_t from = 0; from < total; from += most) {
    if (execution.cancelled && execution.cancelled()) {
      throw Cancelled("stopped because the caller asked to; nothing was produced");
    }
    const std::int64_t bytes = std::min(most, total - from);
    s.next = s.next % ring;
    const int slot = s.next++;
    if (s.used[slot]) KITH_CUDA(cudaEventSynchronize(s.free[slot]));
    unsigned char* staging = s.memory.data() + slot * most;
    const std::int64_t pieces = (bytes + piece_bytes - 1) / piece_bytes;
    if (pieces == 1) {
      gather(staging, from, bytes);
    } else {
      parallel_for(threads, pieces, [&](std::int64_t piece) {
        const std::int64_t at = piece * piece_bytes;
        gather(staging + at, from + at, std::min(piece_bytes, bytes - at));
      });
    }
    KITH_CUDA(cudaMemcpyAsync(static_cast<unsigned char*>(to) + from, staging,
                              static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream));
    KITH_CUDA(cudaEventRecord(s.free[slot], stream));
    s.used[slot] = true;
  }
}

void wait_for(const Execution& execution, cudaStream_t stream) {
  if (!execution.follow_stream) return;
  if (execution.stream == nullptr) {
    follow_default(stream);
  } else {
    follow(static_cast<cudaStream_t>(execution.stream), stream);
  }
}

PlacedRows place(const DatasetView& rows, int device, Buffer<unsigned char>& memory, Uploader& uploader,
                 cudaStream_t stream, const Execution& execution) {
  if (rows.space == MemorySpace::cuda && rows.device == device) return {rows.data, rows.row_stride};
  const std::int64_t row_bytes = rows.dim * static_cast<std::int64_t>(size_of(rows.dtype));
  unsigned char* to = memory.reserve(std::max<std::int64_t>(1, rows.rows * row_bytes), stream);
  if (rows.space == MemorySpace::host) {
    uploader.copy(rows, to, stream, execution);
  } else {
    KITH_CUDA(cudaMemcpy2DAsync(to, static_cast<std::size_t>(row_bytes), rows.data,
                                static_cast<std::size_t>(rows.row_stride) * size_of(rows.dtype),
                                static_cast<std::size_t>(row_bytes), static_cast<std::size_t>(rows.rows),
                                cudaMemcpyDefault, stream));
  }
  return {to, rows.dim};
}

bool copy_page_locked(const DatasetView& rows, void* to, cudaStream_t stream) {
  if (rows.rows == 0) return true;
  const std::size_t row_bytes = static_cast<std::size_t>(rows.dim) * size_of(rows.dtype);
  const std::size_t all =
      static_cast<std::size_t>((rows.rows - 1) * rows.row_stride) * size_of(rows.dtype) + row_bytes;
  if (!page_locked(rows.data, all)) return false;
  if (rows.contiguous()) {
    KITH_CUDA(cudaMemcpyAsync(to, rows.data, static_cast<std::size_t>(rows.rows) * row_bytes,
                              cudaMemcpyHostToDevice, stream));
  } else {
    KITH_CUDA(cudaMemcpy2DAsync(to, row_bytes, rows.data,
                                static_cast<std::size_t>(rows.row_stride) * size_of(rows.dtype), row_bytes,
                                static_cast<std::size_t>(rows.rows), cudaMemcpyHostToDevice, stream));
  }
  return true;
}

void download(const void* from, void* to, std::uint64_t bytes, cudaStream_t stream,
              const Execution& execution) {
  const auto total = static_cast<std::int64_t>(bytes);
  if (total <= piece_bytes || page_locked(to, bytes)) {
    if (total > 0) KITH_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
    KITH_CUDA(cudaStreamSynchronize(stream));
    return;
  }
  std::unique_ptr<Uploader::State> state = Uploader::State::take();
  auto& s = *state;
  for (int i = 0; i < slots; ++i) {
    if (s.used[i]) KITH_CUDA(cudaEventSynchronize(s.free[i]));
    s.used[i] = false;
  }
  s.memory.reserve(slot_bytes * slots);
  const int threads = resolve_threads(execution);
  const std::int64_t parts = (total + slot_bytes - 1) / slot_bytes;
  const auto length = [&](std::int64_t part) { return std::min(slot_bytes, total - part * slot_bytes); };
  // The device fills the other slots while the threads empty one.
  for (std::int64_t part = 0; part < parts + slots - 1; ++part) {
    if (part < parts) {
      const auto slot = static_cast<int>(part % slots);
      KITH_CUDA(cudaMemcpyAsync(s.memory.data() + slot * slot_bytes,
                                static_cast<const unsigned char*>(from) + part * slot_bytes,
                                static_cast<std::size_t>(length(part)), cudaMemcpyDeviceToHost, stream));
      KITH_CUDA(cudaEventRecord(s.free[slot], stream));
    }
    const std::int64_t ready = part - (slots - 1);
    if (ready < 0) continue;
    const auto slot = static_cast<int>(ready % slots);
    KITH_CUDA(cudaEventSynchronize(s.free[slot]));
    const unsigned char* staging = s.memory.data() + slot * slot_bytes;
    auto* out = static_cast<unsigned char*>(to) + ready * slot_bytes;
    parallel_for(threads, (length(ready) + piece_bytes - 1) / piece_bytes, [&](std::int64_t piece) {
      const std::int64_t at = piece * piece_bytes;
      std::memcpy(out + at, staging + at,
                  static_cast<std::size_t>(std::min(piece_bytes, length(ready) - at)));
    });
  }
  Uploader::State::give(std::move(state));
}

}  // namespace kith::cuda
