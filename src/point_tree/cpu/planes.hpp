// Planes of many neighbourhoods in space at once. Plain data: the kernel files include it (ARCHITECTURE.md).
#pragma once

#include <cstdint>

namespace kith::point_tree {

/// Neighbourhoods and where their planes go. A point's own row is among its neighbours, or not.
template <class T>
struct PlaneTask {
  const T* points;              ///< [.., 3]: neighbours
  const T* centers;             ///< [.., 3]: what neighbourhoods are around
  const std::int64_t* queries;  ///< [count]: the center and the plane of each; null: those of its number
  std::int64_t count;           ///< neighbourhoods
  /// Neighbours by their place among the points, in the order they are summed: [count, k], -1 behind the last
  /// of a list; or, where there are offsets, list i is [offsets[i], offsets[i + 1]).
  const std::int64_t* rows;
  std::int64_t k;
  const std::int64_t* offsets;
  const double* viewpoint;  ///< [3], or null
  /// NaN where a plane is not determined.
  double* normals;                ///< 3 values each
  std::int64_t normal_stride;     ///< values from one to the next
  double* curvature;              ///< one each, or null
  std::int64_t curvature_stride;  ///< values from one to the next
};

/// The bits of PlaneFit<3>::solve and orient (neighborhoods.hpp), a neighbourhood a lane.
struct PlaneKernels {
  void (*f32)(const PlaneTask<float>& task);
  void (*f64)(const PlaneTask<double>& task);

  void fit(const PlaneTask<float>& task) const;
  void fit(const PlaneTask<double>& task) const;
};

extern const PlaneKernels plane_kernels_avx2;
extern const PlaneKernels plane_kernels_avx512;
extern const PlaneKernels plane_kernels_neon;

/// Those of this machine; null: nothing quicker than plain code.
const PlaneKernels* plane_kernels();

}  // namespace kith::point_tree
