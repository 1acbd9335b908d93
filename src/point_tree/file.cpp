#include "point_tree/file.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/int128.hpp"
#include "core/parallel.hpp"
#include "io/index_file.hpp"
#include "kith/error.hpp"
#include "kith/point_tree.hpp"
#include "point_tree/build.hpp"
#include "point_tree/tuning.hpp"

namespace kith::point_tree {
namespace {

// Everything that a walk follows: child numbers, ranges of points, row numbers. A file is data from somebody.
class Checker {
 public:
  Checker(const Tree& tree, const std::string& path, const Execution& execution)
      : tree_(tree), path_(path), stop_(execution) {}

  void check() {
    visit_tree(tree_, [&]<class T, class Id>() {
      expect_size("nodes", tree_.node_data.size(),
                  static_cast<int128>(tree_.nodes) * node_bytes<T>(tree_.dim));
      expect_size("coordinates", tree_.coordinates.size(),
                  static_cast<int128>(tree_.points) * tree_.dim * sizeof(T) + static_cast<int128>(read_past));
      expect_size("rows", tree_.row_numbers.size(),
                  static_cast<int128>(tree_.points) * sizeof(Id) + static_cast<int128>(read_past));
      check_nodes<T>();
      const auto* rows = reinterpret_cast<const Id*>(tree_.row_numbers.data());
      // A header may claim any number of rows with a NaN, for which the file has nothing: memory is taken for
      // so many bits as the points account for.
      const bool few = tree_.rows <= 64 * tree_.points;
      std::vector<bool> found(few ? static_cast<std::size_t>(tree_.rows) : 0);
      for (std::int64_t i = 0; i < tree_.points; ++i) {
        if (i % (1 << 22) == 0) stop_.check();
        if (static_cast<std::int64_t>(rows[i]) < 0 || static_cast<std::int64_t>(rows[i]) >= tree_.rows) {
          fail(fmt::format("point {} is row {} of {}", i, static_cast<std::int64_t>(rows[i]), tree_.rows));
        }
        if (!few) continue;
        auto before = found[static_cast<std::size_t>(rows[i])];
        if (before) fail(fmt::format("row {} is there twice", rows[i]));
        before = true;
      }
    });
    if (static_cast<int128>(tree_.rows) !=
        static_cast<int128>(tree_.points) + tree_.nan_rows + static_cast<int128>(tree_.infinite.size())) {
      fail(fmt::format("{} points, {} rows with a NaN and {} with an infinity are not its {} rows",
                       tree_.points, tree_.nan_rows, tree_.infinite.size(), tree_.rows));
    }
    expect_size("infinite_values", tree_.infinite_values.size_bytes(),
                static_cast<int128>(tree_.infinite.size()) * tree_.dim * 8);
    std::int64_t last = -1;
    for (const std::int64_t row : tree_.infinite) {
      if (row <= last || row >= tree_.rows) fail("its rows with an infinity are out of order");
      last = row;
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw IoError(fmt::format("'{}' is corrupt: {}", path_, why));
  }

  void expect_size(const char* what, std::size_t bytes, int128 wanted) const {
    if (static_cast<int128>(bytes) != wanted) {
      fail(fmt::format("its section '{}' has {} bytes, which do not fit its {} points of dimension {}", what,
                       bytes, tree_.points, tree_.dim));
    }
  }

  template <class T>
  void check_nodes() {
    std::int64_t expected = 0;
    if (tree_.nodes > 0) {
      std::int64_t at = 0;
      expected = node<T>(at, 0, tree_.points, 1);
      if (at != tree_.nodes) fail("a node is used twice or not at all");
    }
    if (expected != tree_.points) fail("its nodes do not hold every point once");
    if (levels_ != tree_.levels) fail("it is deeper than its header says");
  }

  // Nodes are in depth-first order, so each child that is a node is the next one.
  template <class T>
  std::int64_t node(std::int64_t& next, std::int64_t begin, std::int64_t end, std::int64_t level) {
    if (next >= tree_.nodes) fail("a node is missing");
    if (next % (1 << 16) == 0) stop_.check();
    levels_ = std::max(levels_, level);
    if (level > tree_.levels) fail("it is deeper than its header says");
    const std::byte* data = tree_.node_data.data() + next++ * node_bytes<T>(tree_.dim);
    NodeLinks links;
    std::memcpy(&links, data + 2 * tree_.dim * node_width * static_cast<std::int64_t>(sizeof(T)),
                sizeof links);
    if (links.count < 1 || links.count > node_width) fail(fmt::format("a node has {} children", links.count));
    if (links.begin[0] != begin || links.begin[links.count] != end)
      fail("a node's points are not its parent's");
    for (std::int64_t c = 0; c < links.count; ++c) {
      if (links.begin[c + 1] <= links.begin[c]) fail("a child has no points");
      if (links.child[c] == leaf_child || links.child[c] == identical_child) continue;
      if (links.child[c] != next) fail(fmt::format("a child is node {}, not {}", links.child[c], next));
      node<T>(next, links.begin[c], links.begin[c + 1], level + 1);
    }
    return end - begin;
  }

  const Tree& tree_;
  const std::string& path_;
  StopRequest stop_;
  std::int64_t levels_ = 0;
};

template <class T>
std::span<const T> typed(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

void save(const Tree& tree, const std::filesystem::path& path, const Execution& execution) {
  nlohmann::json header = {{"index", tree.index},
                           {"rows", tree.rows},
                           {"dim", tree.dim},
                           {"dtype", name(tree.dtype)},
                           {"metric", name(tree.metric)},
                           {"leaf_size", tree.leaf_size},
                           {"points", tree.points},
                           {"nan_rows", tree.nan_rows},
                           {"nodes", tree.nodes},
                           {"levels", tree.levels},
                           {"row_bytes", tree.wide_rows ? 8 : 4},
                           {"lower", tree.lower},
                           {"upper", tree.upper}};
  const Tree& held = on_host(tree);
  write_index_file(
      path, std::move(header),
      {bytes_section("nodes", held.node_data), bytes_section("coordinates", held.coordinates),
       bytes_section("rows", held.row_numbers), bytes_section("infinite", std::as_bytes(tree.infinite)),
       bytes_section("infinite_values", std::as_bytes(tree.infinite_values))},
      execution.cancelled);
}

std::shared_ptr<const Tree> load(const std::filesystem::path& path, const TreeType& type,
                                 const Execution& execution) {
  const std::string_view index = type.index;
  const IndexFile file = IndexFile::open(path, true, execution.cancelled);
  const auto& header = file.header();
  auto tree = std::make_shared<Tree>();
  tree->type = &type;
  try {
    tree->index = header.at("index").get<std::string>();
    if (tree->index != index) {
      throw IoError(fmt::format("'{}' holds an index of type {}, not {}", path.string(), tree->index, index));
    }
    tree->metric = parse_metric(header.at("metric").get<std::string>());
    tree->dtype = parse_dtype(header.at("dtype").get<std::string>());
    tree->rows = header.at("rows").get<std::int64_t>();
    tree->dim = header.at("dim").get<std::int64_t>();
    tree->leaf_size = header.at("leaf_size").get<std::int64_t>();
    tree->points = header.at("points").get<std::int64_t>();
    tree->nan_rows = header.at("nan_rows").get<std::int64_t>();
    tree->nodes = header.at("nodes").get<std::int64_t>();
    tree->levels = header.at("levels").get<std::int64_t>();
    const auto row_bytes = header.at("row_bytes").get<std::int64_t>();
    tree->lower = header.at("lower").get<std::vector<double>>();
    tree->upper = header.at("upper").get<std::vector<double>>();
    constexpr std::int64_t most = std::int64_t{1} << 48;
    const std::size_t box = tree->points > 0 ? static_cast<std::size_t>(tree->dim) : 0;
    if (tree->rows < 0 || tree->points < 0 || tree->nan_rows < 0 || tree->dim < 1 || tree->dim > most ||
        tree->nodes < 0 || tree->nodes > most || tree->levels < 0 || tree->levels > 4096 ||
        tree->leaf_size < 1 || (row_bytes != 4 && row_bytes != 8) || tree->lower.size() != box ||
        tree->upper.size() != box || !is_tree_metric(tree->metric)) {
      throw IoError(fmt::format("'{}' is corrupt: its header has a size out of range", path.string()));
    }
    tree->wide_rows = row_bytes == 8;
    tree->node_data = file.section("nodes");
    tree->coordinates = file.section("coordinates");
    tree->row_numbers = file.section("rows");
    tree->infinite = typed<std::int64_t>(file.section("infinite"));
    tree->infinite_values = typed<double>(file.section("infinite_values"));
    tree->keep_alive = file.file();
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("'{}' is corrupt: its header lacks what the index {} has ({})", path.string(),
                              index, error.what()));
  } catch (const InvalidArgument& error) {
    throw IoError(fmt::format("'{}' is corrupt: {}", path.string(), error.what()));
  }
  Checker(*tree, path.string(), execution).check();
  return tree;
}

}  // namespace kith::point_tree
