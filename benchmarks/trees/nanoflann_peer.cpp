// nanoflann's side of tree_bench; compiled with -O3 -march=native, as its users can.
#include "nanoflann_peer.hpp"

#include <nanoflann.hpp>

namespace kith::benchmark_trees {
namespace {

constexpr bool parallel_build = NANOFLANN_VERSION >= 0x150;

/// What nanoflann asks of a container. Dim is -1 where it is known at run time only.
template <int Dim>
struct Points {
  const float* rows;
  std::size_t count;
  std::size_t dim;

  std::size_t kdtree_get_point_count() const { return count; }
  float kdtree_get_pt(std::size_t row, std::size_t axis) const {
    return rows[row * (Dim > 0 ? static_cast<std::size_t>(Dim) : dim) + axis];
  }
  template <class Box>
  bool kdtree_get_bbox(Box&) const {
    return false;
  }
};

/// nanoflann recommends the simple distance for two and three dimensions, the unrolled one above.
template <int Dim>
using Distance = std::conditional_t<(Dim > 0 && Dim <= 4),
                                    nanoflann::L2_Simple_Adaptor<float, Points<Dim>, float, std::uint32_t>,
                                    nanoflann::L2_Adaptor<float, Points<Dim>, float, std::uint32_t>>;

template <int Dim>
class Tree final : public NanoflannTree {
  using Index = nanoflann::KDTreeSingleIndexAdaptor<Distance<Dim>, Points<Dim>, Dim, std::uint32_t>;

 public:
  Tree(const float* rows, std::int64_t count, std::int64_t dim, std::int64_t leaf_size, int threads)
      : points_{rows, static_cast<std::size_t>(count), static_cast<std::size_t>(dim)},
        index_(static_cast<int>(dim), points_, parameters(leaf_size, threads)) {}  // which builds

  void search(const float* query, std::int64_t k, std::uint32_t* indices, float* distances) const override {
    nanoflann::KNNResultSet<float, std::uint32_t> result(static_cast<std::size_t>(k));
    result.init(indices, distances);
    index_.findNeighbors(result, query, {});
  }

 private:
  static nanoflann::KDTreeSingleIndexAdaptorParams parameters(std::int64_t leaf_size, int threads) {
    nanoflann::KDTreeSingleIndexAdaptorParams made(static_cast<std::size_t>(leaf_size));
#if NANOFLANN_VERSION >= 0x150
    made.n_thread_build = static_cast<unsigned>(threads);
#else
    (void)threads;
#endif
    return made;
  }

  Points<Dim> points_;
  Index index_;
};

}  // namespace

std::unique_ptr<NanoflannTree> build_nanoflann(const float* rows, std::int64_t count, std::int64_t dim,
                                               std::int64_t leaf_size, int threads) {
  switch (dim) {
    case 2: return std::make_unique<Tree<2>>(rows, count, dim, leaf_size, threads);
    case 3: return std::make_unique<Tree<3>>(rows, count, dim, leaf_size, threads);
    case 4: return std::make_unique<Tree<4>>(rows, count, dim, leaf_size, threads);
    case 8: return std::make_unique<Tree<8>>(rows, count, dim, leaf_size, threads);
    default: return std::make_unique<Tree<-1>>(rows, count, dim, leaf_size, threads);
  }
}

std::string nanoflann_version() {
  const int v = NANOFLANN_VERSION;  // 0xMmP, from 1.10 on 0xMMmmPP
  const int bits = v > 0xfff ? 8 : 4;
  const int mask = (1 << bits) - 1;
  return std::to_string(v >> (2 * bits)) + "." + std::to_string((v >> bits) & mask) + "." +
         std::to_string(v & mask);
}

bool nanoflann_builds_in_parallel() {
  return parallel_build;
}

}  // namespace kith::benchmark_trees
