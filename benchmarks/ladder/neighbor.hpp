// What all rungs share: a neighbour, which of two is nearer, a short sorted list, the distance.
#pragma once

#include <climits>
#include <cmath>

#include "cuda/host_device.hpp"

namespace kith::ladder {

/// A point and its squared distance. 8 bytes, so that a list of 32 for each of 128 threads fits 32 KiB.
struct Neighbor {
  float distance;
  int index;
};

/// What a search starts from: farther than everything.
KITH_HOST_DEVICE inline Neighbor nobody() {
  return {INFINITY, INT_MAX};
}

/// The order of every answer: by distance, equal ones by index. It is total, so a reduction may pair its
/// elements in any order and still give the one answer.
KITH_HOST_DEVICE inline bool closer(const Neighbor& a, const Neighbor& b) {
  return a.distance < b.distance || (a.distance == b.distance && a.index < b.index);
}

KITH_HOST_DEVICE inline Neighbor nearer(const Neighbor& a, const Neighbor& b) {
  return closer(b, a) ? b : a;
}

/// Inserts into an ascending list of k, whose last falls off; k compares and moves at most.
KITH_HOST_DEVICE inline void insert(Neighbor* list, int k, Neighbor candidate) {
  if (!closer(candidate, list[k - 1])) return;
  int at = k - 1;
  for (; at > 0 && closer(candidate, list[at - 1]); --at) list[at] = list[at - 1];
  list[at] = candidate;
}

/// Squared distance of a query, its values adjacent, and a point whose values are `stride` apart: 1 where
/// points are stored row by row, the number of points where they are stored coordinate by coordinate.
template <class T>
KITH_HOST_DEVICE inline float squared_distance(const float* query, const T* point, int dim,
                                               long long stride = 1) {
  float sum = 0;
#ifdef __CUDA_ARCH__  // the host's compiler does not know it
#pragma unroll 8      // so many loads under way at once
#endif
  for (int c = 0; c < dim; ++c) {
    const float difference = query[c] - static_cast<float>(point[c * stride]);
    sum += difference * difference;
  }
  return sum;
}

}  // namespace kith::ladder
