// Results: which files a result consists of, and writing all of them or none.
#include <new>
#include <system_error>

#include "io/format.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view indices_suffix = ".indices.npy";
constexpr std::string_view distances_suffix = ".distances.npy";

bool there_is(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// "r", "r.npy" and "r.indices.npy" all name the pair r.indices.npy and r.distances.npy.
std::string stem_of_pair(const fs::path& path) {
  std::string text = path.string();
  for (const std::string_view suffix : {indices_suffix, std::string_view(".npy")}) {
    if (text.ends_with(suffix)) return text.substr(0, text.size() - suffix.size());
  }
  return text;
}

fs::path with_suffix(const std::string& stem, std::string_view suffix) {
  return stem + std::string(suffix);
}

DatasetView distances_view(const Neighbors& neighbors) {
  return std::visit(
      [&](const auto& held) { return DatasetView(held.data(), neighbors.queries, neighbors.k); },
      neighbors.distances);
}

// Distances kept in a second file beside the indices.
void attach_distances(Neighbors& neighbors, const fs::path& indices, const fs::path& path,
                      const io::Format& format) {
  const io::Source source = io::open_source(path);
  const Dataset distances = format.read(source, {});
  if (distances.rows() != neighbors.queries || distances.dim() != neighbors.k) {
    throw io::bad_file(source,
                       "holds {} x {} distances, '{}' {} x {} indices; they do not belong together: "
                       "rename one of them",
                       distances.rows(), distances.dim(), indices.string(), neighbors.queries, neighbors.k);
  }
  const Dataset packed = distances.view().contiguous() ? distances : Dataset::copy(distances);
  const std::size_t count = neighbors.indices.size();
  if (packed.dtype() == Dtype::f32) {
    const auto* from = static_cast<const float*>(packed.view().data);
    neighbors.distances = std::vector<float>(from, from + count);
  } else if (packed.dtype() == Dtype::f64) {
    const auto* from = static_cast<const double*>(packed.view().data);
    neighbors.distances = std::vector<double>(from, from + count);
  } else {
    throw io::bad_file(source, "holds {} elements; distances are f32 or f64", name(packed.dtype()));
  }
}

void check(const Neighbors& neighbors) {
  const auto count = std::visit([](const auto& held) { return held.size(); }, neighbors.distances);
  if (neighbors.queries < 0 || neighbors.k < 0 || neighbors.indices.size() != count ||
      (neighbors.k > 0 &&
       count / static_cast<std::size_t>(neighbors.k) != static_cast<std::size_t>(neighbors.queries)) ||
      (neighbors.k > 0 && count % static_cast<std::size_t>(neighbors.k) != 0) ||
      (neighbors.k == 0 && count != 0)) {
    throw InvalidArgument(fmt::format(
        "a result of {} queries and k = {} needs that many indices and distances; it has {} and {}",
        neighbors.queries, neighbors.k, neighbors.indices.size(), count));
  }
  if (neighbors.k == 0) {
    throw InvalidArgument("a result with k = 0 cannot be written; at least 1 neighbour a query is needed");
  }
}

}  // namespace

std::vector<fs::path> io::neighbor_files(const fs::path& path, FileFormat format) {
  switch (format) {
    case FileFormat::npy: {
      const std::string stem = stem_of_pair(path);
      return {with_suffix(stem, indices_suffix), with_suffix(stem, distances_suffix)};
    }
    case FileFormat::ivecs: return {path, fs::path(path).replace_extension(".fvecs")};
    default: return {path};
  }
}

std::vector<fs::path> write_neighbors(const fs::path& path, const Neighbors& neighbors,
                                      const WriteOptions& options) {
  check(neighbors);
  FileFormat format = FileFormat::npy;
  if (options.format) {
    format = *options.format;
  } else if (path.has_extension()) {
    const io::Format* entry = io::format_by_extension(path);
    if (entry == nullptr || entry->read_neighbors == nullptr) {
      throw InvalidArgument(
          fmt::format("cannot write results to '{}': {}; use no extension (a pair of npy files), .ivecs, "
                      ".ibin, .bin, .json, .txt, .h5 or .hdf5",
                      path.string(),
                      entry == nullptr ? fmt::format("'{}' names no format", path.extension().string())
                                       : fmt::format("{} holds no results", entry->name)));
    }
    format = entry->format;
  }
  // Every temporary is complete before the first rename.
  const std::vector<fs::path> paths = io::neighbor_files(path, format);
  std::vector<AtomicFile> files;
  files.reserve(paths.size());
  const auto file = [&]() -> AtomicFile& {
    return files.emplace_back(paths[files.size()], options.cancelled);
  };
  switch (format) {
    case FileFormat::npy:
      io::write_indices_npy(file(), neighbors);
      io::write_npy(file(), distances_view(neighbors));
      break;
    case FileFormat::ivecs: {
      if (neighbors.distance_dtype() != Dtype::f32) {
        throw InvalidArgument(
            "fvecs files beside ivecs hold float32 distances, the result has float64; write npy, hdf5 or "
            "json, "
            "which hold both");
      }
      io::write_neighbors_ivecs(file(), neighbors);
      io::write_fvecs(file(), distances_view(neighbors));
      break;
    }
    case FileFormat::ibin: io::write_neighbors_ibin(file(), neighbors); break;
    case FileFormat::json: io::write_neighbors_json(file(), neighbors); break;
    case FileFormat::table: io::write_neighbors_table(file(), neighbors); break;
    case FileFormat::hdf5: io::write_neighbors_hdf5(file(), neighbors); break;
    default:
      throw InvalidArgument(
          fmt::format("{} holds no results; use npy, ivecs, ibin, json, table or hdf5", name(format)));
  }
  commit_all(files);
  return paths;
}

Neighbors read_neighbors(const fs::path& path, std::optional<FileFormat> named,
                         const std::function<bool()>& cancelled) try {
  fs::path file = path;
  // "r" and "r.npy" name the pair unless there is a file of just that name.
  if (!there_is(path)) {
    const fs::path indices = with_suffix(stem_of_pair(path), indices_suffix);
    if (there_is(indices)) file = indices;
  }
  const io::Source source = io::open_source(file, cancelled);
  const FileFormat format = named ? *named : io::guess_format(source, source.name, false);
  const io::Format& entry = io::format_of(format);
  if (entry.read_neighbors == nullptr) {
    throw io::bad_file(source,
                       "is {}, which holds no neighbours; files that do are npy, ivecs, ibin, hdf5, json and "
                       "table",
                       entry.name);
  }
  Neighbors result = entry.read_neighbors(source);
  if (format == FileFormat::npy && file.string().ends_with(indices_suffix)) {
    const fs::path distances = with_suffix(stem_of_pair(file), distances_suffix);
    if (there_is(distances)) attach_distances(result, file, distances, entry);
  } else if (format == FileFormat::ivecs) {
    const fs::path distances = fs::path(file).replace_extension(".fvecs");
    if (there_is(distances)) attach_distances(result, file, distances, io::format_of(FileFormat::fvecs));
  }
  return result;
} catch (const std::bad_alloc&) {
  throw OutOfMemory(fmt::format("no memory to read the neighbours in '{}'", path.string()));
}

}  // namespace kith
