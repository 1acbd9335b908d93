// The steps of a tree's build on a device, as build.cpp puts them together. All run in the order of a stream.
//
// Codes: a range of points has a box; the box's cells are halved again and again across the longest side, one
// bit of the code each time, so that bits of the axes interleave as in a Morton code (Morton 1966) and are
// spent where the points are spread. For an octree all sides count as the longest, and cells are cubes.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kith/dataset.hpp"
#include "point_tree/layout.hpp"

namespace kith::point_tree::build_steps {

/// Rows on the device as T.
template <class T>
struct Source {
  const T* data;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t dim;
};

/// How an axis of a range enters the codes of its points.
struct Axis {
  double lower;
  double extent;       ///< of the box, or half of it where `halved`
  double cells;        ///< 2^(bits of this axis)
  double scale;        ///< cells / extent; infinite where that is
  std::uint64_t mask;  ///< which bits of a code are this axis', the regular ones excepted
  int regular;         ///< so many lower bits of the cell are `dim` bits of the code apart, for dim up to 3,
  int first;           ///< beginning with this one
  bool halved;         ///< lower and upper are too far apart for a double
};

/// Of boxes: the bits of a double, in an order that integers have.
struct Bounds {
  unsigned long long lower, upper;
};

/// A node before it is laid out. Node 0 is the root; children have higher numbers than their parents.
template <class Id>
struct Sketch {
  Id begin[node_width + 1];  ///< before it is divided: where it begins and ends
  std::int32_t child[node_width];
  Id key;  ///< where its codes begin
  std::int32_t count;
  std::int32_t parent;
  std::uint32_t level_slot;  ///< level * 16 + which child of its parent it is
};

/// Points that share a whole code and are too many for a leaf: a child of a node that is not decided yet.
template <class Id>
struct Range {
  Id begin, count;
  Id offset;  ///< where it begins among all points of the list's ranges
  std::int32_t node, slot;
};

/// Ranges of a list and their points, counted by one atomic: ranges come in the order of their offsets.
constexpr unsigned range_shift = 34;
constexpr std::int64_t most_points = std::int64_t{1} << range_shift;

/// Rounds cut at least one bit of a code each step.
constexpr int most_steps = 66;

/// What the steps count. Zeroed before the build.
struct Counts {
  unsigned long long nan_rows, infinite_rows;
  unsigned long long stuck, refined;  ///< (ranges << range_shift) + points
  unsigned long long first;           ///< node of this round's first step
  unsigned int levels;
  unsigned int steps[most_steps + 1];  ///< nodes of each step of this round
};

/// Rows of any type to float, f64 to double, side by side.
void convert(const DatasetView& rows, void* to, cudaStream_t stream);

/// The box of the finite rows, as bounds[dim].
template <class T>
void find_box(const Source<T>& rows, Bounds* bounds, int device, cudaStream_t stream);

/// axes[range][dim] for codes of so many bits.
void plan_axes(const Bounds* bounds, std::int64_t ranges, std::int64_t dim, int bits, bool cubes, Axis* axes,
               cudaStream_t stream);

/// Codes of `bits` bits and the rows they are of. Rows with an infinity have the code 1 << bits, those with a
/// NaN the one behind it; both are counted.
template <class T, class Id>
void encode(const Source<T>& rows, const Axis* axes, int bits, std::uint64_t* keys, Id* numbers,
            Counts* counts, int device, cudaStream_t stream);

/// Bytes that sort() needs besides its arrays.
template <class Id>
std::size_t sort_bytes(std::int64_t count, int bits);

/// Sorts by key, equal keys staying in order; arrays [0] and [1] take turns. Returns which holds the result.
template <class Id>
int sort(std::uint64_t* const keys[2], Id* const values[2], std::int64_t count, int bits, void* temporary,
         std::size_t temporary_bytes, cudaStream_t stream);

/// Makes the root of the sorted points, the first step of round 0.
template <class Id>
void start(std::int64_t rows, Sketch<Id>* nodes, Counts* counts, cudaStream_t stream);

/// Divides the nodes of a step; their children that are nodes are those of the next.
template <class Id>
void divide(const std::uint64_t* keys, Sketch<Id>* nodes, Range<Id>* stuck, Counts* counts, int step,
            std::int64_t leaf_size, int device, cudaStream_t stream);

/// Marks the ranges whose points are not all equal.
template <class T, class Id>
void compare(const Source<T>& rows, const Id* numbers, const Range<Id>* stuck, std::int64_t ranges,
             std::int64_t points, unsigned char* different, cudaStream_t stream);

/// Makes leaves of equal points of some ranges, and nodes, numbered from `first_node`, of the others.
template <class Id>
void settle(const Range<Id>* stuck, std::int64_t ranges, const unsigned char* different, Sketch<Id>* nodes,
            std::int64_t first_node, Range<Id>* refined, Counts* counts, cudaStream_t stream);

/// Lays out the points of the ranges that are equal.
template <class T, class Id>
void write_equal(const Source<T>& rows, const Id* numbers, const Range<Id>* stuck, std::int64_t ranges,
                 std::int64_t points, const unsigned char* different, T* coordinates, cudaStream_t stream);

/// bounds[range][dim] of ranges.
template <class T, class Id>
void find_boxes(const Source<T>& rows, const Id* numbers, const Range<Id>* refined, std::int64_t ranges,
                std::int64_t points, Bounds* bounds, cudaStream_t stream);

/// Codes of `bits` bits below the number of the range.
template <class T, class Id>
void encode_ranges(const Source<T>& rows, const Id* numbers, const Range<Id>* refined, std::int64_t ranges,
                   std::int64_t points, const Axis* axes, int bits, std::uint64_t* keys, Id* values,
                   cudaStream_t stream);

/// Puts sorted row numbers back where their ranges are.
template <class Id>
void scatter(const Id* sorted, const Range<Id>* refined, std::int64_t ranges, std::int64_t points,
             Id* numbers, cudaStream_t stream);

/// Lays out nodes and leaves; boxes of children that are nodes are left to lift(). `nodes` is zeroed.
template <class T, class Id>
void write_nodes(const Source<T>& rows, const Id* numbers, const Sketch<Id>* sketches, std::int64_t nodes,
                 unsigned char* to, T* coordinates, cudaStream_t stream);

/// Writes the boxes of nodes [first, first + count) into their parents.
template <class T, class Id>
void lift(const Sketch<Id>* sketches, std::int64_t first, std::int64_t count, std::int64_t dim,
          unsigned char* nodes, cudaStream_t stream);

/// to[i][dim]: the rows numbers[i].
template <class T, class Id>
void gather(const Source<T>& rows, const Id* numbers, std::int64_t count, double* to, std::int64_t* row,
            cudaStream_t stream);

}  // namespace kith::point_tree::build_steps
