// Walks of few queries: a block a query, with the outcome of the warp's of walk.cuh, sooner.
//
// One warp waits twice at every step: for the edges of a node, then for the codes of its neighbours. Here all
// warps evaluate neighbours: of the node that is next, and ahead of their turn of those that stand behind it
// in the list. A walk ends when every node of its list is expanded, so most of them have their turn; what was
// evaluated waits for it in shared memory. The list takes the same keys in the same order as in a walk that
// looks at one node after the other.
#include "vamana/cuda/team_list.cuh"
#include "vamana/cuda/team_walk.hpp"
#include "vamana/cuda/tuning.hpp"
#include "vamana/cuda/walk.cuh"

namespace kith::vamana::cuda {
namespace {

constexpr int warps = 16;
constexpr int threads = 32 * warps;
constexpr int slots = 32;  // of nodes whose neighbours are evaluated; a power of two

/// Codes that a warp compares in one go, so that it waits for memory once: a power of two.
template <int T, int B>
constexpr int codes_at_once = T == 8 && B == 0 ? 8 : 32;

struct Planned {
  std::uint32_t node;
  int slot;
};

// What the warps share, in front of their queries.
template <int part>
struct Shared {
  static constexpr int entries_at_once = warps * part;

  __host__ __device__ static int parts(std::int64_t stride) {
    return static_cast<int>((stride + part - 1) / part);
  }
  /// Of all of it, a multiple of 16.
  __host__ __device__ static std::size_t bytes(std::int64_t stride) {
    const std::int64_t keys = std::int64_t{slots} * parts(stride) * part;
    return (sizeof(Shared) + 15) / 16 * 16 +
           sizeof(Key) * static_cast<std::size_t>(keys < entries_at_once ? entries_at_once : keys);
  }
  /// [slots, parts * part], behind it.
  __device__ Key* keys() {
    return reinterpret_cast<Key*>(reinterpret_cast<unsigned char*>(this) + (sizeof(Shared) + 15) / 16 * 16);
  }

  TeamList::Memory list;
  Key nearest[TeamList::most];  ///< of the entries, in order
  Key bound;                    ///< of the list: what is as far does not come into it
  Planned plan[warps];          ///< nodes to evaluate the neighbours of
  int planned;
};

template <class Codes, int part>
class TeamWalk {
 public:
  __device__ TeamWalk(const WalkJob& job, std::int64_t q, const Codes& codes, Shared<part>& shared)
      : graph_(job.graph),
        codes_(codes),
        shared_(shared),
        list_(shared.list, job.shape.capacity),
        parts_(Shared<part>::parts(job.graph.stride)),
        left_out_(job.left_out == nullptr ? no_node : job.left_out[q]) {}

  /// All threads of the block.
  __device__ void run() {
    enter();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    for (;;) {
      if (threadIdx.x < list_.threads()) plan();
      // Once would do. After some of the warps have met at a barrier of their own, compute-sanitizer's
      // racecheck (2025.3) reports accesses on both sides of the next one as a race; the second costs nothing
      // that shows.
      __syncthreads();
      __syncthreads();
      const int units = shared_.planned * parts_;
      if (units == 0) return;
      for (int unit = warp; unit < units; unit += warps) {
        const Planned planned = shared_.plan[unit / parts_];
        const std::int64_t from = std::int64_t{unit % parts_} * part;
        evaluate(graph_.edges + planned.node * graph_.stride + from, graph_.stride - from,
                 keys_of(planned.slot) + from);
        fetch_edges_of_near();
      }
      __syncthreads();
    }
  }

  // Of the first warp.
  __device__ const TeamList& list() const { return list_; }
  __device__ std::uint32_t hops() const { return hops_; }
  /// Of this warp.
  __device__ std::uint32_t distances() const { return distances_; }

 private:
  __device__ Key* keys_of(int slot) const { return shared_.keys() + std::int64_t{slot} * parts_ * part; }

  // The keys of up to `part` nodes of a list with so many left; no_key behind them.
  __device__ void evaluate(const std::uint32_t* nodes, std::int64_t left, Key* keys) {
    const int lane = lane_of_warp();
    const std::uint32_t node = lane < part && lane < left ? nodes[lane] : no_node;
    const bool takes = node != no_node && node != left_out_;
    const unsigned mask = __ballot_sync(whole_warp, takes);
    const int count = __popc(mask);
    if (takes) codes_.found[__popc(mask & lanes_below())] = node;
    if (lane >= count && lane < part) keys[lane] = no_key;
    codes_.offered = keys;
    __syncwarp();
    if (count == 0) return;
    distances_ += static_cast<std::uint32_t>(count);
    codes_.estimate(count);
  }

  // Of nodes that come into the list: one of them may be next.
  __device__ void fetch_edges_of_near() const {
    const int lane = lane_of_warp();
    const Key key = lane < part ? codes_.offered[lane] : no_key;
    if (key >= shared_.bound) return;
    prefetch(graph_.edges + node_of(key) * graph_.stride, graph_.stride * sizeof(std::uint32_t));
  }

  // The nearest entries into the list.
  __device__ void enter() {
    constexpr int at_once = Shared<part>::entries_at_once;
    const int lane = lane_of_warp();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    for (int base = 0; base < graph_.entry_count; base += at_once) {
      const int from = base + warp * part;
      const int left = graph_.entry_count - from;
      Key* const keys = shared_.keys() + warp * part;
      evaluate(graph_.entries + (left > 0 ? from : 0), left, keys);
      const Key key = sort_keys(lane < part ? keys[lane] : no_key);
      __syncwarp();
      if (lane < part) keys[lane] = key;
      const Key before = __shfl_up_sync(whole_warp, key, 1);
      __syncthreads();
      // How many are nearer, in all parts at once.
      const int used = (min(at_once, graph_.entry_count - base) + part - 1) / part;
      bool twin = key != no_key && lane > 0 && before == key;
      int place = 0;
#pragma unroll 8
      for (int other = 0; other < used; ++other) {
        const Key* const its = shared_.keys() + other * part;
        int below = 0;
#pragma unroll
        for (int step = part / 2; step > 0; step /= 2) below += its[below + step - 1] < key ? step : 0;
        below += its[below] < key ? 1 : 0;
        place += below;
        twin = twin || (other < warp && key != no_key && below < part && its[below] == key);
      }
      if (key != no_key && place < TeamList::most) shared_.nearest[place] = key;
      const int count = __syncthreads_count(key != no_key ? 1 : 0);
      const bool twins = __syncthreads_or(twin ? 1 : 0) != 0;
      if (threadIdx.x < list_.threads()) {
        if (base == 0 && !twins) {
          list_.fill(shared_.nearest, count);
        } else {
          for (int i = 0; i < at_once; i += most_offered) {
            list_.take(-1, shared_.keys() + i, min(most_offered, at_once - i));
          }
        }
      }
      __syncthreads();
    }
  }

  // Expands the nodes whose neighbours are evaluated, and says of which they are to be next.
  __device__ void plan() {
    const int all = parts_ * part;
    for (;;) {
      const TeamList::Next next = list_.next();
      if (next.key == no_key || next.slot == TeamList::no_slot) break;
      ++hops_;
      const Key* const keys = keys_of(next.slot);
      for (int from = 0; from < all; from += most_offered) {
        list_.take(from == 0 ? next.at : -1, keys + from, min(most_offered, all - from));
      }
    }
    list_.meet();
    if (threadIdx.x >= 32) return;
    const int lane = lane_of_warp();
    const int most = max(1, warps / parts_);
    const int first = next_slot_;
    int planned = 0;
    for (int base = 0; base < list_.size(); base += 32) {
      const bool there = base + lane < list_.size();
      const Key key = there ? list_.key(base) : no_key;
      const bool wants = there && (key & expanded) == 0 && list_.slot(base + lane) == TeamList::no_slot;
      const unsigned mask = __ballot_sync(whole_warp, wants);
      const int rank = planned + __popc(mask & lanes_below());
      if (wants && rank < most) {
        shared_.plan[rank] = {node_of(key), (first + rank) % slots};
        list_.slot(base + lane) = (first + rank) % slots;
      }
      planned = min(most, planned + __popc(mask));
    }
    __syncwarp();
    // Slots go round: who had one of these before has none now.
    for (int i = lane; i < list_.size(); i += 32) {
      int& slot = list_.slot(i);
      if (slot == TeamList::no_slot) continue;
      const int rank = (slot - first + slots) % slots;
      if (rank < planned && shared_.plan[rank].node != node_of(list_.key(i - lane))) slot = TeamList::no_slot;
    }
    next_slot_ = (first + planned) % slots;
    if (lane == 0) {
      shared_.planned = planned;
      shared_.bound = list_.last();
    }
  }

  const GraphView& graph_;
  Codes codes_;
  Shared<part>& shared_;
  TeamList list_;
  int parts_;
  std::uint32_t left_out_;
  int next_slot_ = 0;
  std::uint32_t hops_ = 0;
  std::uint32_t distances_ = 0;
};

template <int T, int B, bool halves>
__global__ void __launch_bounds__(threads, 1) team_walk_kernel(const __grid_constant__ WalkJob job) {
  let_next_launch();
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int part = codes_at_once<T, B>;
  const std::int64_t q = blockIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  wait_for_previous();
  if (job.usable[q] == 0) {
    if (threadIdx.x == 0) job.found[q] = 0;
    return;
  }
  using Codes = WarpCodes<T, B, halves>;
  unsigned char* room =
      memory + Shared<part>::bytes(job.graph.stride) + warp * Codes::bytes(job.graph.code_bytes);
  Codes codes(job.graph.codes, job.graph.code_bytes, room);
  codes.set_query(job.codes + q * job.code_stride);
  TeamWalk<Codes, part> walk(job, q, codes, *reinterpret_cast<Shared<part>*>(memory));
  walk.run();
  if (warp == 0) {
    hand_over<false>(q, job, walk.list(), walk.hops(), walk.distances());
  } else if (lane_of_warp() == 0) {
    atomicAdd(job.counters + 1, static_cast<unsigned long long>(walk.distances()));
  }
}

}  // namespace

bool walk_by_teams(const WalkJob& job, Walked walked, int device, cudaStream_t stream) {
  const WalkShape& shape = job.shape;
  if (!shape.few || job.count > constants.team_walks || shape.capacity > TeamList::most ||
      shape.beam_width > 1 || job.nodes.allowed != nullptr || job.visits != nullptr ||
      job.graph.hot != nullptr) {
    return false;
  }
  bool walks = false;
  visit_codes(job.graph.code_bytes, walked == Walked::int4, [&]<int T, int B, bool halves>() {
    const std::size_t bytes = Shared<codes_at_once<T, B>>::bytes(job.graph.stride) +
                              warps * WarpCodes<T, B, halves>::bytes(job.graph.code_bytes);
    walks = bytes <= static_cast<std::size_t>(shared_limit(device));
    if (!walks) return;
    auto* const kernel = team_walk_kernel<T, B, halves>;
    allow_shared(kernel, threads, bytes, device);
    launch_early(kernel, dim3(static_cast<unsigned>(job.count)), threads, bytes, device, stream, job);
    check_launch("team_walk_kernel");
  });
  return walks;
}

}  // namespace kith::vamana::cuda
