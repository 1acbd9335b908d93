// Writes the golden index files of the current format version into the folder named by the argument:
//   cmake --build build --target make_golden && build/bin/tests/make_golden tests/data/index_v1
#include <cstdio>
#include <filesystem>

#include "../unit/io/golden.hpp"
#include "kith/any_index.hpp"

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: make_golden FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = arguments[1];
  for (const kith::test::Golden& golden : kith::test::golden_files()) {
    const auto problem = kith::test::golden_problem(golden);
    const kith::conformance::Rows rows(problem.data, problem.dtype);
    kith::BruteForce::build(rows.view(), {golden.metric, golden.filter}).save(folder / golden.file);
  }
  for (const kith::test::GoldenTree& golden : kith::test::golden_trees()) {
    const auto problem = kith::test::golden_tree_problem(golden);
    const kith::conformance::Rows rows(problem.data, problem.dtype);
    kith::IndexParameters parameters = kith::Indexes::parameters(golden.index, golden.metric);
    kith::set_leaf_size(parameters, kith::test::golden_leaf_size);
    kith::AnyIndex::build(kith::Dataset::adopt(rows.view(), nullptr), parameters).save(folder / golden.file);
  }
  return 0;
}
