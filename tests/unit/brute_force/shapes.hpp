// Data of one shape: rows, and queries of which the first is a row.
#pragma once

#include <cstdint>
#include <vector>

#include "conformance/problem.hpp"

namespace kith::brute_force {

struct Shape {
  const char* name;
  double (*value)(conformance::Random& random, std::int64_t row, std::int64_t column);
};

struct RowsAndQueries {
  reference::Matrix rows, queries;
};

inline RowsAndQueries make(const Shape& shape, std::int64_t rows, std::int64_t queries, std::int64_t dim) {
  conformance::Random random(static_cast<std::uint64_t>(dim) * 977 +
                             static_cast<std::uint64_t>(shape.name[0]));
  RowsAndQueries made{{rows, dim, std::vector<double>(static_cast<std::size_t>(rows * dim))},
                      {queries, dim, std::vector<double>(static_cast<std::size_t>(queries * dim))}};
  for (reference::Matrix* m : {&made.rows, &made.queries}) {
    for (std::int64_t i = 0; i < m->rows; ++i) {
      for (std::int64_t j = 0; j < dim; ++j) m->row(i)[j] = shape.value(random, i, j);
    }
  }
  for (std::int64_t j = 0; j < dim; ++j) made.queries.row(0)[j] = made.rows.row(3)[j];
  return made;
}

}  // namespace kith::brute_force
