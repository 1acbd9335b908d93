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
  const std::scoped_lock lock(residence->mutex);
  return residence->devices.contains(device);
}

const Tree& on_host(const Tree& tree) {
  if (tree.points == 0 || !tree.node_data.empty()) return tree;
  Residence& residence = *tree.residence;
  if (const Tree* host = residence.ready.load(std::memory_order_acquire)) return *host;
  cuda::use_driver();  // before the mutex: see Residence::ready
  const std::scoped_lock lock(residence.mutex);
  if (residence.host == nullptr) {
    residence.host = std::make_shared<const Tree>(residence.download(tree));
    residence.ready.store(residence.host.get(), std::memory_order_release);
  }
  return *residence.host;
}

}  // namespace kith::point_tree
