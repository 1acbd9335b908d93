// Planes of many neighbourhoods in space at once. Plain data: the kernel files include it (ARCHITECTURE.md).
#pragma once

#include <cstdint>

namespace kith::point_tree {

/// Neighbourhoods and where their planes go. A point's own row is among its neighbours, or not.
template <class T>
struct PlaneTask {
  const T* points;              ///< [rows, 3]
  std::int64_t count;           ///< neighbourhoods
  const std::int64_t* queries;  ///< [count]: the row that each is around
  std::int64_t k;
  const std::int64_t* rows;  ///< [count, k]: neighbours, in the order they are summed; -1 behind the last
  const double* viewpoint;   ///< [3], or null
  double* normals;           ///< [rows, 3]; not written where there is no answer
  double* curvature;         ///< [rows], or null
};

/// The bits of PlaneFit<3>::solve and orient (neighborhoods.hpp), a neighbourhood a lane.
struct PlaneKernels {
  void (*f32)(const PlaneTask<float>& task);
  void (*f64)(const PlaneTask<double>& task);
};

extern const PlaneKernels plane_kernels_avx2;
extern const PlaneKernels plane_kernels_avx512;

/// Those of this machine; null: nothing quicker than plain code.
const PlaneKernels* plane_kernels();

}  // namespace kith::point_tree
