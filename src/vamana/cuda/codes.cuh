// Codes as a warp compares them: one in its shared memory with many in the device's.
#pragma once

#include <cstdint>

#include "vamana/cuda/kernels.hpp"
#include "vamana/key.hpp"

namespace kith::vamana::cuda {
namespace {

constexpr unsigned whole_warp = 0xffffffffU;
constexpr Key no_key = ~Key{0};

__device__ inline int lane_of_warp() {
  return static_cast<int>(threadIdx.x % 32);
}
__device__ inline unsigned lanes_below() {
  return (1U << lane_of_warp()) - 1;
}

/// Ascending by lane (Batcher 1968).
__device__ inline Key sort_keys(Key key) {
  const int lane = lane_of_warp();
#pragma unroll
  for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
    for (int apart = size / 2; apart > 0; apart /= 2) {
      const Key other = __shfl_xor_sync(whole_warp, key, apart);
      const bool smaller = ((lane & apart) == 0) == ((lane & size) == 0);
      key = (other < key) == smaller ? other : key;
    }
  }
  return key;
}

/// Sorts keys in memory that has room for the next power of two of them, at least 32; what is beyond becomes
/// no_key. Bitonic (Batcher 1968).
__device__ inline void sort_in_memory(Key* keys, int count) {
  int padded = 32;
  while (padded < count) padded *= 2;
  for (int i = count + lane_of_warp(); i < padded; i += 32) keys[i] = no_key;
  for (int size = 2; size <= padded; size *= 2) {
    for (int apart = size / 2; apart > 0; apart /= 2) {
      __syncwarp();
      for (int i = lane_of_warp(); i < padded / 2; i += 32) {
        const int low = 2 * i - (i & (apart - 1));
        const Key a = keys[low];
        const Key b = keys[low + apart];
        if ((b < a) == ((low & size) == 0)) {
          keys[low] = b;
          keys[low + apart] = a;
        }
      }
    }
  }
  __syncwarp();
}

/// Sums a pair of 16 bytes of codes adds: of the products of its values, and of the squares of the row's.
template <bool halves>
__device__ inline void add_products(const uint4& query, const uint4& row, unsigned& products,
                                    unsigned& squares) {
  const auto add = [&](unsigned q, unsigned r) {
    if constexpr (halves) {
      constexpr unsigned low = 0x0f0f0f0fU;
      const unsigned r0 = r & low;
      const unsigned r1 = r >> 4U & low;
      products = __dp4a(q & low, r0, products);
      products = __dp4a(q >> 4U & low, r1, products);
      squares = __dp4a(r0, r0, squares);
      squares = __dp4a(r1, r1, squares);
    } else {
      products = __dp4a(q, r, products);
      squares = __dp4a(r, r, squares);
    }
  };
  add(query.x, row.x);
  add(query.y, row.y);
  add(query.z, row.z);
  add(query.w, row.w);
}

/// Where a warp puts nodes, and takes the keys of those that were compared with its query.
struct Offers {
  /// @param memory bytes() of it, behind the query
  __device__ explicit Offers(unsigned char* memory)
      : offered(reinterpret_cast<Key*>(memory)),
        found(reinterpret_cast<std::uint32_t*>(memory + sizeof(Key) * most_offered)) {}
  static constexpr std::size_t bytes = most_offered * (sizeof(Key) + sizeof(std::uint32_t));

  Key* offered;          ///< [most_offered]
  std::uint32_t* found;  ///< [most_offered]
};

/// A warp's code, and nodes whose codes are compared with it. T: threads that read a code together, 16 bytes
/// each; B: such pieces of a code, 0 for any number; halves: of 4 bits a value.
template <int T, int B, bool halves>
class WarpCodes : public Offers {
 public:
  /// Takes bytes() of `memory`, aligned to 16, and moves it on.
  __device__ WarpCodes(const unsigned char* codes, int code_bytes, unsigned char*& memory)
      : Offers(memory + code_bytes),
        codes_(codes),
        code_bytes_(code_bytes),
        query_(reinterpret_cast<uint4*>(memory)) {
    memory += bytes(code_bytes);
  }
  __host__ __device__ static std::size_t bytes(int code_bytes) {
    return static_cast<std::size_t>(code_bytes) + Offers::bytes;
  }

  /// The code that others are compared with.
  __device__ void set_query(const unsigned char* code) {
    const auto* pieces = reinterpret_cast<const uint4*>(code);
    unsigned products = 0;
    unsigned squares = 0;
    for (int i = lane_of_warp(); i < code_bytes_ / 16; i += 32) {
      const uint4 piece = pieces[i];
      query_[i] = piece;
      add_products<halves>(piece, piece, products, squares);
    }
    query_squares_ = __reduce_add_sync(whole_warp, squares);
    __syncwarp();
  }
  __device__ void set_query(std::uint32_t node) { set_query(codes_ + std::int64_t{node} * code_bytes_); }

  /// The keys of the first `count` of `found`, to `offered`. What is not on its way here is waited for, so
  /// that pieces of several codes are at once.
  __device__ void estimate(int count) {
    constexpr int rows = 32 / T;
    constexpr bool whole_rounds = B != 0 && B % T == 0;
    constexpr int at_once = B == 0 ? 2 : (B + T - 1) / T;
    constexpr int ahead = B != 0 && at_once == 1 ? most_offered / rows < 8 ? most_offered / rows : 8 : 2;
    const int team = lane_of_warp() / T;
    const int part = lane_of_warp() % T;
    const int pieces = B == 0 ? code_bytes_ / 16 : B;
    for (int base = 0; base < count; base += rows * ahead) {
      unsigned products[ahead] = {};
      unsigned squares[ahead] = {};
      const auto node = [&](int u) {
        const int i = base + u * rows + team;
        return found[i < count ? i : count - 1];
      };
      for (int first = part; first < pieces; first += T * at_once) {
        uint4 values[at_once][ahead];
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
          const auto* code =
              reinterpret_cast<const uint4*>(codes_ + std::int64_t{node(u)} * code_bytes_) + first;
#pragma unroll
          for (int j = 0; j < at_once; ++j) {
            if (whole_rounds || first + j * T < pieces) values[j][u] = __ldg(code + j * T);
          }
        }
#pragma unroll
        for (int j = 0; j < at_once; ++j) {
          if (!whole_rounds && first + j * T >= pieces) break;
          const uint4 query = query_[first + j * T];
#pragma unroll
          for (int u = 0; u < ahead; ++u) add_products<halves>(query, values[j][u], products[u], squares[u]);
        }
      }
#pragma unroll
      for (int u = 0; u < ahead; ++u) {
        unsigned sum = squares[u] - 2 * products[u];
#pragma unroll
        for (int apart = T / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(whole_warp, sum, apart);
        const int i = base + u * rows + team;
        if (part == 0 && i < count)
          offered[i] = make_key(static_cast<std::int32_t>(query_squares_ + sum), found[i]);
      }
    }
    __syncwarp();
  }

 private:
  const unsigned char* codes_;
  int code_bytes_;
  uint4* query_;
  unsigned query_squares_ = 0;
};

/// Calls f.operator()<T, B, halves>() for codes of so many bytes.
template <class F>
void visit_codes(int code_bytes, bool four_bits, const F& f) {
  const auto with = [&]<int T, int B>() {
    four_bits ? f.template operator()<T, B, true>() : f.template operator()<T, B, false>();
  };
  switch (code_bytes) {
    case 32: with.template operator()<2, 2>(); return;
    case 64: with.template operator()<4, 4>(); return;
    case 96: with.template operator()<8, 6>(); return;  // two of them idle, and a code is one or two requests
    case 128: with.template operator()<8, 8>(); return;
    default: break;
  }
  // As many threads as read a code in whole rounds.
  if (code_bytes % 128 == 0) {
    with.template operator()<8, 0>();
  } else {
    with.template operator()<2, 0>();
  }
}

}  // namespace
}  // namespace kith::vamana::cuda
