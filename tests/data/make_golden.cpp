// Writes the golden index files of the current format version into the folder named by the argument:
//   cmake --build build --target make_golden && build/bin/tests/make_golden tests/data/index_v1
#include <cstdio>
#include <filesystem>

#include "../unit/io/golden.hpp"

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: make_golden FOLDER\n", stderr);
    return 2;
  }
  for (const kith::test::Golden& golden : kith::test::golden_files()) {
    const auto problem = kith::test::golden_problem(golden);
    const kith::conformance::Rows rows(problem.data, problem.dtype);
    kith::BruteForce::build(rows.view(), {golden.metric, golden.filter})
        .save(std::filesystem::path(arguments[1]) / golden.file);
  }
  return 0;
}
