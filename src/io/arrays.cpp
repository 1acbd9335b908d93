// What is written beyond datasets and k-neighbour results: points with columns, rows of a LAS file, arrays of
// one dimension, the rows within a radius.
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/plural.hpp"
#include "io/format.hpp"
#include "io/point_copy.hpp"
#include "kith/neighbors.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;

// The format an output has by its extension or by name, or an error that names `wanted`.
FileFormat output_format(const fs::path& path, const WriteOptions& options, const char* what,
                         const char* wanted) {
  const io::Format* entry = options.format ? &io::format_of(*options.format) : io::format_by_extension(path);
  if (entry == nullptr) {
    throw InvalidArgument(fmt::format("cannot write {} to '{}': its extension names no format; use {}", what,
                                      path.string(), wanted));
  }
  return entry->format;
}

[[noreturn]] void refuse(FileFormat format, const char* what, const char* wanted) {
  throw InvalidArgument(fmt::format("{} files hold no {}; use {}", name(format), what, wanted));
}

void refuse_laz(const fs::path& path) {
  if (path.extension() != ".laz") return;
  throw InvalidArgument(
      fmt::format("cannot write '{}': compressed LAS is not supported; write .las", path.string()));
}

AtomicFile open_npy(const fs::path& path, const WriteOptions& options) {
  const FileFormat format = output_format(path, options, "an array", ".npy");
  if (format != FileFormat::npy) refuse(format, "plain arrays", ".npy");
  return AtomicFile(path, options.cancelled);
}

constexpr std::array<std::string_view, 3> radius_suffixes = {".offsets.npy", ".indices.npy",
                                                             ".distances.npy"};

// "r", "r.npy" and "r.offsets.npy" all name the three files of stem "r".
std::string stem_of_three(const fs::path& path) {
  std::string text = path.string();
  for (const std::string_view suffix : radius_suffixes) {
    if (text.ends_with(suffix)) return text.substr(0, text.size() - suffix.size());
  }
  if (text.ends_with(".npy")) return text.substr(0, text.size() - 4);
  return text;
}

void check(const RadiusNeighbors& neighbors) {
  const auto distances = std::visit([](const auto& held) { return held.size(); }, neighbors.distances);
  const bool fit = neighbors.queries >= 0 && neighbors.indices.size() == distances &&
                   neighbors.offsets.size() == static_cast<std::size_t>(neighbors.queries) + 1 &&
                   neighbors.offsets.front() == 0 &&
                   neighbors.offsets.back() == static_cast<std::int64_t>(distances);
  if (!fit) {
    throw InvalidArgument(fmt::format(
        "a result of {} queries needs one offset more, the last of them the number of neighbours; it has {} "
        "offsets, {} indices and {} distances",
        neighbors.queries, neighbors.offsets.size(), neighbors.indices.size(), distances));
  }
}

}  // namespace

std::vector<fs::path> io::radius_files(const fs::path& path) {
  std::vector<fs::path> files;
  for (const std::string_view suffix : radius_suffixes) {
    files.emplace_back(stem_of_three(path) + std::string(suffix));
  }
  return files;
}

fs::path io::rows_file(const fs::path& first) {
  fs::path stem = first.parent_path() / first.stem();
  if (stem.extension() == ".indices") stem.replace_extension();
  return stem += ".rows.npy";
}

void write_points(const fs::path& path, const DatasetView& points, const PointColumns& columns,
                  const WriteOptions& options) {
  constexpr const char* wanted = ".ply or .pcd";
  validate(points, "points to write");
  if (!columns.names.empty()) validate(columns.values, "columns to write");
  if (points.space != MemorySpace::host || columns.values.space != MemorySpace::host) {
    throw InvalidArgument("data to write lie on a device; copy them to host memory first");
  }
  const FileFormat format = output_format(path, options, "points with columns", wanted);
  if (format != FileFormat::ply && format != FileFormat::pcd) refuse(format, "further columns", wanted);
  AtomicFile out(path, options.cancelled);
  (format == FileFormat::ply ? io::write_ply_columns : io::write_pcd_columns)(out, points, columns);
  out.commit();
}

void copy_points(const fs::path& path, const fs::path& from, const PointColumns& columns, const RowSet* kept,
                 const WriteOptions& options) {
  constexpr const char* wanted = ".las or .ply";
  if (!columns.names.empty()) validate(columns.values, "columns to write");
  if (columns.values.space != MemorySpace::host) {
    throw InvalidArgument("data to write lie on a device; copy them to host memory first");
  }
  const FileFormat format = output_format(path, options, "points with their attributes", wanted);
  if (format != FileFormat::las && format != FileFormat::ply) refuse(format, "all attributes", wanted);
  refuse_laz(path);
  const io::Source source = io::open_source(from, options.cancelled);
  if (const FileFormat read = io::guess_format(source, source.name, false); read != format) {
    throw InvalidArgument(
        fmt::format("cannot write '{}': points keep their attributes in a file of the format they come from, "
                    "'{}' is {}; name an output of that format (las or ply)",
                    path.string(), source.name, name(read)));
  }
  const auto rows = io::format_of(format).inspect(source).rows;
  io::PointChanges changes;
  changes.names = columns.names;
  std::unique_ptr<io::PointStream> values;
  if (!columns.names.empty()) {
    if (columns.values.rows != rows) {
      throw InvalidArgument(fmt::format("'{}' has {}, the columns have {}; give one for each", source.name,
                                        plural(rows, "point"), plural(columns.values.rows, "row")));
    }
    changes.type = columns.values.dtype;
    values = io::stream_rows(Dataset::adopt(columns.values, nullptr));
    changes.values = values.get();
  }
  if (kept != nullptr) {
    if (kept->rows() != rows) {
      throw InvalidArgument(fmt::format("'{}' has {}, the points kept are some of {}; give a set of its rows",
                                        source.name, plural(rows, "point"), kept->rows()));
    }
    changes.dropped = [kept](std::int64_t first, std::span<std::uint8_t> flags) {
      for (std::uint8_t& flag : flags) flag = kept->contains(first++) ? 0 : 1;
    };
  }
  AtomicFile out(path, options.cancelled);
  (format == FileFormat::las ? io::copy_las : io::copy_ply)(out, source, changes);
  out.commit();
}

void write_las_rows(const fs::path& path, const fs::path& from, std::span<const std::int64_t> rows,
                    const WriteOptions& options) {
  const FileFormat format = output_format(path, options, "LAS points", ".las");
  if (format != FileFormat::las) refuse(format, "LAS points", ".las");
  refuse_laz(path);
  const io::Source source = io::open_source(from);
  AtomicFile out(path, options.cancelled);
  io::write_las_rows(out, source, rows);
  out.commit();
}

void write_array(const fs::path& path, std::span<const std::int64_t> values, const WriteOptions& options) {
  AtomicFile out = open_npy(path, options);
  io::write_npy_header(out, "<i8", static_cast<std::int64_t>(values.size()));
  out.write(values.data(), values.size_bytes());
  out.commit();
}

void write_array(const fs::path& path, const std::vector<bool>& values, const WriteOptions& options) {
  AtomicFile out = open_npy(path, options);
  io::write_npy_header(out, "|b1", static_cast<std::int64_t>(values.size()));
  for (const bool value : values) out.write(value ? std::string_view("\1", 1) : std::string_view("\0", 1));
  out.commit();
}

std::vector<fs::path> write_radius_neighbors(const fs::path& path, const RadiusNeighbors& neighbors,
                                             const WriteOptions& options) {
  check(neighbors);
  if (options.format || path.has_extension()) {
    constexpr const char* wanted = "a name without extension, or .npy";
    const FileFormat format = output_format(path, options, "neighbours within a radius", wanted);
    if (format != FileFormat::npy) refuse(format, "neighbours within a radius", wanted);
  }
  // Every temporary is complete before the first rename.
  std::vector<fs::path> paths = io::radius_files(path);
  std::vector<AtomicFile> files;
  files.reserve(paths.size());
  for (const fs::path& file : paths) files.emplace_back(file, options.cancelled);
  io::write_npy_header(files[0], "<i8", neighbors.queries + 1);
  files[0].write(neighbors.offsets.data(), neighbors.offsets.size() * sizeof(std::int64_t));
  io::write_npy_header(files[1], "<i8", neighbors.offsets.back());
  files[1].write(neighbors.indices.data(), neighbors.indices.size() * sizeof(std::int64_t));
  io::write_npy_header(files[2], neighbors.distance_dtype() == Dtype::f32 ? "<f4" : "<f8",
                       neighbors.offsets.back());
  std::visit([&](const auto& held) { files[2].write(held.data(), held.size() * sizeof(held[0])); },
             neighbors.distances);
  commit_all(files);
  return paths;
}

}  // namespace kith
