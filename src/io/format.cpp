// The table of formats, and recognition by extension and by content.
#include "io/format.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <system_error>

#include "core/int128.hpp"
#include "core/mapped_file.hpp"
#include "core/plural.hpp"
#include "io/stream_file.hpp"

namespace kith::io {
namespace {

constexpr std::array table = {
    Format{FileFormat::fvecs, "fvecs", ".fvecs", nullptr, inspect_fvecs, read_fvecs, write_fvecs, nullptr,
           nullptr, true},
    Format{FileFormat::bvecs, "bvecs", ".bvecs", nullptr, inspect_bvecs, read_bvecs, write_bvecs, nullptr,
           nullptr, true},
    Format{FileFormat::ivecs, "ivecs", ".ivecs", nullptr, inspect_ivecs, nullptr, nullptr,
           read_neighbors_ivecs},
    Format{FileFormat::fbin, "fbin", ".fbin", nullptr, inspect_fbin, read_fbin, write_fbin, nullptr, nullptr,
           true},
    Format{FileFormat::u8bin, "u8bin", ".u8bin", nullptr, inspect_u8bin, read_u8bin, write_u8bin, nullptr,
           nullptr, true},
    Format{FileFormat::i8bin, "i8bin", ".i8bin", nullptr, inspect_i8bin, read_i8bin, write_i8bin, nullptr,
           nullptr, true},
    Format{FileFormat::ibin, "ibin", ".ibin .bin", nullptr, inspect_ibin, nullptr, nullptr,
           read_neighbors_ibin},
    Format{FileFormat::npy, "npy", ".npy", is_npy, inspect_npy, read_npy, write_npy, read_neighbors_npy,
           stream_npy},
    Format{FileFormat::hdf5, "hdf5", ".h5 .hdf5", is_hdf5, inspect_hdf5, read_hdf5, write_hdf5,
           read_neighbors_hdf5},
    Format{FileFormat::pcd, "pcd", ".pcd", is_pcd, inspect_pcd, read_pcd, write_pcd, nullptr, stream_pcd},
    Format{FileFormat::ply, "ply", ".ply", is_ply, inspect_ply, read_ply, write_ply, nullptr, stream_ply},
    Format{FileFormat::las, "las", ".las .laz", is_las, inspect_las, read_las, write_las, nullptr,
           stream_las},
    Format{FileFormat::xyz, "xyz", ".xyz .csv .pts", nullptr, inspect_xyz, read_xyz, write_xyz, nullptr,
           stream_xyz},
    Format{FileFormat::json, "json", ".json", is_json, inspect_json, nullptr, nullptr, read_neighbors_json},
    Format{FileFormat::table, "table", ".txt", is_table, inspect_table, nullptr, nullptr,
           read_neighbors_table},
    Format{FileFormat::index, "index", ".kith .index", is_index, inspect_index, nullptr, nullptr, nullptr},
};

// Formats without magic are told by their sizes: does the header fit the file?
bool plausible(const Format& entry, const Source& source) {
  try {
    entry.inspect(source);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string known_extensions() {
  std::string list;
  for (const Format& entry : table) {
    list += list.empty() ? "" : " ";
    list += entry.extensions;
  }
  return list;
}

}  // namespace

std::string lower_extension(const std::filesystem::path& path) {
  std::string text = path.extension().string();
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::span<const Format> formats() noexcept {
  return table;
}

const Format& format_of(FileFormat format) {
  for (const Format& entry : table) {
    if (entry.format == format) return entry;
  }
  throw InvalidArgument(fmt::format("file format {} is out of range", static_cast<int>(format)));
}

const Format* format_by_extension(const std::filesystem::path& path) {
  const std::string wanted = lower_extension(path);
  if (wanted.empty()) return nullptr;
  for (const Format& entry : table) {
    std::string_view rest = entry.extensions;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(' '));
      if (one == wanted) return &entry;
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    }
  }
  return nullptr;
}

const Format* format_by_content(const Source& source) {
  for (const Format& entry : table) {
    if (entry.recognises != nullptr && entry.recognises(source)) return &entry;
  }
  return nullptr;
}

FileFormat guess_format(const Source& source, const std::filesystem::path& path, bool takes_format) {
  const Format* by_extension = format_by_extension(path);
  const Format* by_content = format_by_content(source);
  if (by_extension == nullptr) {
    if (by_content != nullptr) return by_content->format;
    throw InvalidArgument(fmt::format(
        "cannot tell the format of '{}' from its {} or its first bytes; {}rename it with one of the "
        "extensions {}",
        source.name, path.has_extension() ? fmt::format("extension '{}'", path.extension().string()) : "name",
        takes_format ? "name the format, or " : "", known_extensions()));
  }
  if (source.size() == 0 || by_content == by_extension) return by_extension->format;
  // A text file that is no table of results is a list of points.
  if (by_extension->format == FileFormat::table && by_content == nullptr) return FileFormat::xyz;
  if (by_extension->recognises != nullptr || (by_content != nullptr && !plausible(*by_extension, source))) {
    throw bad_file(source, "is not {} though its extension says so: {}; {}", by_extension->name,
                   by_content != nullptr
                       ? fmt::format("its content is {}", by_content->name)
                       : fmt::format("it does not start as {} files do", by_extension->name),
                   takes_format ? "name the format or rename the file" : "rename the file");
  }
  return by_extension->format;
}

Source open_source(const std::filesystem::path& path, std::function<bool()> cancelled) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    throw IoError(fmt::format("cannot read '{}': it is a folder; name a file", path.string()));
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw IoError(fmt::format("cannot read '{}': it is a device or a pipe; save its content to a file first",
                              path.string()));
  }
  auto file = MappedFile::open(path);
  Source source;
  source.bytes = file->bytes();
  source.map = file.get();
  source.cancelled = std::move(cancelled);
  source.name = shown_name(path);
  source.keep_alive = std::move(file);
  source.path = path;
  return source;
}

void FrontToBack::leave(const std::byte* at) {
  if (source_.map != nullptr) source_.map->release(left_, at);
  left_ = at;
  if (source_.cancelled && source_.cancelled()) {
    throw Cancelled(fmt::format("reading '{}' was cancelled", source_.name));
  }
}

void FrontToBack::jump(const std::byte* end, const std::byte* to) {
  // A page that is touched maps its neighbours with it: some, or all of a huge page that the kernel keeps.
  constexpr std::ptrdiff_t around = 4 << 20;
  const std::byte* begin = source_.bytes.data();
  if (source_.map != nullptr) {
    source_.map->release(left_ - std::min(around, left_ - begin),
                         end + std::min(around, begin + source_.bytes.size() - end));
  }
  left_ = to;
}

RowRange wanted_rows(const Source& source, const ReadOptions& options, std::int64_t rows) {
  if (options.first_row > rows) {
    throw InvalidArgument(
        fmt::format("first row {} is beyond the end of '{}', which has {}; ask for at most that",
                    options.first_row, source.name, plural(rows, "row")));
  }
  RowRange range{options.first_row, rows - options.first_row};
  if (options.max_rows >= 0) range.count = std::min(range.count, options.max_rows);
  return range;
}

bool fits(std::uint64_t rows, std::uint64_t row_bytes, std::uint64_t available) noexcept {
  const auto total = total_bytes(rows, row_bytes);
  return total && *total <= available;
}

std::optional<std::uint64_t> total_bytes(std::uint64_t rows, std::uint64_t row_bytes) noexcept {
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(rows, row_bytes, &total)) return std::nullopt;
  if (total > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return total;
}

void check_shape(const Source& source, std::uint64_t rows, std::uint64_t dim) {
  // Rows without bytes could claim any dimension; 2^40 is beyond any real one and keeps products small.
  constexpr std::uint64_t largest_dim = std::uint64_t{1} << 40U;
  constexpr std::uint64_t largest_rows = std::uint64_t{1} << 62U;
  if (dim < 1 || dim > largest_dim) {
    throw bad_file(source, "claims a dimension of {}; 1 to {} are allowed; the header is corrupt or foreign",
                   dim, largest_dim);
  }
  if (rows > largest_rows) {
    throw bad_file(source, "claims {} rows; at most {} are allowed; the header is corrupt or foreign", rows,
                   largest_rows);
  }
}

Dataset view_rows(const Source& source, std::uint64_t offset, Dtype dtype, RowRange range, std::int64_t dim,
                  std::int64_t row_stride) {
  if (range.count == 0) return Dataset::allocate(dtype, 0, dim);
  const std::size_t element = size_of(dtype);
  const std::byte* first =
      source.bytes.data() + offset +
      static_cast<std::uint64_t>(range.first) * static_cast<std::uint64_t>(row_stride) * element;
  const DatasetView view(first, dtype, range.count, dim, row_stride);
  const bool aligned = reinterpret_cast<std::uintptr_t>(first) % element == 0;
  return aligned ? Dataset::adopt(view, source.keep_alive) : Dataset::copy(view);
}

void write_rows(AtomicFile& out, const DatasetView& data) {
  const std::size_t row_bytes = static_cast<std::size_t>(data.dim) * size_of(data.dtype);
  if (data.contiguous()) {
    out.write(data.data, static_cast<std::size_t>(data.rows) * row_bytes);
    return;
  }
  for (std::int64_t i = 0; i < data.rows; ++i) out.write(data.row(i), row_bytes);
}

void refuse_dtype(std::string_view format, std::string_view holds, Dtype dtype) {
  throw InvalidArgument(
      fmt::format("{} files hold {}, the data are {}; write npy, which holds every element type, or convert "
                  "the data first",
                  format, holds, kith::name(dtype)));
}

Neighbors empty_neighbors(std::int64_t queries, std::int64_t k) {
  Neighbors result;
  result.queries = queries;
  result.k = k;
  const auto count = static_cast<std::size_t>(queries) * static_cast<std::size_t>(k);
  try {
    result.indices.assign(count, -1);
    result.distances = std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
  } catch (const std::exception&) {  // bad_alloc, length_error
    throw OutOfMemory(fmt::format("no memory for the neighbours of {} queries, {} each ({} bytes)", queries,
                                  k, static_cast<double>(count) * 12.0));
  }
  return result;
}

}  // namespace kith::io

namespace kith {

std::string_view name(FileFormat format) noexcept {
  for (const io::Format& entry : io::formats()) {
    if (entry.format == format) return entry.name;
  }
  return "?";
}

FileFormat guess_format(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    const io::Source source = io::open_source(path);
    return io::guess_format(source, source.name, true);
  }
  const io::Format* entry = io::format_by_extension(path);
  if (entry == nullptr) {
    throw InvalidArgument(fmt::format("cannot tell a format from the extension '{}' of '{}'; use one of {}",
                                      path.extension().string(), path.string(), io::known_extensions()));
  }
  return entry->format;
}

}  // namespace kith
