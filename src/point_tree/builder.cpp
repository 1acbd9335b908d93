// Reading rows for a tree, and laying out what a builder made.
#include "point_tree/builder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"

namespace kith::point_tree {
namespace {

std::int64_t& narrow_limit() {
  static std::int64_t limit = std::numeric_limits<std::uint32_t>::max() - 1;
  return limit;
}

// What a block of rows adds to Points.
template <class T>
struct Block {
  std::vector<std::int64_t> left_out;
  std::vector<T> lower, upper;
};

template <class T>
void widen(Block<T>& block, std::size_t axis, T low, T high) {
  block.lower[axis] = std::min(block.lower[axis], low);
  block.upper[axis] = std::max(block.upper[axis], high);
}

// Rows side by side, a register of values at a time: the registers of as many rows as one has lanes come
// round to the same axes. False when a value is not finite; the block is as it was then. D: the dimension, 0:
// any.
template <int D, class T>
bool scan_packed(const T* values, std::int64_t rows, std::int64_t any_dim, Block<T>& block) {
  constexpr std::int64_t lanes = 16 / sizeof(T);
  constexpr std::int64_t most_axes = D > 0 ? D : 32;
  typedef T Values __attribute__((vector_size(16)));
  const std::int64_t dim = D > 0 ? D : any_dim;
  if (dim > most_axes || rows < lanes) return false;
  Values low[most_axes];
  Values high[most_axes];
  std::memcpy(low, values, static_cast<std::size_t>(dim) * sizeof(Values));
  std::memcpy(high, values, static_cast<std::size_t>(dim) * sizeof(Values));
  auto finite = Values{} == Values{};
  const std::int64_t together = rows / lanes * lanes;
  for (std::int64_t i = 0; i < together; i += lanes) {
    for (std::int64_t j = 0; j < dim; ++j) {
      Values v;
      std::memcpy(&v, values + i * dim + j * lanes, sizeof v);
      finite &= v - v == Values{};
      low[j] = v < low[j] ? v : low[j];
      high[j] = v > high[j] ? v : high[j];
    }
  }
  bool all = true;
  for (std::int64_t l = 0; l < lanes; ++l) all = all && finite[l] != 0;
  for (std::int64_t at = together * dim; at < rows * dim; ++at) all = all && std::isfinite(values[at]);
  if (!all) return false;
  for (std::int64_t j = 0; j < dim; ++j) {
    for (std::int64_t l = 0; l < lanes; ++l) {
      widen(block, static_cast<std::size_t>((j * lanes + l) % dim), T{low[j][l]}, T{high[j][l]});
    }
  }
  for (std::int64_t at = together * dim; at < rows * dim; ++at) {
    widen(block, static_cast<std::size_t>(at % dim), values[at], values[at]);
  }
  return true;
}

template <class T>
void scan(const Points<T>& points, std::int64_t begin, std::int64_t end, Block<T>& block) {
  const auto d = static_cast<std::size_t>(points.dim);
  block.lower.assign(d, std::numeric_limits<T>::infinity());
  block.upper.assign(d, -std::numeric_limits<T>::infinity());
  if (points.stride == points.dim) {
    const std::int64_t rows = end - begin;
    if (d == 2 && scan_packed<2>(points.row(begin), rows, 2, block)) return;
    if (d == 3 && scan_packed<3>(points.row(begin), rows, 3, block)) return;
    if (d > 3 && scan_packed<0>(points.row(begin), rows, points.dim, block)) return;
  }
  for (std::int64_t i = begin; i < end; ++i) {
    const T* x = points.row(i);
    bool finite = true;
    for (std::int64_t j = 0; j < points.dim; ++j) finite = finite && std::isfinite(x[j]);
    if (!finite) {
      block.left_out.push_back(i);
      continue;
    }
    for (std::size_t j = 0; j < d; ++j) widen(block, j, x[j], x[j]);
  }
}

template <class T>
std::int64_t count_nodes(const Branch<T>& branch) {
  std::int64_t count = 1;
  for (const auto& below : branch.below) count += below == nullptr ? 0 : count_nodes(*below);
  return count;
}

// Nodes side by side, numbered in depth-first order, as a tree has them.
template <class T>
class Flat {
 public:
  // `root` null: no nodes. What is below it is freed.
  Flat(Branch<T>* root, std::int64_t dim, int threads) : stride_(node_bytes<T>(dim)) {
    if (root == nullptr) {
      nodes_ = AlignedBuffer<std::byte>(1);
      return;
    }
    std::array<std::int64_t, node_width> count{};
    parallel_for(threads, node_width, [&](std::int64_t c) {
      const Branch<T>* below = root->below[static_cast<std::size_t>(c)].get();
      if (below != nullptr) count[static_cast<std::size_t>(c)] = count_nodes(*below);
    });
    count_ = std::accumulate(count.begin(), count.end(), std::int64_t{1});
    nodes_ = AlignedBuffer<std::byte>(count_ * stride_);
    NodeLinks links = root->links;
    std::array<std::int64_t, node_width> first{};
    std::exclusive_scan(count.begin(), count.end(), first.begin(), std::int64_t{1});
    std::array<std::int64_t, node_width> levels{};
    parallel_for(threads, node_width, [&](std::int64_t child) {
      const auto c = static_cast<std::size_t>(child);
      if (root->below[c] == nullptr) return;
      std::int64_t used = first[c];
      links.child[c] = put_all(*root->below[c], used, levels[c], 2);
      root->below[c].reset();
    });
    put(0, *root, links);
    levels_ = std::max<std::int64_t>(1, *std::max_element(levels.begin(), levels.end()));
  }

  std::int64_t count() const { return count_; }
  std::int64_t levels() const { return levels_; }
  std::int64_t bytes() const { return count_ * stride_; }
  AlignedBuffer<std::byte> take() { return std::move(nodes_); }

 private:
  // A node and what is below it, as numbers from `used` on. Returns its own.
  std::int64_t put_all(const Branch<T>& branch, std::int64_t& used, std::int64_t& levels,
                       std::int64_t level) {
    const std::int64_t number = used++;
    levels = std::max(levels, level);
    NodeLinks links = branch.links;
    for (std::int64_t c = 0; c < links.count; ++c) {
      const auto& below = branch.below[static_cast<std::size_t>(c)];
      if (below != nullptr) links.child[c] = put_all(*below, used, levels, level + 1);
    }
    put(number, branch, links);
    return number;
  }

  void put(std::int64_t number, const Branch<T>& branch, const NodeLinks& links) {
    std::byte* at = nodes_.data() + number * stride_;
    const std::size_t boxes = branch.boxes.size() * sizeof(T);
    std::memcpy(at, branch.boxes.data(), boxes);
    std::memcpy(at + boxes, &links, sizeof links);
    const std::size_t used = boxes + sizeof links;
    std::memset(at + used, 0, static_cast<std::size_t>(stride_) - used);
  }

  std::int64_t stride_;
  std::int64_t count_ = 0;
  std::int64_t levels_ = 0;
  AlignedBuffer<std::byte> nodes_;
};

}  // namespace

std::int64_t largest_narrow_tree() {
  return narrow_limit();
}

void set_largest_narrow_tree(std::int64_t rows) {
  narrow_limit() = rows;
}

template <class T>
Points<T> read_points(const DatasetView& rows, const Execution& execution) {
  Points<T> points;
  points.dim = rows.dim;
  if (rows.dtype == dtype_of<T>) {
    points.data = static_cast<const T*>(rows.data);
    points.stride = rows.row_stride;
  } else {
    points.converted.resize(static_cast<std::size_t>(rows.rows * rows.dim));
    points.data = points.converted.data();
    points.stride = rows.dim;
  }
  constexpr std::int64_t block_rows = 1 << 16;
  const std::int64_t blocks = (rows.rows + block_rows - 1) / block_rows;
  std::vector<Block<T>> found(static_cast<std::size_t>(blocks));
  ProgressCounter progress(execution, "build", std::max<std::int64_t>(1, blocks));
  parallel_for(resolve_threads(execution), blocks, [&](std::int64_t b) {
    const std::int64_t begin = b * block_rows;
    const std::int64_t end = std::min(rows.rows, begin + block_rows);
    if (rows.dtype != dtype_of<T>) {
      visit_dtype(rows.dtype, [&]<class From>(From /*tag*/) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto* from = static_cast<const From*>(rows.row(i));
          T* to = points.converted.data() + i * rows.dim;
          for (std::int64_t j = 0; j < rows.dim; ++j) to[j] = static_cast<T>(to_double(from[j]));
        }
      });
    }
    scan(points, begin, end, found[static_cast<std::size_t>(b)]);
    progress.advance(0);
  });
  points.count = rows.rows;
  points.lower.assign(static_cast<std::size_t>(rows.dim), std::numeric_limits<double>::infinity());
  points.upper.assign(static_cast<std::size_t>(rows.dim), -std::numeric_limits<double>::infinity());
  for (const Block<T>& block : found) {
    points.left_out.insert(points.left_out.end(), block.left_out.begin(), block.left_out.end());
    for (std::size_t j = 0; j < points.lower.size(); ++j) {
      points.lower[j] = std::min(points.lower[j], static_cast<double>(block.lower[j]));
      points.upper[j] = std::max(points.upper[j], static_cast<double>(block.upper[j]));
    }
  }
  points.count -= static_cast<std::int64_t>(points.left_out.size());
  return points;
}

template <class T, class Id>
Tree Arrays<T, Id>::finish(Branch<T>* root, const Points<T>& points, const DatasetView& rows, int threads) {
  struct Held {
    AlignedBuffer<std::byte> nodes;
    AlignedBuffer<T> coordinates;
    AlignedBuffer<Id> rows;
    std::vector<std::int64_t> infinite;
    std::vector<double> infinite_values;
  };
  auto held = std::make_shared<Held>();
  Tree tree;
  tree.dtype = rows.dtype;
  tree.rows = rows.rows;
  tree.dim = rows.dim;
  tree.points = points.count;
  tree.wide_rows = sizeof(Id) == 8;
  Flat<T> flat(root, dim_, threads);
  tree.nodes = flat.count();
  tree.levels = flat.levels();
  if (root != nullptr) {
    tree.lower = points.lower;
    tree.upper = points.upper;
  }
  for (const std::int64_t i : points.left_out) {
    const T* x = points.row(i);
    if (std::any_of(x, x + dim_, [](T v) { return std::isnan(v); })) {
      ++tree.nan_rows;
      continue;
    }
    held->infinite.push_back(i);
    held->infinite_values.insert(held->infinite_values.end(), x, x + dim_);
  }
  held->coordinates = std::move(coordinates_);
  held->rows = std::move(rows_);
  held->nodes = flat.take();
  tree.node_data = {held->nodes.data(), static_cast<std::size_t>(flat.bytes())};
  tree.coordinates =
      std::as_bytes(std::span(held->coordinates.data(), static_cast<std::size_t>(held->coordinates.size())));
  tree.row_numbers = std::as_bytes(std::span(held->rows.data(), static_cast<std::size_t>(held->rows.size())));
  tree.infinite = held->infinite;
  tree.infinite_values = held->infinite_values;
  tree.keep_alive = held;
  return tree;
}

template Points<float> read_points(const DatasetView&, const Execution&);
template Points<double> read_points(const DatasetView&, const Execution&);
template class Arrays<float, std::uint32_t>;
template class Arrays<float, std::int64_t>;
template class Arrays<double, std::uint32_t>;
template class Arrays<double, std::int64_t>;

}  // namespace kith::point_tree
