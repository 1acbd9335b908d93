// A tree's arrays in the memory of one device.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/runtime.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

struct DeviceTree {
  explicit DeviceTree(int ordinal) : device(ordinal) {}
  int device;
  cuda::Stream stream;  ///< the arrays were made on it, and are complete
  cuda::Buffer<unsigned char> nodes, coordinates,
      rows;  ///< as in Tree, read_past bytes behind the latter two

  template <class T, class Id>
  TreeView<T, Id> view(const Tree& tree) const {
    return {tree.points,
            tree.dim,
            tree.nodes,
            node_bytes<T>(tree.dim),
            nodes.data(),
            reinterpret_cast<const T*>(coordinates.data()),
            reinterpret_cast<const Id*>(rows.data())};
  }
};

/// The tree on a device: where it was built, or copied there now and kept for the next search. Thread-safe.
/// @throws OutOfMemory, DeviceError
std::shared_ptr<const DeviceTree> on_device(const Tree& tree, int device);

/// TreeCopies::download of a tree that a device has built: its arrays on the host, nodes in depth-first
/// order.
Tree download(const Tree& tree);

}  // namespace kith::point_tree
