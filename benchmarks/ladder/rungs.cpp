// The table of rungs: what each is called, where it runs, what it does not do.
#include <algorithm>
#include <string>

#include "coarse.hpp"
#include "graph_case.hpp"
#include "kith/execution.hpp"
#include "ladder.hpp"

namespace kith::ladder {
namespace {

std::string words(std::int64_t number) {
  return std::to_string(number);
}

template <std::int64_t kilo, Inside inside>
Answer in_leaves(const Problem& problem, Run& run) {
  return two_layers(problem, run, kilo * 1024, inside);
}

// --- why a rung cannot

// Rows are counted by an int.
std::string too_many_points(const Problem& problem) {
  return problem.points <= std::numeric_limits<int>::max() ? "" : "counts points by 32 bits";
}
std::string any(const Problem& problem) {
  return problem.bytes() ? "reads rows of float32, and these are bytes" : too_many_points(problem);
}
std::string one_neighbor(const Problem& problem) {
  return problem.k == 1 ? any(problem) : "finds the nearest only, not k = " + words(problem.k);
}
std::string short_list(const Problem& problem) {
  return problem.k <= longest_list
             ? any(problem)
             : "its lists hold " + words(longest_list) + " neighbours, not " + words(problem.k);
}
std::string fits_texture(const Problem& problem) {
  const std::int64_t rows = (problem.points + texture_width - 1) / texture_width * problem.dim;
  return rows <= texture_width ? one_neighbor(problem)
                               : "needs " + words(rows) + " rows of texture, of which there are 65,536";
}
std::string fits_constant(const Problem& problem) {
  return problem.dim <= constant_values ? one_neighbor(problem)
                                        : "constant memory holds " + words(constant_values) +
                                              " values, a query has " + words(problem.dim);
}
std::string space_of_the_engine(const Problem& problem) {
  return problem.dim == 3 ? "" : "is for 3 dimensions, not " + words(problem.dim);
}
std::string space(const Problem& problem) {
  return problem.dim == 3 ? any(problem) : space_of_the_engine(problem);
}
std::string space_short_list(const Problem& problem) {
  return problem.dim == 3 ? short_list(problem) : space(problem);
}
std::string nothing(const Problem& /*problem*/) {
  return "";
}

// --- why a rung should not

std::string several_neighbors(const Problem& problem) {
  return problem.k > 1 ? "" : "is for k > 1; rungs 2 to 10 are for k = 1";
}
// A thread a query, and a long walk for each.
std::string short_walk(const Problem& problem) {
  constexpr std::int64_t most = std::int64_t{1} << 20;
  return problem.points <= most ? ""
                                : "one thread walks over all " + words(problem.points) + " points: seconds";
}
std::string worth_a_tree(const Problem& problem) {
  constexpr std::int64_t most = std::int64_t{1} << 20;
  if (problem.points > most) {
    return "one thread builds the tree: more than 1,048,576 points take longer than any search here";
  }
  return problem.dim <= 16 ? "" : "a tree in " + words(problem.dim) + " dimensions visits every point";
}
std::string worth_a_fast_tree(const Problem& problem) {
  constexpr std::int64_t most = std::int64_t{1} << 20;
  if (problem.queries == 1 && problem.points > most) return "a tree does not pay for one query";
  return problem.dim <= 16 ? "" : "a tree in " + words(problem.dim) + " dimensions visits every point";
}

std::string of_tiles(const Problem& problem) {
  return problem.tiles ? "" : "is for --case tiles";
}

// --- rungs of graphs

std::string of_graph(const Problem& problem) {
  return problem.graph != nullptr ? "" : "is for --case graph";
}
std::string fits_block(const Problem& problem) {
  if (problem.graph == nullptr) return of_graph(problem);
  const std::int64_t longest = std::max(problem.graph->list_size(), 2 * problem.graph->degree());
  return longest <= longest_worklist
             ? ""
             : "sorts and merges lists in shared memory, of " + words(longest_worklist) +
                   " entries at most, not " + words(longest);
}
template <std::int64_t bytes>
std::string codes_of(const Problem& problem) {
  return problem.dim >= bytes
             ? fits_block(problem)
             : "has " + words(bytes) + " parts a code, and a row has " + words(problem.dim) + " values";
}

#ifdef KITH_CUDA_ENABLED
#define KITH_GPU_RUNG(function) function
#else
#define KITH_GPU_RUNG(function) nullptr
#endif

}  // namespace

const std::vector<Rung>& rungs() {
  using enum Hardware;
  static const std::vector<Rung> table = {
      {1, "serial", "Serial loop", cpu, false, serial, any, nothing},
      {2, "matrix-thrust", "Matrix, thrust::min_element a query", gpu, false, KITH_GPU_RUNG(matrix_thrust),
       one_neighbor, nothing},
      {3, "matrix-reduction", "Matrix, reduction in shared memory", gpu, false,
       KITH_GPU_RUNG(matrix_reduction), one_neighbor, nothing},
      {4, "fused", "Distance and reduction fused", gpu, false, KITH_GPU_RUNG(fused), one_neighbor, nothing},
      {5, "by-coordinate", "Points coordinate by coordinate", gpu, false, KITH_GPU_RUNG(by_coordinate),
       one_neighbor, nothing},
      {6, "texture", "Points through texture memory", gpu, false, KITH_GPU_RUNG(texture), fits_texture,
       nothing},
      {7, "constant", "Queries in constant memory", gpu, false, KITH_GPU_RUNG(constant), fits_constant,
       nothing},
      {8, "occupancy", "Several blocks a query, by occupancy", gpu, false, KITH_GPU_RUNG(occupancy),
       one_neighbor, nothing},
      {9, "several-gpus", "Several GPUs", gpus, false, KITH_GPU_RUNG(several_gpus), one_neighbor, nothing},
      {10, "unrolled", "Unrolled reduction", gpu, false, KITH_GPU_RUNG(unrolled), one_neighbor, nothing},
      {11, "insertion", "One thread a query, insertion", gpu, false, KITH_GPU_RUNG(insertion), short_list,
       several_neighbors},
      {12, "tiled", "Distances by tiles in shared memory", gpu, false, KITH_GPU_RUNG(tiled), short_list,
       several_neighbors},
      {13, "merged-lists", "A list a thread, merged by reduction", gpu, false, KITH_GPU_RUNG(merged_lists),
       short_list, several_neighbors},
      {14, "tuned-lists", "The same, block size tuned", gpu, false, KITH_GPU_RUNG(tuned_lists), short_list,
       several_neighbors},
      {15, "kd-tree", "k-d tree", cpu, false, kd_tree, any, worth_a_tree},
      {16, "kd-tree-gpu", "That tree on the GPU", gpu, false, KITH_GPU_RUNG(kd_tree_gpu), short_list,
       worth_a_tree},
      {17, "octree", "Octree", cpu, false, octree, space, worth_a_tree},
      {18, "octree-gpu", "That octree on the GPU", gpu, false, KITH_GPU_RUNG(octree_gpu), space_short_list,
       worth_a_tree},
      {19, "insertion-sort", "Two kernels, modified insertion sort", gpu, false,
       KITH_GPU_RUNG(insertion_sort), any, short_walk},
      {20, "engine-cpu", "Kith: brute force", cpu, true, engine_cpu, nothing, nothing},
      {21, "engine-kd-tree-cpu", "Kith: k-d tree", cpu, true, engine_kd_tree_cpu, nothing, worth_a_fast_tree},
      {22, "engine-octree-cpu", "Kith: octree", cpu, true, engine_octree_cpu, space_of_the_engine,
       worth_a_fast_tree},
      {23, "engine", "Kith: brute force", gpu, true, KITH_GPU_RUNG(engine_gpu), nothing, nothing},
      {24, "engine-kd-tree", "Kith: k-d tree", gpu, true, KITH_GPU_RUNG(engine_kd_tree_gpu), nothing,
       worth_a_fast_tree},
      {25, "engine-octree", "Kith: octree", gpu, true, KITH_GPU_RUNG(engine_octree_gpu), space_of_the_engine,
       worth_a_fast_tree},
      {26, "engine-several-gpus", "Kith: brute force, several GPUs", gpus, true,
       KITH_GPU_RUNG(engine_several_gpus), nothing, nothing},
      {27, "best-first", "Best-first search, leaves of 16", cpu, false, best_first, any, of_tiles},
      {28, "leaf-brute-4k", "Brute force in leaves of 4k", cpu, false, in_leaves<4, Inside::brute_force>, any,
       of_tiles},
      {29, "leaf-brute-16k", "Brute force in leaves of 16k", cpu, false, in_leaves<16, Inside::brute_force>,
       any, of_tiles},
      {30, "leaf-brute-64k", "Brute force in leaves of 64k", cpu, false, in_leaves<64, Inside::brute_force>,
       any, of_tiles},
      {31, "leaf-brute-256k", "Brute force in leaves of 256k", cpu, false,
       in_leaves<256, Inside::brute_force>, any, of_tiles},
      {32, "leaf-brute-1m", "Brute force in leaves of 1M", cpu, false, in_leaves<1024, Inside::brute_force>,
       any, of_tiles},
      {33, "leaf-brute-4m", "Brute force in leaves of 4M", cpu, false, in_leaves<4096, Inside::brute_force>,
       any, of_tiles},
      {34, "leaf-tree-4k", "k-d tree in leaves of 4k", cpu, false, in_leaves<4, Inside::tree>, any, of_tiles},
      {35, "leaf-tree-16k", "k-d tree in leaves of 16k", cpu, false, in_leaves<16, Inside::tree>, any,
       of_tiles},
      {36, "leaf-tree-64k", "k-d tree in leaves of 64k", cpu, false, in_leaves<64, Inside::tree>, any,
       of_tiles},
      {37, "leaf-tree-256k", "k-d tree in leaves of 256k", cpu, false, in_leaves<256, Inside::tree>, any,
       of_tiles},
      {38, "leaf-tree-1m", "k-d tree in leaves of 1M", cpu, false, in_leaves<1024, Inside::tree>, any,
       of_tiles},
      {39, "leaf-tree-4m", "k-d tree in leaves of 4M", cpu, false, in_leaves<4096, Inside::tree>, any,
       of_tiles},
      {40, "engine-tiles", "Kith: point tiles on disk, of 64k", cpu, true, engine_tiles, nothing, of_tiles},
      {41, "vamana-walk", "Vamana walk, one query at a time", cpu, false, vamana_walk, of_graph, nothing,
       0.85},
      {42, "bang-base", "BANG Base: graph, vectors on the host", gpu, false, KITH_GPU_RUNG(bang_base),
       fits_block, nothing, 0.85},
      {43, "bang-in-memory", "BANG In-memory: all on the GPU", gpu, false, KITH_GPU_RUNG(bang_in_memory),
       fits_block, nothing, 0.85},
      {44, "bang-exact", "BANG Exact: distances of full rows", gpu, false, KITH_GPU_RUNG(bang_exact),
       fits_block, nothing, 0.85},
      {45, "bang-no-prefetch", "Base, candidate after the merge", gpu, false, KITH_GPU_RUNG(bang_no_prefetch),
       fits_block, nothing, 0.85},
      {46, "bang-no-async", "Base, every copy waited for", gpu, false, KITH_GPU_RUNG(bang_no_async),
       fits_block, nothing, 0.85},
      {47, "bang-no-bloom", "In-memory without the Bloom filter", gpu, false, KITH_GPU_RUNG(bang_no_bloom),
       fits_block, nothing, 0},
      {48, "bang-atomic-add", "In-memory, sums by atomicAdd", gpu, false, KITH_GPU_RUNG(bang_atomic_add),
       fits_block, nothing, 0.85},
      {49, "bang-one-size", "In-memory, blocks of one size", gpu, false, KITH_GPU_RUNG(bang_one_size),
       fits_block, nothing, 0.85},
      {50, "bang-8-bytes", "In-memory, codes of 8 bytes", gpu, false, KITH_GPU_RUNG(bang_8_bytes),
       codes_of<8>, nothing, 0.05},
      {51, "bang-16-bytes", "In-memory, codes of 16 bytes", gpu, false, KITH_GPU_RUNG(bang_16_bytes),
       codes_of<16>, nothing, 0.2},
      {52, "bang-32-bytes", "In-memory, codes of 32 bytes", gpu, false, KITH_GPU_RUNG(bang_32_bytes),
       codes_of<32>, nothing, 0.5},
      {53, "bang-64-bytes", "In-memory, codes of 64 bytes", gpu, false, KITH_GPU_RUNG(bang_64_bytes),
       codes_of<64>, nothing, 0.75},
      {54, "engine-graph-cpu", "Kith: Vamana", cpu, true, engine_graph_cpu, of_graph, nothing, 0.85},
      {55, "engine-graph", "Kith: Vamana", gpu, true, KITH_GPU_RUNG(engine_graph_gpu), of_graph, nothing,
       0.85},
  };
  return table;
}

}  // namespace kith::ladder
