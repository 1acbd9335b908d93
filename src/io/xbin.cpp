// big-ann-benchmarks binary files (Simhadri et al. 2022): a header of rows and dimension, then the rows.
//
//   8-byte header   u32 rows, u32 dim          16-byte header  u64 rows, u64 dim
//   ground truth    u32 queries, u32 k, i32 indices [queries, k], f32 distances [queries, k]
// The file's size tells them apart: a 64-bit header read as a 32-bit one has dimension 0 below 2^32 rows.
#include <limits>

#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/format.hpp"

namespace kith::io {
namespace {

struct Layout {
  std::uint64_t rows = 0;
  std::uint64_t dim = 0;
  std::uint64_t offset = 0;
  bool distances = false;  // a ground-truth file: f32 distances follow the indices
};

// True when rows x dim elements fill the file exactly.
bool matches(const Source& source, const Layout& shape, std::uint64_t element) {
  if (shape.dim == 0) return false;
  const auto row = total_bytes(shape.dim, element);
  const auto all = row ? total_bytes(shape.rows, *row) : std::nullopt;
  return all && *all == source.size() - shape.offset;
}

Layout layout(const Source& source, std::uint64_t element, const char* format) {
  if (source.size() == 0)
    throw bad_file(source, "is empty; {} starts with a header of 8 or 16 bytes", format);
  if (source.size() < 8) {
    throw bad_file(source, "is truncated: it has {}, the {} header takes 8 or 16",
                   plural(static_cast<std::int64_t>(source.size()), "byte"), format);
  }
  const std::byte* at = source.bytes.data();
  const Layout narrow{load<std::uint32_t>(at), load<std::uint32_t>(at + 4), 8};
  Layout wide{0, 0, 16};
  if (source.size() >= 16) {
    wide.rows = load<std::uint64_t>(at);
    wide.dim = load<std::uint64_t>(at + 8);
  }
  const bool ground_truth = std::string_view(format) == "ibin";
  for (Layout shape : {narrow, wide}) {
    if (shape.offset > source.size()) continue;
    bool found = matches(source, shape, element);
    if (!found && ground_truth && matches(source, shape, element + 4)) found = shape.distances = true;
    if (found) {
      check_shape(source, shape.rows, shape.dim);
      return shape;
    }
  }
  throw bad_file(source,
                 "is truncated, corrupt or not {}: its header claims {} x {} values (as 64-bit: {} x {}), "
                 "which a file of {} bytes does not hold",
                 format, narrow.rows, narrow.dim, wide.rows, wide.dim, source.size());
}

FileInfo info(const Source& source, std::uint64_t element, const char* type, const char* format) {
  const Layout shape = layout(source, element, format);
  FileInfo result;
  result.element_type = type;
  result.rows = static_cast<std::int64_t>(shape.rows);
  result.dim = static_cast<std::int64_t>(shape.dim);
  result.details.emplace_back("header bytes", std::to_string(shape.offset));
  if (std::string_view(format) == "ibin") {
    result.details.emplace_back("distances", shape.distances ? "f32" : "none");
  }
  return result;
}

Dataset read(const Source& source, const ReadOptions& options, Dtype dtype, const char* format) {
  const Layout shape = layout(source, size_of(dtype), format);
  const auto dim = static_cast<std::int64_t>(shape.dim);
  const RowRange range = wanted_rows(source, options, static_cast<std::int64_t>(shape.rows));
  return view_rows(source, shape.offset, dtype, range, dim, dim);
}

// The 8-byte header wherever its 32 bits suffice.
void write_header(AtomicFile& out, std::uint64_t rows, std::uint64_t dim) {
  constexpr std::uint64_t largest = std::numeric_limits<std::uint32_t>::max();
  if (rows <= largest && dim <= largest) {
    const auto rows32 = static_cast<std::uint32_t>(rows);
    const auto dim32 = static_cast<std::uint32_t>(dim);
    out.write(&rows32, sizeof rows32);
    out.write(&dim32, sizeof dim32);
  } else {
    out.write(&rows, sizeof rows);
    out.write(&dim, sizeof dim);
  }
}

void write(AtomicFile& out, const DatasetView& data, Dtype dtype, const char* format) {
  if (data.dtype != dtype) refuse_dtype(format, name(dtype), data.dtype);
  write_header(out, static_cast<std::uint64_t>(data.rows), static_cast<std::uint64_t>(data.dim));
  write_rows(out, data);
}

}  // namespace

FileInfo inspect_fbin(const Source& source) {
  return info(source, 4, "f32", "fbin");
}
FileInfo inspect_u8bin(const Source& source) {
  return info(source, 1, "u8", "u8bin");
}
FileInfo inspect_i8bin(const Source& source) {
  return info(source, 1, "i8", "i8bin");
}
FileInfo inspect_ibin(const Source& source) {
  return info(source, 4, "i32", "ibin");
}
Dataset read_fbin(const Source& source, const ReadOptions& options) {
  return read(source, options, Dtype::f32, "fbin");
}
Dataset read_u8bin(const Source& source, const ReadOptions& options) {
  return read(source, options, Dtype::u8, "u8bin");
}
Dataset read_i8bin(const Source& source, const ReadOptions& options) {
  return read(source, options, Dtype::i8, "i8bin");
}
void write_fbin(AtomicFile& out, const DatasetView& data) {
  write(out, data, Dtype::f32, "fbin");
}
void write_u8bin(AtomicFile& out, const DatasetView& data) {
  write(out, data, Dtype::u8, "u8bin");
}
void write_i8bin(AtomicFile& out, const DatasetView& data) {
  write(out, data, Dtype::i8, "i8bin");
}

Neighbors read_neighbors_ibin(const Source& source) {
  const Layout shape = layout(source, 4, "ibin");
  Neighbors result =
      empty_neighbors(static_cast<std::int64_t>(shape.rows), static_cast<std::int64_t>(shape.dim));
  const std::byte* indices = source.bytes.data() + shape.offset;
  const std::size_t count = result.indices.size();
  FrontToBack pass(source);
  for (std::size_t i = 0; i < count; ++i) {
    pass.reached(indices + 4 * i);
    result.indices[i] = load<std::int32_t>(indices + 4 * i);
  }
  if (shape.distances) {
    auto& distances = std::get<std::vector<float>>(result.distances);
    for (std::size_t i = 0; i < count; ++i) {
      pass.reached(indices + 4 * (count + i));
      distances[i] = load<float>(indices + 4 * (count + i));
    }
  }
  return result;
}

void write_neighbors_ibin(AtomicFile& out, const Neighbors& neighbors) {
  const auto* distances = std::get_if<std::vector<float>>(&neighbors.distances);
  if (distances == nullptr) {
    throw InvalidArgument(
        "ground-truth files hold float32 distances, the result has float64; write npy, hdf5 or json, which "
        "hold both");
  }
  if (neighbors.k == 0) throw InvalidArgument("ground-truth files need k of at least 1, the result has 0");
  write_header(out, static_cast<std::uint64_t>(neighbors.queries), static_cast<std::uint64_t>(neighbors.k));
  for (const std::int64_t index : neighbors.indices) {
    if (index > INT32_MAX || index < INT32_MIN) {
      throw InvalidArgument(
          fmt::format("ground-truth files hold indices up to {}, the result has {}; write npy, which holds "
                      "int64",
                      INT32_MAX, index));
    }
    const auto narrow = static_cast<std::int32_t>(index);
    out.write(&narrow, sizeof narrow);
  }
  out.write(distances->data(), distances->size() * sizeof(float));
}

}  // namespace kith::io
