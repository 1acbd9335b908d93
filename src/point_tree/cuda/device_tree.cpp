// A tree's arrays to a device and back.
#include "point_tree/cuda/device_tree.hpp"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "cuda/pool.hpp"
#include "cuda/upload.hpp"

namespace kith::point_tree {
namespace {

void upload(std::span<const std::byte> from, cuda::Buffer<unsigned char>& to, cuda::Uploader& uploader,
            cudaStream_t stream) {
  const auto bytes = static_cast<std::int64_t>(from.size());
  to = cuda::Buffer<unsigned char>(bytes, stream);
  uploader.copy(DatasetView(from.data(), Dtype::u8, bytes, 1, 1), to.data(), stream, {});
}

// Copies the nodes in depth-first order, in which every tree is on the host and in files.
class DepthFirst {
 public:
  DepthFirst(const std::byte* from, std::byte* to, std::int64_t node, std::int64_t boxes)
      : from_(from), to_(to), node_(node), boxes_(boxes) {}

  void copy(std::int64_t root) {
    // What is still to be copied, and where its new number belongs.
    std::vector<std::pair<std::int64_t, std::byte*>> stack = {{root, nullptr}};
    std::int64_t used = 0;
    while (!stack.empty()) {
      const auto [number, link] = stack.back();
      stack.pop_back();
      const std::int64_t mine = used++;
      if (link != nullptr) std::memcpy(link, &mine, sizeof mine);
      std::byte* at = to_ + mine * node_;
      std::memcpy(at, from_ + number * node_, static_cast<std::size_t>(node_));
      NodeLinks links;
      std::memcpy(&links, at + boxes_, sizeof links);
      for (std::int64_t c = links.count - 1; c >= 0; --c) {
        if (links.child[c] >= 0) {
          stack.emplace_back(links.child[c],
                             at + boxes_ + c * static_cast<std::int64_t>(sizeof(std::int64_t)));
        }
      }
    }
  }

 private:
  const std::byte* from_;
  std::byte* to_;
  std::int64_t node_, boxes_;
};

}  // namespace

Tree download(const Tree& tree) {
  struct Held {
    AlignedBuffer<std::byte> nodes, coordinates, rows;
  };
  // They are locked, and there is but the one that a device has built.
  const DeviceTree& there = *tree.copies->devices.begin()->second;
  const cuda::DeviceGuard guard(there.device);
  const auto held = std::make_shared<Held>();
  const auto fetch = [&](const cuda::Buffer<unsigned char>& from, std::int64_t bytes) {
    AlignedBuffer<std::byte> to(bytes);
    KITH_CUDA(cudaMemcpyAsync(to.data(), from.data(), static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost,
                              there.stream));
    return to;
  };
  const std::int64_t element = tree.is_double() ? 8 : 4;
  const std::int64_t node = tree.is_double() ? node_bytes<double>(tree.dim) : node_bytes<float>(tree.dim);
  constexpr auto past = static_cast<std::int64_t>(read_past);
  const AlignedBuffer<std::byte> nodes = fetch(there.nodes, tree.nodes * node);
  held->coordinates = fetch(there.coordinates, tree.points * tree.dim * element + past);
  held->rows = fetch(there.rows, tree.points * (tree.wide_rows ? 8 : 4) + past);
  there.stream.synchronize();
  held->nodes = AlignedBuffer<std::byte>(nodes.size());
  DepthFirst(nodes.data(), held->nodes.data(), node, 2 * tree.dim * node_width * element).copy(0);

  Tree copy = tree;
  copy.copies = std::make_shared<TreeCopies>();
  copy.node_data = {held->nodes.data(), static_cast<std::size_t>(held->nodes.size())};
  copy.coordinates = {held->coordinates.data(), static_cast<std::size_t>(held->coordinates.size())};
  copy.row_numbers = {held->rows.data(), static_cast<std::size_t>(held->rows.size())};
  // Its few rows with infinities stay where they are.
  copy.keep_alive = std::make_shared<std::pair<std::shared_ptr<const Held>, std::shared_ptr<const void>>>(
      held, tree.keep_alive);
  return copy;
}

std::shared_ptr<const DeviceTree> on_device(const Tree& tree, int device) {
  TreeCopies& copies = *tree.copies;
  const auto known = [&]() -> std::shared_ptr<const DeviceTree> {
    const auto found = copies.devices.find(device);
    return found == copies.devices.end() ? nullptr : found->second;
  };
  {
    const std::scoped_lock lock(copies.mutex);
    if (auto found = known()) return found;
  }
  const Tree& held = on_host(tree);
  const std::scoped_lock lock(copies.mutex);
  if (auto found = known()) return found;
  const cuda::DeviceGuard guard(device);
  cuda::keep_some_memory(device);
  auto made = std::make_shared<DeviceTree>(device);
  cuda::Uploader uploader;
  upload(held.node_data, made->nodes, uploader, made->stream);
  upload(held.coordinates, made->coordinates, uploader, made->stream);
  upload(held.row_numbers, made->rows, uploader, made->stream);
  made->stream.synchronize();
  copies.devices.emplace(device, made);
  return made;
}

}  // namespace kith::point_tree
