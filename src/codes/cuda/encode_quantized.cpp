// Codes of rows on the host by a device: parts of the rows go up, their codes come down.
#include <algorithm>

#include <fmt/format.h>

#include "codes/cuda/device_coding.hpp"
#include "core/parallel.hpp"
#include "cuda/pool.hpp"
#include "kith/error.hpp"

namespace kith::codes::cuda {
namespace {

constexpr std::uint64_t usual_part = std::uint64_t{256} << 20U;  // bytes of the device's memory
constexpr std::int64_t most_rows = std::int64_t{1} << 20U;       // of a part

}  // namespace

void encode_on_device(const Coding& coding, const DatasetView& rows, std::uint8_t* codes, int device,
                      const Execution& execution) {
  if (rows.rows == 0) return;
  const DeviceGuard guard(device);
  keep_some_memory(device);
  const Stream stream;
  Uploader uploader;
  constexpr double any_confidence = 0.5;  // estimates alone have bounds
  const DeviceCoding on_device(coding, any_confidence, stream, uploader, execution);
  const bool rabitq = on_device.rabitq();
  const std::int64_t scratch =
      rabitq ? scratch_values(on_device.rabitq_view().shape) * static_cast<std::int64_t>(sizeof(double))
             : rows.dim * static_cast<std::int64_t>(sizeof(float));
  const auto each = static_cast<std::uint64_t>(rows.dim + coding.code_bytes() + scratch);
  const std::uint64_t room = std::min(available_memory(execution), usual_part);
  if (each + coding.memory_bytes() > room) {
    throw OutOfMemory(fmt::format(
        "encoding rows takes {} bytes of GPU memory at least, of which there are {}; raise the device memory "
        "limit, or encode them on the CPU",
        each + coding.memory_bytes(), room));
  }
  const std::int64_t part =
      std::min({rows.rows, most_rows, static_cast<std::int64_t>((room - coding.memory_bytes()) / each)});
  const Buffer<unsigned char> up(part * rows.dim, stream);
  const Buffer<unsigned char> down(part * coding.code_bytes(), stream);
  const Buffer<double> memory((part * scratch + static_cast<std::int64_t>(sizeof(double)) - 1) /
                                  static_cast<std::int64_t>(sizeof(double)),
                              stream);
  ProgressCounter progress(execution, "encoding", rows.rows);
  for (std::int64_t first = 0; first < rows.rows; first += part) {
    progress.check();
    const std::int64_t count = std::min(part, rows.rows - first);
    uploader.copy(rows.slice(first, count), up.data(), stream, execution);
    const RowsToEncode its{up.data(), rows.dim, count};
    if (rabitq) {
      encode(on_device.rabitq_view(), its, memory.data(), reinterpret_cast<std::uint32_t*>(down.data()),
             stream);
    } else {
      encode(on_device.pq_view(), its, reinterpret_cast<float*>(memory.data()), down.data(), stream);
    }
    download(down.data(), codes + first * coding.code_bytes(),
             static_cast<std::uint64_t>(count * coding.code_bytes()), stream, execution);
    progress.advance(count);
  }
  progress.finish();
}

}  // namespace kith::codes::cuda
