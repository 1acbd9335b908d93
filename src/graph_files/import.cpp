// import_graph: which format, whose rows, and from there an index.
#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/plural.hpp"
#include "core/search_checks.hpp"
#include "graph_files/graph_file.hpp"
#include "io/stream_file.hpp"
#include "kith/error.hpp"
#include "vamana/parts.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using graph_files::GraphFile;
using graph_files::Hints;

constexpr std::string_view bang_ending = "_disk.bin";
constexpr const char* data_ending = ".data";

// P_disk_metadata.bin of P_disk.bin; empty where the name is another.
fs::path bang_metadata(const fs::path& path) {
  const std::string shown = io::shown_name(path);
  if (!shown.ends_with(bang_ending)) return {};
  return shown.substr(0, shown.size() - bang_ending.size()) + "_disk_metadata.bin";
}

fs::path with_ending(const fs::path& path, const char* ending) {
  fs::path out = path;
  return out += ending;
}

GraphFormat format_of(const io::Source& source) {
  std::error_code none;
  const fs::path metadata = bang_metadata(source.path);
  if (!metadata.empty() && fs::exists(metadata, none)) return GraphFormat::bang;
  if (graph_files::is_faiss(source)) return GraphFormat::faiss;
  if (graph_files::is_hnswlib(source)) return GraphFormat::hnswlib;
  if (graph_files::is_diskann_disk(source)) return GraphFormat::diskann_disk;
  if (graph_files::is_diskann(source)) return GraphFormat::diskann;
  throw bad_file(
      source,
      "is no graph that Kith knows, or it is truncated: it starts neither as files of DiskANN, hnswlib or "
      "faiss, nor is BANG's P_disk_metadata.bin beside it; name the format to see what is wrong with it");
}

// The metric to search with: what was asked for, unless the file says that its graph is of another.
Metric metric_for(const io::Source& source, std::optional<Metric> asked, std::optional<Metric> said) {
  if (!said) return asked.value_or(Metric::sqeuclidean);
  if (!asked || *asked == *said || *asked == Metric::cosine) return asked.value_or(*said);
  if (*said == Metric::sqeuclidean && *asked == Metric::euclidean) return *asked;
  throw InvalidArgument(
      fmt::format("'{}' says that its graph is of the metric {}, not {}; leave the metric out", source.name,
                  name(*said), name(*asked)));
}

// The rows of the nodes.
Dataset rows_for(const io::Source& source, GraphFormat format, const GraphFile& file,
                 const GraphImport& options, const Execution& execution) {
  Dataset rows = file.vectors;
  if (options.vectors) {
    rows = *options.vectors;
    validate(rows, "vectors");
  } else if (format == GraphFormat::diskann) {
    const fs::path data = with_ending(source.name, data_ending);
    std::error_code none;
    if (!fs::exists(data, none)) {
      throw IoError(
          fmt::format("'{}' is DiskANN's graph alone, and there is no '{}' with its rows; name the file of "
                      "the rows, in any format",
                      source.name, data.string()));
    }
    rows = graph_files::read_data(io::open_source(data, execution.cancelled), options.dtype);
  }
  if (rows.rows() != file.graph.nodes) {
    throw InvalidArgument(
        fmt::format("the graph '{}' has {}, there are {} for it; name the rows it was built from",
                    source.name, plural(file.graph.nodes, "node"), plural(rows.rows(), "row")));
  }
  return rows;
}

// Codes of all values: a list then finds what it finds on the rows.
VamanaParameters parameters_for(const GraphFile& file, Metric metric, std::int64_t dim) {
  VamanaParameters parameters{
      .metric = metric, .max_degree = file.graph.max_degree, .code_bits = 8, .code_dim = dim};
  constexpr std::int64_t longest_build_list = 65536;
  if (file.build_list > 0) {
    parameters.build_list_size = std::clamp(file.build_list, parameters.max_degree, longest_build_list);
  }
  return parameters;
}

GraphFile read(const io::Source& source, GraphFormat format, const Hints& hints) {
  switch (format) {
    case GraphFormat::diskann: return read_diskann(source, hints);
    case GraphFormat::diskann_disk: return read_diskann_disk(source, hints);
    case GraphFormat::hnswlib: return read_hnswlib(source, hints);
    case GraphFormat::faiss: return read_faiss(source, hints);
    case GraphFormat::bang: break;
  }
  const fs::path metadata = bang_metadata(source.path);
  if (metadata.empty()) {
    throw InvalidArgument(fmt::format(
        "'{}' is to be BANG's, whose files are P_disk.bin and P_disk_metadata.bin; name the first of them",
        source.name));
  }
  return read_bang(source, io::open_source(metadata), hints);
}

// A disk index for inner products holds other rows than it was built from.
void refuse_scaled(const io::Source& source, GraphFormat format, const GraphImport& options) {
  if (format != GraphFormat::diskann_disk || options.vectors) return;
  constexpr std::string_view ending = "_disk.index";
  const std::string path = source.path.string();
  std::error_code none;
  if (!path.ends_with(ending)) return;
  const fs::path norm = path.substr(0, path.size() - 6) + ".index_max_base_norm.bin";
  if (!fs::exists(norm, none)) return;
  throw InvalidArgument(fmt::format(
      "'{}' was built for inner products: its rows are scaled and have a dimension more ('{}' is beside "
      "it); name the rows it was built from",
      source.name, norm.string()));
}

}  // namespace

std::vector<fs::path> graph_files::files_beside(const fs::path& path, GraphFormat format, bool rows) {
  if (format == GraphFormat::bang) return {bang_metadata(path)};
  if (format == GraphFormat::diskann && rows) return {with_ending(path, data_ending)};
  return {};
}

GraphFormat guess_graph_format(const fs::path& path) {
  return format_of(io::open_source(path));
}

ImportedGraph import_graph(const fs::path& path, const GraphImport& options, const Execution& execution) {
  const io::Source source = io::open_source(path, execution.cancelled);
  const GraphFormat format = options.format ? *options.format : format_of(source);
  if (options.metric) check_metric(Vamana::index_type, *options.metric);
  if (options.dtype && options.vectors) {
    throw InvalidArgument(
        "the element type is of the file's own rows, and others are given; leave one of them out");
  }
  refuse_scaled(source, format, options);
  return or_out_of_memory(
      [&] { return fmt::format("the graph '{}'", source.name); },
      [&] {
        GraphFile file = read(source, format,
                              {.dtype = options.dtype, .vectors = !options.vectors, .execution = execution});
        if (!file.labels.empty() && !options.any_labels) {
          throw InvalidArgument(
              fmt::format("the labels of '{}' are not 0 to {} ({} to {}), and Kith's answers are numbers of "
                          "rows; ask for rows in "
                          "the order of their labels, which are then given",
                          source.name, file.graph.nodes - 1, file.labels.front(), file.labels.back()));
        }
        const Dataset rows = rows_for(source, format, file, options, execution);
        const VamanaParameters parameters =
            parameters_for(file, metric_for(source, options.metric, file.metric), rows.dim());
        const std::uint64_t hash = vamana::hash(file.graph);
        return ImportedGraph{.index = vamana::Parts::assemble(rows, std::move(file.graph), parameters,
                                                              pack(file.layers, hash), execution),
                             .format = format,
                             .labels = std::move(file.labels)};
      });
}

}  // namespace kith
