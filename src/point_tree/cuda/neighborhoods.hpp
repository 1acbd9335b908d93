// The kernels that reduce lists of neighbours, as the host calls them.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "point_tree/layout.hpp"

namespace kith::point_tree {

/// Coordinates by the caller's row, `stride` apart.
template <class T>
struct RowTable {
  T* values;
  std::int64_t stride;
};

/// Writes every point of a tree into a table, and its row into numbers[place]; null: not asked for.
template <class T, class Id>
void scatter_points(const TreeView<T, Id>& tree, const RowTable<T>& table, std::int64_t* numbers,
                    cudaStream_t stream);

/// queries[i] = the row numbers[i] of the table, [count, dim].
template <class T>
void gather_queries(const RowTable<T>& table, const std::int64_t* numbers, std::int64_t count,
                    std::int64_t dim, T* queries, cudaStream_t stream);

/// Lists of the rows numbers[0 .. count): that of the i-th at [i * k, ...), or by_row at [numbers[i] * k,
/// ...).
template <class T>
struct Lists {
  const std::int64_t* numbers;
  std::int64_t count;
  const std::int64_t* indices;
  const T* distances;
  std::int64_t k;
  bool by_row;
  bool without_self;  ///< lists hold k entries, one of which may be the row itself, which does not count
};

/// What a search by groups left of the points in places [first, first + count) (GroupSearch::cells): entry r
/// of the i-th at [r * stride + i].
struct Columns {
  const float4* points;  ///< of the tree, (x, y, z, row)
  const std::uint32_t* cells;
  std::int64_t first;
  std::int64_t count;
  std::int64_t stride;
  std::int64_t k;
};

/// The NaN that the host has.
void fill_with_nan(double* values, std::int64_t count, cudaStream_t stream);

/// numbers[i] = the row of the point in the place numbers[i].
void rows_of_places(const float4* points, std::int64_t* numbers, std::int64_t count, cudaStream_t stream);

/// What planes take: by the caller's row, the normal's values and in the last place the curvature; NaN where
/// there is none.
inline constexpr std::int64_t plane_values = 4;

/// Planes of some rows; the others' are left as they are. `viewpoint` may be null.
template <class T>
void fit_planes(const Lists<T>& lists, const RowTable<T>& table, std::int64_t dim, const double* viewpoint,
                double* planes, cudaStream_t stream);
/// The same of columns of places.
void fit_planes(const Columns& columns, std::int64_t dim, const double* viewpoint, double* planes,
                cudaStream_t stream);
/// Planes as [rows, dim] and [rows]; `curvature` may be null.
void split_planes(const double* planes, std::int64_t rows, std::int64_t dim, double* normals,
                  double* curvature, cudaStream_t stream);

/// Mean distance, the farthest and the number of neighbours by the caller's row; each may be null.
template <class T>
void reduce_distances(const Lists<T>& lists, double* mean, double* farthest, std::int64_t* counts,
                      cudaStream_t stream);
/// The same of columns of distances.
void reduce_distances(const Columns& columns, double* mean, double* farthest, std::int64_t* counts,
                      cudaStream_t stream);

}  // namespace kith::point_tree
