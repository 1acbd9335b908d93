// export_graph: the graph as rows and their neighbours, and files that appear together or not at all.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/search_checks.hpp"
#include "graph_files/written.hpp"
#include "kith/error.hpp"
#include "kith/graph_files.hpp"
#include "vamana/parts.hpp"

namespace kith {

std::vector<std::filesystem::path> export_graph(const Vamana& index, const std::filesystem::path& path,
                                                GraphFormat format, const Execution& execution) {
  using namespace graph_files;
  if (format == GraphFormat::bang) {
    throw InvalidArgument(
        "BANG's files are read only; write diskann-disk, which BANG's own script turns into them");
  }
  const vamana::Contents& contents = vamana::Parts::of(index);
  return or_out_of_memory(
      [&] { return fmt::format("the graph of {} rows as {}", index.rows(), name(format)); },
      [&] {
        Written written{
            .graph = row_graph(contents, execution),
            .rows = contents.dataset.view(),
            .metric = index.metric(),
            // 0 where there are no rows yet; a reader may add some by it.
            .build_list = std::max(index.parameters().build_list_size, index.parameters().max_degree),
            .layers = unpack(contents.layers, contents.built.graph.nodes,
                             contents.layers.empty() ? 0 : vamana::hash(contents.built.graph))};
        const bool floats = format == GraphFormat::hnswlib || format == GraphFormat::faiss;
        if (floats) {
          check_floats(written, name(format));
        } else {
          (void)diskann_dtype(written);
        }
        std::vector<std::filesystem::path> paths = {path};
        if (format == GraphFormat::diskann) paths.emplace_back(path).concat(".data");
        std::vector<AtomicFile> files;
        for (const auto& its : paths) files.emplace_back(its, execution.cancelled);
        ProgressCounter progress(
            execution, "writing",
            static_cast<std::int64_t>(paths.size()) * std::max<std::int64_t>(1, index.rows()));
        switch (format) {
          case GraphFormat::diskann:
            write_diskann(files[0], written, progress);
            write_diskann_data(files[1], written, progress);
            break;
          case GraphFormat::diskann_disk: write_diskann_disk(files[0], written, progress); break;
          case GraphFormat::hnswlib: write_hnswlib(files[0], written, progress); break;
          case GraphFormat::faiss: write_faiss(files[0], written, progress); break;
          case GraphFormat::bang: break;
        }
        progress.finish();
        commit_all(files);
        return paths;
      });
}

}  // namespace kith
