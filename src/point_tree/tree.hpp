// A finished tree in memory, whoever built it and whoever holds its bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/dtype.hpp"
#include "kith/metric.hpp"
#include "point_tree/layout.hpp"

namespace kith::point_tree {

struct DeviceTree;
struct Tree;
struct TreeType;

/// What there is of a tree's arrays besides its own spans, on devices and on the host. Copies of a Tree share
/// one.
struct TreeCopies {
  std::mutex mutex;
  std::map<int, std::shared_ptr<const DeviceTree>> devices;  ///< by ordinal
  std::shared_ptr<const Tree> host;              ///< of a tree without spans, once somebody has asked for it
  std::atomic<const Tree*> ready = nullptr;      ///< `host` without the mutex, which a fork may leave locked
  Tree (*download)(const Tree& tree) = nullptr;  ///< makes `host`, where a device built the tree
};

/// Points are held as float, those of f64 rows as double; both hold every element exactly.
struct Tree {
  const TreeType* type = nullptr;
  std::string index;  ///< "kd_tree", "octree"
  Metric metric = Metric::sqeuclidean;
  Dtype dtype = Dtype::f32;
  std::int64_t rows = 0;  ///< of the caller's, including those left out
  std::int64_t dim = 0;
  std::int64_t leaf_size = 0;
  std::int64_t points = 0;    ///< rows in the tree: all but those with a NaN or an infinity
  std::int64_t nan_rows = 0;  ///< rows with a NaN: never returned
  std::int64_t levels = 0;    ///< nodes on the longest way down
  std::int64_t nodes = 0;
  bool wide_rows = false;  ///< row numbers take 8 bytes, not 4

  // Empty in a tree that a device has built: see on_host().
  std::span<const std::byte> node_data;
  std::span<const std::byte> coordinates;
  std::span<const std::byte> row_numbers;
  std::span<const std::int64_t> infinite;   ///< rows with an infinity and no NaN, ascending
  std::span<const double> infinite_values;  ///< [infinite, dim]
  std::vector<double> lower, upper;         ///< [dim]: the box of all points; empty without points

  std::shared_ptr<const void> keep_alive;  ///< of the spans
  std::shared_ptr<TreeCopies> copies = std::make_shared<TreeCopies>();

  bool is_double() const noexcept { return dtype == Dtype::f64; }
  /// Of one copy of the arrays.
  std::uint64_t bytes() const noexcept;
  /// Whether a CUDA device holds a copy. Thread-safe.
  bool lies_on(int device) const;

  template <class T, class Id>
  TreeView<T, Id> view() const noexcept {
    return {points,
            dim,
            nodes,
            node_bytes<T>(dim),
            reinterpret_cast<const unsigned char*>(node_data.data()),
            reinterpret_cast<const T*>(coordinates.data()),
            reinterpret_cast<const Id*>(row_numbers.data())};
  }
};

/// The tree with its arrays in host memory: itself, or a copy that is downloaded once and lives as long as
/// the tree. Whatever reads the spans asks for it first. Thread-safe.
/// @throws OutOfMemory, DeviceError
const Tree& on_host(const Tree& tree);
const Tree& on_host(Tree&& tree) = delete;

/// Calls f.operator()<T, Id>() with the tree's types.
template <class F>
decltype(auto) visit_tree(const Tree& tree, F&& f) {
  if (tree.is_double()) {
    return tree.wide_rows ? f.template operator()<double, std::int64_t>()
                          : f.template operator()<double, std::uint32_t>();
  }
  return tree.wide_rows ? f.template operator()<float, std::int64_t>()
                        : f.template operator()<float, std::uint32_t>();
}

/// Whose neighbours are asked for: those of `queries`, or of the tree's own rows.
struct Asked {
  const DatasetView* queries = nullptr;  ///< null: every row of the tree, in the caller's order
  bool include_self = true;              ///< without queries: whether a row is its own neighbour
  std::int64_t count(const Tree& tree) const { return queries == nullptr ? tree.rows : queries->rows; }
};

/// Bytes that a reader may touch behind the coordinates and the row numbers.
constexpr std::size_t read_past = 64;

/// Most points whose rows are numbered in 4 bytes. Tests lower it to reach the other kind.
std::int64_t largest_narrow_tree();
void set_largest_narrow_tree(std::int64_t rows);

}  // namespace kith::point_tree
