// Queries are sorted along a space-filling curve, unless they follow each other closely already: the next
// walk then finds its boxes and points in cache, and groups of queries share what they can
// (Task::group_ends).
#include "point_tree/cpu/query_order.hpp"

#include <mutex>
#include <utility>

#include "core/parallel.hpp"
#include "core/radix_sort.hpp"
#include "point_tree/cpu/leaves.hpp"
#include "point_tree/cpu/search.hpp"
#include "point_tree/tuning.hpp"

namespace kith::point_tree {
namespace {

// Of the nodes whose children are leaves, the one that a query falls into: from the root down always the
// nearest child.
template <class T, class Id>
std::int64_t lowest_node(const TreeView<T, Id>& tree, const T* query) {
  for (std::int64_t node = 0;;) {
    const T* lower = boxes_of(tree, node);
    const T* upper = lower + tree.dim * node_width;
    const NodeLinks& links = links_of(tree, node);
    T sums[node_width] = {};
    for (std::int64_t j = 0; j < tree.dim; ++j) {
      for (std::int64_t c = 0; c < node_width; ++c) {
        const T out = std::max(
            std::max(lower[j * node_width + c] - query[j], query[j] - upper[j * node_width + c]), T{0});
        sums[c] += out * out;
      }
    }
    const std::int64_t child = links.child[std::min_element(sums, sums + links.count) - sums];
    if (child < 0) return node;
    node = child;
  }
}

template <class T, class Id>
bool follow_each_other(const TreeView<T, Id>& tree, const DatasetView& queries) {
  constexpr std::int64_t runs = tuning::sampled_runs;
  constexpr std::int64_t run = tuning::sampled_run;
  // Of few queries the sample would cost more than their sorting.
  if (tree.nodes < tuning::nodes_to_sort_for || queries.rows < 16 * runs * run) return false;
  std::vector<T> values(static_cast<std::size_t>(tree.dim));
  constexpr std::int64_t most = runs * (run - 1) / 4;
  std::int64_t moves = 0;
  for (std::int64_t r = 0; r < runs && moves <= most; ++r) {
    std::int64_t before = -1;
    for (std::int64_t i = 0; i < run; ++i) {
      read_query(queries, (queries.rows - run) / (runs - 1) * r + i, values.data());
      // What is not finite is near nothing.
      const bool finite = std::all_of(values.begin(), values.end(), [](T v) { return std::isfinite(v); });
      const std::int64_t node = finite ? lowest_node(tree, values.data()) : -1;
      moves += i > 0 && (node < 0 || node != before) ? 1 : 0;
      before = node;
    }
  }
  return moves <= most;
}

// Codes on the Morton curve (Morton 1966) through the tree's box, from as many axes as 30 bits serve
// well.
class Curve {
 public:
  explicit Curve(const Tree& tree) : axes_(std::min<std::int64_t>(tree.dim, 10)), bits_(30 / axes_) {
    for (std::int64_t j = 0; j < tree.dim; ++j) widest_.push_back(j);
    const auto extent = [&](std::int64_t j) {
      const auto at = static_cast<std::size_t>(j);
      return tree.upper.empty() ? 0 : tree.upper[at] - tree.lower[at];
    };
    std::stable_sort(widest_.begin(), widest_.end(), [&](auto a, auto b) { return extent(a) > extent(b); });
    for (std::int64_t a = 0; a < axes_; ++a) {
      const std::int64_t j = widest_[static_cast<std::size_t>(a)];
      lower_.push_back(tree.lower.empty() ? 0 : tree.lower[static_cast<std::size_t>(j)]);
      const double wide = extent(j);
      scale_.push_back(wide > 0 && std::isfinite(wide) ? static_cast<double>(1 << bits_) / wide : 0);
    }
  }
  template <class T>
  std::uint32_t code_of(const T* values) const {
    std::uint32_t code = 0;
    for (std::size_t a = 0; a < lower_.size(); ++a) {
      const double at = (static_cast<double>(values[widest_[a]]) - lower_[a]) * scale_[a];
      const auto cell =
          static_cast<std::uint32_t>(std::clamp(at, 0.0, static_cast<double>((1 << bits_) - 1)));
      code |= spread(cell) << a;
    }
    return code;
  }

 private:
  // The bits of a cell's number, each as far from the next as there are axes.
  std::uint32_t spread(std::uint32_t v) const {
    if (axes_ == 3) {
      v = (v | v << 16U) & 0x030000FFU;
      v = (v | v << 8U) & 0x0300F00FU;
      v = (v | v << 4U) & 0x030C30C3U;
      return (v | v << 2U) & 0x09249249U;
    }
    std::uint32_t spread = 0;
    for (std::int64_t b = 0; b < bits_; ++b) spread |= ((v >> b) & 1U) << (b * axes_);
    return spread;
  }

  std::int64_t axes_, bits_;
  std::vector<std::int64_t> widest_;
  std::vector<double> lower_, scale_;
};

template <class T>
class Ordering {
 public:
  Ordering(const Tree& tree, const DatasetView& queries, const Execution& execution, int threads)
      : tree_(tree), queries_(queries), execution_(execution), threads_(threads) {}

  QueryOrder run() {
    const std::int64_t count = queries_.rows;
    out_.sorted = count >= tuning::unsorted_queries;
    if (!out_.sorted || follow_each_other(tree_, queries_)) {
      keep_order();
    } else if (count < (std::int64_t{1} << 32)) {
      sort_queries<std::uint32_t, std::uint32_t>();
    } else {
      sort_queries<std::uint64_t, std::int64_t>();
    }
    std::sort(out_.endless.begin(), out_.endless.end());
    std::sort(out_.nan.begin(), out_.nan.end());
    return std::move(out_);
  }

 private:
  enum class Sort : std::uint8_t { finite, endless, nan };

  Sort kind_of(const T* values) const {
    Sort kind = Sort::finite;
    for (std::int64_t j = 0; j < tree_.dim; ++j) {
      if (std::isnan(values[j])) return Sort::nan;
      if (std::isinf(values[j])) kind = Sort::endless;
    }
    return kind;
  }

  // Calls `take` for each query with its number, its values and whether they are finite, from all threads,
  // and finds which do not walk.
  template <class Take>
  void for_queries(const Take& take) {
    const std::int64_t count = queries_.rows;
    constexpr std::int64_t block = 1 << 14;
    std::mutex mutex;
    parallel_for(execution_, (count + block - 1) / block, [&](std::int64_t b) {
      std::vector<T> values(static_cast<std::size_t>(tree_.dim));
      for (std::int64_t i = b * block; i < std::min(count, (b + 1) * block); ++i) {
        read_query(queries_, i, values.data());
        const Sort kind = kind_of(values.data());
        if (kind != Sort::finite) {
          const std::scoped_lock lock(mutex);
          (kind == Sort::nan ? out_.nan : out_.endless).push_back(i);
        }
        take(i, values.data(), kind == Sort::finite);
      }
    });
    out_.walking = count - static_cast<std::int64_t>(out_.endless.size() + out_.nan.size());
  }

  void keep_order() {
    const std::int64_t count = queries_.rows;
    for_queries([](std::int64_t, const T*, bool) {});
    if (out_.walking == count) return;
    std::vector<std::int64_t> out(out_.endless);
    out.insert(out.end(), out_.nan.begin(), out_.nan.end());
    std::sort(out.begin(), out.end());
    out_.order = AlignedBuffer<std::int64_t>(out_.walking);
    auto next = out.begin();
    for (std::int64_t i = 0; i < count; ++i) {
      if (next != out.end() && *next == i) {
        ++next;
      } else {
        out_.order[i - (next - out.begin())] = i;
      }
    }
  }

  template <class Key, class Value>
  void sort_queries() {
    const std::int64_t count = queries_.rows;
    const Curve curve(tree_);
    AlignedBuffer<Keyed<Key, Value>> items(count);
    for_queries([&](std::int64_t i, const T* values, bool finite) {
      items[i] = {finite ? Key{curve.code_of(values)} : Key{1} << 31U, static_cast<Value>(i)};
    });
    radix_sort(items, 32, threads_);  // the finite ones first
    out_.order = AlignedBuffer<std::int64_t>(out_.walking);
    constexpr std::int64_t block = 1 << 16;
    parallel_for(execution_, (out_.walking + block - 1) / block, [&](std::int64_t b) {
      for (std::int64_t i = b * block; i < std::min(out_.walking, (b + 1) * block); ++i) {
        out_.order[i] = static_cast<std::int64_t>(items[i].value);
      }
    });
  }

  const Tree& tree_;
  const DatasetView& queries_;
  const Execution& execution_;
  int threads_;
  QueryOrder out_;
};

}  // namespace

bool follow_each_other(const Tree& tree, const DatasetView& queries) {
  const Tree& held = on_host(tree);
  return visit_tree(held,
                    [&]<class T, class Id>() { return follow_each_other(held.view<T, Id>(), queries); });
}

template <class T>
QueryOrder order_queries(const Tree& tree, const DatasetView& queries, const Execution& execution,
                         int threads) {
  return Ordering<T>(tree, queries, execution, threads).run();
}
template QueryOrder order_queries<float>(const Tree&, const DatasetView&, const Execution&, int);
template QueryOrder order_queries<double>(const Tree&, const DatasetView&, const Execution&, int);

}  // namespace kith::point_tree
