// NumPy .npy files, versions 1.0 to 3.0 (NEP 1): magic, header length, a Python dict literal, raw elements.
// bfloat16 is what ml_dtypes writes: descr '<V2'.
#include <limits>
#include <vector>

#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/format.hpp"
#include "io/npy_header.hpp"

namespace kith::io {
namespace {

std::optional<Dtype> dtype_of(const NpyHeader& header) {
  const std::string type = npy_element_type(header);
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64}) {
    if (type == name(dtype)) return dtype;
  }
  return std::nullopt;
}

template <class T>
std::int64_t widen(const Source& source, T value) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw bad_file(source, "holds the index {}; at most 2^63 - 1 is allowed; save int64 with -1 for none",
                     value);
    }
  }
  return static_cast<std::int64_t>(value);
}

template <class T>
void read_indices(const Source& source, const NpyHeader& header, std::vector<std::int64_t>& to) {
  const std::byte* from = source.bytes.data() + header.offset;
  const std::size_t rows = header.shape[0];
  const std::size_t columns = header.shape[1];
  FrontToBack pass(source);
  for (std::size_t i = 0; i < rows; ++i) {
    if (!header.fortran) pass.reached(from + i * columns * sizeof(T));
    for (std::size_t j = 0; j < columns; ++j) {
      const std::size_t element = header.fortran ? j * rows + i : i * columns + j;
      to[i * columns + j] = widen(source, load<T>(from + element * sizeof(T), header.swap));
    }
  }
}

// `shape` as Python writes it: "(3, 2)", "(3,)".
void write_header(AtomicFile& out, std::string_view descr, const std::string& shape) {
  out.write(npy_header(descr, shape));
}

}  // namespace

bool is_npy(const Source& source) {
  return source.starts_with(npy_magic);
}

FileInfo inspect_npy(const Source& source) {
  const NpyHeader header = parse_npy_rows(source);
  FileInfo info;
  info.element_type = npy_element_type(header);
  info.rows = static_cast<std::int64_t>(header.shape[0]);
  info.dim = static_cast<std::int64_t>(header.shape[1]);
  info.details.emplace_back("version", fmt::format("{}.0", header.version));
  info.details.emplace_back("order", header.fortran ? "Fortran" : "C");
  info.details.emplace_back("byte order", header.swap ? "big" : "little");
  return info;
}

std::string npy_header(std::string_view descr, const std::string& shape) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  // Elements start at a multiple of 64, so that the file can be memory-mapped.
  const std::size_t start = npy_magic.size() + 4;
  const std::size_t padded = (start + dict.size() + 1 + 63) / 64 * 64;
  dict.append(padded - start - dict.size() - 1, ' ');
  dict += '\n';
  const auto length = static_cast<std::uint16_t>(dict.size());
  std::string header(npy_magic);
  header.append("\x01\x00", 2);
  header.append(reinterpret_cast<const char*>(&length), sizeof length);
  return header + dict;
}

NpyRows npy_rows(const Source& source) {
  const NpyHeader header = parse_npy_rows(source);
  const auto dtype = dtype_of(header);
  if (!dtype) {
    throw bad_file(source,
                   "holds {} elements, which are indices to Kith, not vectors; convert with "
                   "x.astype('float32') or x.astype('float64')",
                   npy_element_type(header));
  }
  NpyRows layout;
  layout.offset = header.offset;
  layout.dtype = *dtype;
  layout.rows = static_cast<std::int64_t>(header.shape[0]);
  layout.dim = static_cast<std::int64_t>(header.shape[1]);
  layout.swap = header.swap && header.element > 1;
  layout.columns_first = header.fortran && layout.rows > 1 && layout.dim > 1;
  return layout;
}

Dataset read_npy(const Source& source, const ReadOptions& options) {
  const NpyRows header = npy_rows(source);
  const std::int64_t rows = header.rows;
  const std::int64_t dim = header.dim;
  const RowRange range = wanted_rows(source, options, rows);
  const bool swap = header.swap;
  const bool columns_first = header.columns_first;
  if (!columns_first && !swap) return view_rows(source, header.offset, header.dtype, range, dim, dim);

  Dataset result = Dataset::allocate(header.dtype, range.count, dim);
  auto* to = static_cast<std::byte*>(result.mutable_data());
  const std::size_t element = size_of(header.dtype);
  const auto width = static_cast<std::size_t>(dim);
  const auto count = static_cast<std::size_t>(range.count);
  const auto first = static_cast<std::size_t>(range.first);
  const std::byte* from = source.bytes.data() + header.offset;
  if (columns_first) {
    const auto height = static_cast<std::size_t>(rows);
    constexpr std::size_t block = 64;  // rows a block: reads and writes both stay in cache
    for (std::size_t i0 = 0; i0 < count; i0 += block) {
      for (std::size_t j = 0; j < width; ++j) {
        for (std::size_t i = i0; i < std::min(count, i0 + block); ++i) {
          std::memcpy(to + (i * width + j) * element, from + (j * height + first + i) * element, element);
        }
      }
    }
  } else {
    FrontToBack pass(source);
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* row = from + (first + i) * width * element;
      pass.reached(row);
      std::memcpy(to + i * width * element, row, width * element);
    }
  }
  if (swap) swap_elements(to, count * width, element);
  return result;
}

std::string_view npy_descr(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "<f4";
    case Dtype::f16: return "<f2";
    case Dtype::bf16: return "<V2";
    case Dtype::i8: return "|i1";
    case Dtype::u8: return "|u1";
    case Dtype::f64: break;
  }
  return "<f8";
}

void write_npy(AtomicFile& out, const DatasetView& data) {
  write_header(out, npy_descr(data.dtype), fmt::format("({}, {})", data.rows, data.dim));
  write_rows(out, data);
}

void write_npy_header(AtomicFile& out, std::string_view descr, std::int64_t count) {
  write_header(out, descr, fmt::format("({},)", count));
}

Neighbors read_neighbors_npy(const Source& source) {
  const NpyHeader header = parse_npy_rows(source);
  if (header.kind != 'i' && header.kind != 'u') {
    throw bad_file(
        source,
        "holds {} elements; neighbours are indices of type int32, int64, uint32 or uint64; name the "
        "file of indices",
        npy_element_type(header));
  }
  Neighbors result =
      empty_neighbors(static_cast<std::int64_t>(header.shape[0]), static_cast<std::int64_t>(header.shape[1]));
  const bool is_signed = header.kind == 'i';
  if (header.element == 4) {
    is_signed ? read_indices<std::int32_t>(source, header, result.indices)
              : read_indices<std::uint32_t>(source, header, result.indices);
  } else if (header.element == 8) {
    is_signed ? read_indices<std::int64_t>(source, header, result.indices)
              : read_indices<std::uint64_t>(source, header, result.indices);
  } else {
    throw bad_file(
        source,
        "holds {} elements; neighbours are indices of type int32, int64, uint32 or uint64; convert "
        "with x.astype('int64')",
        npy_element_type(header));
  }
  return result;
}

RowSet read_row_set_npy(const Source& source, std::int64_t rows) {
  NpyHeader header = parse_npy_header(source, true);
  if (header.shape.size() != 1) {
    throw bad_file(
        source,
        "holds an array of {}; a set of rows is an array of one: bool with a flag a row, or integers, "
        "the numbers of the rows; save x.ravel()",
        plural(static_cast<std::int64_t>(header.shape.size()), "dimension"));
  }
  check_shape(source, header.shape[0], 1);
  const std::uint64_t available = source.size() - header.offset;
  if (total_bytes(header.shape[0], header.element) != available) {
    throw bad_file(source,
                   "is truncated or corrupt: its header claims {} elements of {}, the file has {} for them",
                   header.shape[0], plural(static_cast<std::int64_t>(header.element), "byte"),
                   plural(static_cast<std::int64_t>(available), "byte"));
  }
  const auto count = static_cast<std::size_t>(header.shape[0]);
  if (header.kind == 'b') {
    if (static_cast<std::int64_t>(count) != rows) {
      throw bad_file(source, "holds {} for {}; a flag for each is needed",
                     plural(static_cast<std::int64_t>(count), "flag"), plural(rows, "row"));
    }
    return RowSet::from_flags(
        {reinterpret_cast<const std::uint8_t*>(source.bytes.data() + header.offset), count});
  }
  if ((header.kind != 'i' && header.kind != 'u') || header.element < 4) {
    throw bad_file(source,
                   "holds {} elements; a set of rows is bool with a flag a row, or int32, int64, uint32 or "
                   "uint64, the numbers of the rows; convert with x.astype(bool)",
                   npy_element_type(header));
  }
  std::vector<std::int64_t> numbers(count);
  header.shape.push_back(1);
  const bool is_signed = header.kind == 'i';
  if (header.element == 4) {
    is_signed ? read_indices<std::int32_t>(source, header, numbers)
              : read_indices<std::uint32_t>(source, header, numbers);
  } else {
    is_signed ? read_indices<std::int64_t>(source, header, numbers)
              : read_indices<std::uint64_t>(source, header, numbers);
  }
  return row_set_of(source, rows, numbers);
}

void write_indices_npy(AtomicFile& out, const Neighbors& neighbors) {
  write_header(out, "<i8", fmt::format("({}, {})", neighbors.queries, neighbors.k));
  out.write(neighbors.indices.data(), neighbors.indices.size() * sizeof(std::int64_t));
}

}  // namespace kith::io
