// DiskANN's P_pq_pivots.bin, parts that each have their number of rows and columns, two u32, first:
//
//   at 0      u64 [4, 1]: where the next three begin, and the end (older files: [5, 1], of which [2] is
//   skipped) at [0]    f32 [256, d]: the centroids of all parts side by side at [1]    f32 [d, 1]: the mean,
//   subtracted from rows at [2]    u32 [m + 1, 1]: where parts begin, and the last one ends
//
// With optimized product quantization (Ge et al. 2013) P_pq_pivots.bin_rotation_matrix.bin is f32 [d, d], by
// which rows less the mean are multiplied from the left.
#include "graph_files/pq_pivots.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/bytes.hpp"
#include "kith/codes.hpp"

namespace kith::graph_files {
namespace {

constexpr std::uint64_t usual_start = 4096;
constexpr std::uint64_t most_centroids = 256;

struct Part {
  std::uint64_t rows = 0, columns = 0;
  const std::byte* data = nullptr;
};

// @throws IoError where the part is not within the file
Part part_at(const io::Source& source, std::uint64_t offset, std::uint64_t element, const char* what) {
  if (offset > source.size() || source.size() - offset < 8) {
    throw bad_file(source, "is truncated or corrupt: its {} begin at {} of {} bytes", what, offset,
                   source.size());
  }
  const std::byte* at = source.bytes.data() + offset;
  Part part{.rows = io::load<std::uint32_t>(at), .columns = io::load<std::uint32_t>(at + 4), .data = at + 8};
  if (!io::fits(part.rows * part.columns, element, source.size() - offset - 8)) {
    throw bad_file(source, "is truncated or corrupt: its {}, {} x {}, do not fit its {} bytes", what,
                   part.rows, part.columns, source.size());
  }
  return part;
}

std::vector<float> floats_of(const io::Source& source, const Part& part, const char* what) {
  std::vector<float> values(part.rows * part.columns);
  if (!values.empty()) std::memcpy(values.data(), part.data, values.size() * sizeof(float));
  if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
    throw bad_file(source, "is corrupt: its {} have a value that is not finite", what);
  }
  return values;
}

}  // namespace

bool looks_like_pq_pivots(const io::Source& source) {
  if (source.size() < 40) return false;
  const std::byte* at = source.bytes.data();
  const auto count = io::load<std::uint32_t>(at);
  return (count == 4 || count == 5) && io::load<std::uint32_t>(at + 4) == 1 &&
         io::load<std::uint64_t>(at + 8) == usual_start;
}

PqPivots read_pq_pivots(const io::Source& source) {
  const Part offsets = part_at(source, 0, 8, "offsets");
  if ((offsets.rows != 4 && offsets.rows != 5) || offsets.columns != 1) {
    throw bad_file(source, "is corrupt or not DiskANN's: it begins with {} x {} offsets; 4 or 5 are known",
                   offsets.rows, offsets.columns);
  }
  const auto offset = [&](std::uint64_t i) { return io::load<std::uint64_t>(offsets.data + 8 * i); };
  const Part pivots = part_at(source, offset(0), 4, "centroids");
  const Part mean = part_at(source, offset(1), 4, "means");
  const Part starts = part_at(source, offset(offsets.rows - 2), 4, "parts");
  if (offset(offsets.rows - 1) != source.size()) {
    throw bad_file(source, "is truncated or corrupt: it says that it ends at {}, it has {} bytes",
                   offset(offsets.rows - 1), source.size());
  }
  const std::uint64_t dim = pivots.columns;
  if (pivots.rows < 1 || pivots.rows > most_centroids || dim < 1 ||
      dim > static_cast<std::uint64_t>(Quantizer::largest_dim) || mean.rows * mean.columns != dim) {
    throw bad_file(
        source,
        "is corrupt, or nothing Kith takes: {} centroids of dimension {}, a mean of {}; up to {} of up to "
        "{} are possible",
        pivots.rows, dim, mean.rows * mean.columns, most_centroids, Quantizer::largest_dim);
  }
  PqPivots out;
  out.dim = static_cast<std::int64_t>(dim);
  out.count = static_cast<std::int64_t>(pivots.rows);
  out.pivots = floats_of(source, pivots, "centroids");
  out.mean = floats_of(source, mean, "means");
  const std::uint64_t parts = starts.rows * starts.columns;
  bool good = parts >= 2 && parts <= dim + 1;
  for (std::uint64_t i = 0; good && i < parts; ++i) {
    const std::int64_t start = io::load<std::uint32_t>(starts.data + 4 * i);
    good = i == 0 ? start == 0 : start > out.starts.back();
    out.starts.push_back(start);
  }
  if (!good || out.starts.back() != out.dim) {
    throw bad_file(source, "is corrupt: its parts do not cut {} dimensions into {} parts", dim,
                   parts > 0 ? parts - 1 : 0);
  }
  return out;
}

std::vector<float> read_rotation(const io::Source& source, std::int64_t dim) {
  const Part matrix = part_at(source, 0, 4, "rotation");
  const auto d = static_cast<std::uint64_t>(dim);
  if (matrix.rows != d || matrix.columns != d || source.size() != 8 + 4 * d * d) {
    throw bad_file(source, "is corrupt or belongs to others: a rotation of {} x {} for rows of dimension {}",
                   matrix.rows, matrix.columns, dim);
  }
  return floats_of(source, matrix, "rotation");
}

}  // namespace kith::graph_files
