// A tree's arrays, wherever they lie.
#include "point_tree/tree.hpp"

#include "cuda/fork.hpp"

namespace kith::point_tree {

std::uint64_t Tree::bytes() const noexcept {
  const std::int64_t element = is_double() ? 8 : 4;
  const std::int64_t node = is_double() ? node_bytes<double>(dim) : node_bytes<float>(dim);
  const std::int64_t arrays = nodes * node + points * dim * element + points * (wide_rows ? 8 : 4);
  return static_cast<std::uint64_t>(arrays) + 2 * read_past + infinite.size_bytes() +
         infinite_values.size_bytes();
}

bool Tree::lies_on(int device) const {
  const std::scoped_lock lock(copies->mutex);
  return copies->devices.contains(device);
}

const Tree& on_host(const Tree& tree) {
  if (tree.points == 0 || !tree.node_data.empty()) return tree;
  TreeCopies& copies = *tree.copies;
  if (const Tree* host = copies.ready.load(std::memory_order_acquire)) return *host;
  cuda::use_driver();  // before the mutex: see TreeCopies::ready
  const std::scoped_lock lock(copies.mutex);
  if (copies.host == nullptr) {
    copies.host = std::make_shared<const Tree>(copies.download(tree));
    copies.ready.store(copies.host.get(), std::memory_order_release);
  }
  return *copies.host;
}

}  // namespace kith::point_tree
